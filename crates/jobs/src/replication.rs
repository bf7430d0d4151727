//! Temporal replication: watches a queue, and reports to the volume the progress of jobs whose input gets second
//! copies.
//!
//! ```text
//!   queue --picture--> ReplicaTable --events--> policy::protect::replica, in the volume's loop
//! ```
//! The queue is polled every few seconds. A queue that does not answer changes nothing: copies stay, and
//! planned ones are still made.

mod replica_table;

use crate::queue::Queue;
use crate::request::InputReplica;
use object::workers::{END_SPAN, Periodic, Pool};
use parking_lot::Mutex;
use policy::protect::replica::{CreateReason, Event, JobId, Life, Protection};
use policy::{FileId, Time};
use replica_table::ReplicaTable;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The volume, as the maker of copies. All calls may block.
pub trait Copies: Send + Sync + 'static {
    /// Whether this node makes the copies.
    fn is_here(&self) -> bool;
    /// The files at or below these paths that can be copied.
    fn files_of(&self, inputs: &[PathBuf]) -> Vec<FileId>;
    /// Reports events of jobs, in this order.
    fn tell(&self, events: Vec<Event>);
    /// Whether there are any copies, including those of an earlier daemon.
    fn any(&self) -> bool;
    /// Protection of the input of a job, and the present time on the same clock.
    fn protection(&self, job: JobId) -> (Vec<Protection>, Time);
    /// Whether processes of that user's job had the file open and have closed it. False where it cannot be observed.
    fn has_closed(&self, job: &str, user: &str, file: FileId) -> bool;
}

/// Watcher of one queue.
pub struct Replication {
    shared: Arc<Shared>,
    watch: Periodic,
}

struct Shared {
    table: Mutex<ReplicaTable>,
    copies: Arc<dyn Copies>,
}

impl Replication {
    /// Starts to watch the queue, with a poll at this interval. `is_on`: whether any job's input is copied.
    pub fn start(
        (is_on, poll): (bool, Duration),
        queue: Arc<dyn Queue>,
        copies: Arc<dyn Copies>,
        threads: &Pool,
    ) -> std::io::Result<Replication> {
        let shared = Arc::new(Shared { table: Mutex::default(), copies });
        let (own, complained) = (shared.clone(), Mutex::new(false));
        let watch = Periodic::new(threads, move || {
            // Without the policy, copies of an earlier one are removed.
            let any = is_on || own.copies.any();
            any.then(|| look(&own, &*queue, &mut complained.lock())).map(|()| poll)
        });
        watch.wake()?;
        Ok(Replication { shared, watch })
    }

    /// Replication of a file of a job, by the job's number in the queue.
    pub fn kept(&self, job: &str, file: FileId) -> Option<InputReplica> {
        let job = self.shared.table.lock().number(job)?;
        let (all, now) = self.shared.copies.protection(job);
        let of = all.into_iter().find(|protection| protection.file == file)?;
        Some(InputReplica { copy: copy_text(of.life, now), why: why_text(of.reason, of.life), at_risk: of.at_risk })
    }

    /// Ends the watch; copies stay, and the next start takes them over.
    pub fn stop(&self) {
        self.watch.stop(END_SPAN);
    }
}

fn copy_text(life: Option<Life>, now: Time) -> String {
    let seconds = |span: Time| span.0 / 1_000_000_000;
    match life {
        None => "no second copy".into(),
        Some(Life::Queued { .. }) => "a second copy waits for its turn to be made".into(),
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
        Some(reason) => reason.to_string(),
        None if life.is_some() => "made for another job".into(),
        None => "the job is not in the replication window".into(),
    }
}

fn look(shared: &Shared, queue: &dyn Queue, complained: &mut bool) {
    let copies = &*shared.copies;
    if !copies.is_here() {
        return;
    }
    match queue.snapshot() {
        Ok(picture) => {
            *complained = false;
            // The files are looked up before the lock, since that calls the volume.
            let fresh = shared.table.lock().unknown(&picture);
            let inputs = fresh.into_iter().map(|(id, inputs)| (id, copies.files_of(&inputs))).collect();
            let events = shared.table.lock().take(&picture, inputs);
            copies.tell(events);
        }
        Err(error) if *complained => tracing::debug!("the queue cannot be read: {error}"),
        Err(error) => {
            *complained = true;
            tracing::warn!("the queue cannot be read, replication uses its last listing: {error}");
        }
    }
    look_for_closed(shared);
}

/// Files that running jobs had open and have closed.
fn look_for_closed(shared: &Shared) {
    let watched = shared.table.lock().in_use();
    for (job, name, user, file) in watched {
        if shared.copies.has_closed(&name, &user, file) && shared.table.lock().closed(job, file) {
            shared.copies.tell(vec![Event::Closed { job, file }]);
        }
    }
}

#[cfg(test)]
mod tests;
