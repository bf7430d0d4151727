//! Temporal replication: watches a queue and keeps second copies of the input of jobs that start soon.
//!
//! ```text
//!   queue --picture--> ReplicaTable --events--> policy::protect::replica --actions--> copies of files
//! ```
//! One thread looks at the queue every few seconds and carries out what the machine decides; copies are made on threads of
//! their own, as many at once as the machine allows, and removed one after the other. A queue that does not answer changes
//! nothing: what is there stays, what is wanted is still made.

mod replica_table;

use crate::queue::Queue;
use crate::request::Kept;
use parking_lot::{Condvar, Mutex};
use policy::protect::replica::{Action, Config, CreateReason, Event, Life, Strategy};
use policy::{FileId, Time};
use replica_table::ReplicaTable;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A removal that did not succeed is tried again after this span. A guess: somebody ends a move within seconds.
const REMOVE_AGAIN: Duration = Duration::from_secs(2);

/// The copies of files that replication orders. All calls may block.
pub trait Copies: Send + Sync + 'static {
    /// The files at or below these paths that can be copied, with their paths.
    fn files_of(&self, inputs: &[PathBuf]) -> Vec<(FileId, PathBuf)>;
    /// Makes the copy of a file; returns when it is complete.
    fn create(&self, file: FileId, path: &std::path::Path) -> Result<(), String>;
    /// Removes a file's copy; done too when there is none. An error is tried again.
    fn remove(&self, file: FileId) -> Result<(), String>;
    /// The files of which an earlier daemon left a complete copy.
    fn there(&self) -> Vec<FileId>;
    /// Whether processes of that job of that user had the file open and have closed it. Where nobody can tell, they have not.
    fn has_closed(&self, job: &str, user: &str, file: FileId) -> bool;
    /// Jobs with input that were dispatched since the last call, and how many of them were at risk.
    fn count(&self, dispatched: u64, at_risk: u64);
}

/// How replication works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine's settings; the size of the system comes from the queue.
    pub machine: Config,
    /// Between two looks at the queue.
    pub poll: Duration,
}

/// The driver for one queue.
pub struct Replication {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    table: Mutex<ReplicaTable>,
    copies: Arc<dyn Copies>,
    stopped: Mutex<bool>,
    woken: Condvar,
    began: Instant,
}

impl Replication {
    /// Starts watching.
    pub fn start(settings: Settings, queue: Arc<dyn Queue>, copies: Arc<dyn Copies>) -> std::io::Result<Replication> {
        let (poll, idle) = (settings.poll, settings.machine.strategy == Strategy::None);
        let shared = Arc::new(Shared {
            table: Mutex::new(ReplicaTable::new(settings.machine)),
            copies,
            stopped: Mutex::new(false),
            woken: Condvar::new(),
            began: Instant::now(),
        });
        let own = shared.clone();
        let thread =
            std::thread::Builder::new().name("replication".into()).spawn(move || watch(&own, &*queue, poll, idle))?;
        Ok(Replication { shared, thread: Mutex::new(Some(thread)) })
    }

    /// What protects a file of a job, by the job's number in the queue.
    pub fn kept(&self, job: &str, file: FileId) -> Option<Kept> {
        let table = self.shared.table.lock();
        let protection = table.protection(job).into_iter().find(|p| p.file == file)?;
        Some(Kept {
            copy: copy_text(protection.life, self.shared.now()),
            why: why_text(protection.reason, protection.life),
            at_risk: protection.at_risk,
        })
    }

    /// Ends the driver; copies stay and are taken over at the next start.
    pub fn stop(&self) {
        *self.shared.stopped.lock() = true;
        self.shared.woken.notify_all();
        if self.thread.lock().take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("bug: replication panicked");
        }
    }
}

fn copy_text(life: Option<Life>, now: Time) -> String {
    let seconds = |span: Time| span.0 / 1_000_000_000;
    match life {
        None => "no second copy".into(),
        Some(Life::Queued) => "a second copy waits for its turn to be made".into(),
        Some(Life::Creating { since }) => format!("a second copy is being made since {} s", seconds(now.since(since))),
        Some(Life::Complete) => "a second copy is complete".into(),
        Some(Life::InUse) => "a second copy is complete and in use".into(),
        Some(Life::Failed { retry_at }) => {
            format!("a second copy could not be made; tried again in {} s", seconds(retry_at.since(now)))
        }
        Some(Life::Removing) => "its second copy is being removed".into(),
    }
}

