//! One burst buffer for all nodes: the leader decides, and the others send it requests and reports.
//!
//! ```text
//!   a node that follows                             the node that leads
//!   write -> credit -- Write ---------------------> admission (turn, room, speed) -- answer
//!   last close: sync -- Stands -------------------> table: all closed on all nodes -> complete
//!   checkpoint commit ----------------------------> Settle -> all that wrote it: sync -- answer -> complete
//! ```
//! Complete, announced and marked versions are in the state store; versions being written are known only to their
//! writers. A new leader receives the state of all writers again and completes no version before a grace period is
//! over. [`crate::calls`] repeats requests until they are answered.

mod announce;
mod call;
mod follow;
mod lead;
mod request;

pub use request::Command;

use super::open::OpenCheckpoint;
use super::record::{self, Period};
use super::{Adapt, Burst, CheckpointTable, Lane, Marks, queue};
use crate::Result;
use crate::calls::{Answer, Calls, Reply, SILENT, To};
use follow::Kept;
use meta::messages::Talk;
use meta::stub::Inode;
use parking_lot::Mutex;
use policy::burst::admission::Event as AdmissionEvent;
use policy::burst::buffer;
use request::{By, Named, Request, Stand};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Grace period for the other nodes' states, before a new leader completes a version. A guess: nodes notice a new
/// leader within a second or two.
const GRACE: Duration = Duration::from_secs(10);
/// Name of the calls between nodes.
const SERVICE: &str = "burst";
/// Interval between checks for a new leader and for changed states of files. A guess.
const EVERY: Duration = Duration::from_millis(250);
/// Interval of attempts after a failed one. A guess.
const AGAIN: Duration = Duration::from_millis(1000);

/// State that a node shares with the others.
pub struct Shared {
    /// Whether this node decides about the buffer.
    decides: AtomicBool,
    /// Time since which this node decides.
    since: Mutex<Option<Instant>>,
    /// Whether the periodic work is running.
    tending: AtomicBool,
    tended: Mutex<Option<Instant>>,
    kept: Kept,
    /// Time of the last read of the announcements.
    announced_at: Mutex<Option<Instant>>,
    calls: Arc<Calls>,
}

impl Shared {
    pub fn new(calls: Arc<Calls>) -> Shared {
        Shared {
            decides: AtomicBool::new(false),
            since: Mutex::default(),
            tending: AtomicBool::new(false),
            tended: Mutex::default(),
            kept: Kept::default(),
            announced_at: Mutex::default(),
            calls,
        }
    }

    fn talk(&self) -> &dyn Talk {
        self.calls.talk()
    }

    fn by(&self) -> By {
        By { name: self.talk().own().to_owned(), node: self.talk().me().0 }
    }

    fn notify(&self, to: &To, request: &Request) {
        self.calls.notify(to, SERVICE, request);
    }

    /// The kept entry of a file that is opened again while its version is incomplete.
    pub fn written_before(&self, app: &str, label: &str, path: &str, inode: Inode) -> Option<Arc<OpenCheckpoint>> {
        let of = self.kept.at(path)?;
        ((&*of.app, &*of.label, of.file.stub().inode()) == (app, label, Some(inode))).then_some(of)
    }
}

impl OpenCheckpoint {
    fn named(&self) -> Named {
        let inode = self.file.stub().inode().map_or(0, |(_, inode)| inode);
        Named { app: self.app.clone(), label: self.label.clone(), path: self.path.clone(), inode }
    }

    /// State of the file on this node.
    fn stand(&self) -> Stand {
        Stand {
            of: self.named(),
            number: (self.since_ns, self.stands.load(Ordering::Acquire)),
            writes: self.writers.load(Ordering::Acquire) > 0,
            emptied: self.emptied.load(Ordering::Acquire),
            missing: self.missing.ranges().into_iter().map(|range| (range.start, range.end)).collect(),
            unasked: self.unasked.load(Ordering::Acquire),
        }
    }
}

impl Burst {
    /// Whether this node decides about the buffer.
    pub fn decides(&self) -> bool {
        self.shared.get().is_none_or(|shared| shared.decides.load(Ordering::Acquire))
    }

    /// Shares the buffer with the other nodes. Called before anything is mounted.
    pub(crate) fn share(self: &Arc<Burst>, calls: Arc<Calls>) {
        drop(self.shared.set(Shared::new(calls.clone())));
        self.serve_calls();
        let driver = self.driver.clone();
        calls.register_queue(SERVICE, move |request, reply| {
            let lane = if let Request::Settle { .. } = request { Lane::Commits } else { Lane::Checkpoints };
            queue(&driver, lane, move |burst, adapt| burst.serve(adapt, request, reply));
        });
    }

    /// Sends a request. `done` handles the answer in the lane of checkpoints.
    fn request<T: DeserializeOwned + Send + 'static>(
        &self,
        request: &Request,
        done: impl FnOnce(&Burst, Answer<T>) + Send + 'static,
    ) -> u64 {
        let Some(shared) = self.shared.get() else { return 0 };
        let (driver, done) = (self.driver.clone(), Mutex::new(Some(done)));
        shared.calls.ask(&To::Leader, SERVICE, request, SILENT, move |answer| {
            if let Some(done) = done.lock().take() {
                queue(&driver, Lane::Checkpoints, move |burst, _| done(burst, answer));
            }
        })
    }

    /// Checks for a new leader, and reports changed states of files. Called often.
    pub(super) fn tend_shared(&self) {
        let Some(shared) = self.shared.get() else { return };
        let mut tended = shared.tended.lock();
        if tended.is_some_and(|at| at.elapsed() < EVERY) || shared.tending.swap(true, Ordering::AcqRel) {
            return;
        }
        *tended = Some(Instant::now());
        drop(tended);
        self.later(|burst, adapt| {
            let Some(shared) = burst.shared.get() else { return };
            match (shared.talk().leads(), shared.decides.load(Ordering::Acquire)) {
                (true, false) => {
                    if let Err(error) = burst.take_over(adapt) {
                        tracing::warn!(
                            "this node leads, and cannot read the contents of the burst buffer yet: {error}"
                        );
                    }
                }
                (false, true) => burst.hand_over(),
                (true, true) => burst.tend_others(),
                (false, false) => burst.tend_kept(),
            }
            shared.tending.store(false, Ordering::Release);
        });
    }

    /// Makes this node the deciding one, with the recorded state.
    fn take_over(&self, adapt: &Adapt) -> Result<()> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let (table, marks) = (CheckpointTable::open(&*self.state)?, Marks::open(&*self.state)?);
        let (sessions, period) = (record::SESSIONS.all(&*self.state)?, Period::recorded(&*self.state)?);
        self.tell(AdmissionEvent::HandOver);
        *self.table.lock() = table;
        *self.marks.write() = marks;
        *self.sessions.write() = sessions;
        if let Some(period) = period {
            self.tell_buffer(period.resumed());
        }
        self.load(adapt)?;
        *shared.since.lock() = Some(Instant::now());
        shared.decides.store(true, Ordering::Release);
        // Files written here are now handled by this node itself.
        for checkpoint in shared.kept.take_all() {
            self.end_credit(&checkpoint);
            match self.request_for(&checkpoint) {
                Ok(request) => checkpoint.request.store(request, Ordering::Release),
                Err(error) => tracing::warn!("{} is no checkpoint for now: {error}", checkpoint.path),
            }
        }
        Ok(())
    }

    /// Ends this node's decisions. Another node receives the state of the files here.
    fn hand_over(&self) {
        let Some(shared) = self.shared.get() else { return };
        shared.decides.store(false, Ordering::Release);
        let current = std::mem::take(&mut *self.table.lock()).current;
        for checkpoint in current.into_values().flat_map(|current| current.open.into_values()) {
            let request = checkpoint.request.swap(0, Ordering::AcqRel);
            checkpoint.elsewhere.lock().clear();
            if request != 0 && checkpoint.is_of_here.load(Ordering::Acquire) {
                shared.kept.keep(&checkpoint);
                checkpoint.changes();
            }
        }
        self.open.write().retain(|_, checkpoint| !checkpoint.is_unused());
        self.tell(AdmissionEvent::HandOver);
    }

    /// Whether the grace period for the other nodes' states is still running.
    pub(super) fn is_in_grace(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.since.lock().is_some_and(|since| since.elapsed() < GRACE))
    }

    /// Serves a request of another node. A dropped reply makes the other node repeat it, perhaps to another leader.
    fn serve(&self, adapt: &Adapt, request: Request, reply: Reply) {
        match request {
            Request::Write { by, stand, bytes } => self.hold(adapt, &by, &stand, bytes, reply),
            Request::Stands { by, stands } if self.decides() => {
                let over: Vec<Option<bool>> = stands.iter().map(|stand| self.stands(adapt, &by, stand)).collect();
                reply.send(&Ok(over));
            }
            Request::Stands { .. } => {}
            Request::Full { bytes } => self.tell_buffer(buffer::Event::Full { bytes: bytes as f64 }),
            Request::Reads { path, file } => self.is_read(file, path),
            Request::Settle { app, label } => reply.send(&Ok(self.settle_here(&app, &label))),
            Request::Over { app, label } => self.version_is_over(&app, &label),
            Request::Announced => match self.look_what_is_announced() {
                Ok(()) => reply.send(&Ok(())),
                Err(error) => tracing::warn!("announced checkpoints cannot be read on this node: {error}"),
            },
        }
    }
}