fn why_text(reason: Option<CreateReason>, life: Option<Life>) -> String {
    match reason {
        Some(CreateReason::InWindow { window }) => {
            format!("the job is one of the first {window}, the replication window")
        }
        Some(CreateReason::Shortcut) => "the job is small and may start out of its turn".into(),
        Some(CreateReason::All) => "the input of all jobs is copied".into(),
        Some(CreateReason::Shared) => "another job has had it made".into(),
        None if life.is_some() => "made for another job".into(),
        None => "the job is not in the replication window".into(),
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Waits; whether to go on.
    fn nap(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut stopped = self.stopped.lock();
        while !*stopped && !self.woken.wait_until(&mut stopped, until).timed_out() {}
        !*stopped
    }
}

fn watch(shared: &Arc<Shared>, queue: &dyn Queue, poll: Duration, idle: bool) {
    let there = shared.copies.there();
    if idle && there.is_empty() {
        return; // no policy, and nothing left of one
    }
    shared.table.lock().adopt(shared.now(), there);
    let mut complained = false;
    loop {
        match queue.snapshot() {
            Ok(picture) => {
                complained = false;
                let copies = &shared.copies;
                // The files are looked up before the lock: that asks the volume.
                let fresh = shared.table.lock().unknown(&picture);
                let inputs = fresh.into_iter().map(|(id, inputs)| (id, copies.files_of(&inputs))).collect();
                shared.table.lock().take(shared.now(), &picture, inputs);
            }
            Err(error) if complained => tracing::debug!("the {} queue is not seen: {error}", queue.name()),
            Err(error) => {
                complained = true;
                tracing::warn!("the {} queue is not seen, replication goes by its last picture: {error}", queue.name());
            }
        }
        look_for_closed(shared);
        carry_out(shared);
        if !shared.nap(poll) {
            return;
        }
    }
}

/// Files that running jobs had open and have open no more.
fn look_for_closed(shared: &Shared) {
    let watched = shared.table.lock().in_use();
    for (job, name, user, file) in watched {
        if shared.copies.has_closed(&name, &user, file) {
            shared.table.lock().closed(shared.now(), job, file);
        }
    }
}

fn carry_out(shared: &Arc<Shared>) {
    let mut table = shared.table.lock();
    let (dispatched, at_risk) = table.news(shared.now());
    if dispatched > 0 {
        shared.copies.count(dispatched, at_risk);
    }
    while let Some(action) = table.poll() {
        match action {
            Action::Create { file, .. } => {
                let Some(path) = table.path(file) else {
                    table.handle(shared.now(), Event::CreateFailed { file });
                    continue;
                };
                let (this, work_path) = (shared.clone(), path);
                let work = move || {
                    let made = this.copies.create(file, &work_path);
                    if let Err(error) = &made {
                        tracing::info!("{}: no second copy for now: {error}", work_path.display());
                    }
                    let event = if made.is_ok() { Event::Created { file } } else { Event::CreateFailed { file } };
                    this.table.lock().made(this.now(), file, event);
                    carry_out(&this);
                };
                if std::thread::Builder::new().name("copy".into()).spawn(work).is_err() {
                    table.handle(shared.now(), Event::CreateFailed { file });
                }
            }
            Action::Remove { file, .. } => {
                table.removing(file);
                let this = shared.clone();
                // Waits for a copy under way, which is of no use any more, and then removes it.
                let work = move || remove(&this, file);
                if let Err(error) = std::thread::Builder::new().name("uncopy".into()).spawn(work) {
                    tracing::error!("no thread to remove a copy, the next start does it: {error}");
                    table.removed(shared.now(), file);
                }
            }
        }
    }
}

fn remove(shared: &Arc<Shared>, file: FileId) {
    loop {
        let busy = shared.table.lock().is_being_made(file);
        if !busy {
            match shared.copies.remove(file) {
                Ok(()) => break,
                Err(error) => tracing::info!("the second copy of file {file} stays for now: {error}"),
            }
        }
        if !shared.nap(REMOVE_AGAIN) {
            return; // the next start finds it
        }
    }
    shared.table.lock().removed(shared.now(), file);
    carry_out(shared);
}

#[cfg(test)]
mod tests;
