//! One burst buffer for all nodes: the leader decides, and the others send it requests and reports.
//!
//! ```text
//!   a node that follows                             the node that leads
//!   write -> credit -- Ask, Ask again ------------> admission (turn, room, speed)
//!                   <- Waits, Answer --------------
//!   last close: sync -- Stands -------------------> table: all closed on all nodes -> complete
//!   checkpoint commit -- a call ------------------> Settle -> all that wrote it: sync -- Settled -> complete
//! ```
//! Complete, announced and marked versions are in the state store; versions being written are known only to their
//! writers. A new leader receives the state of all writers again and completes no version before a grace period is
//! over. Messages may get lost, so they are sent again until they are acknowledged ([`crate::talk`]).

mod announce;
mod call;
mod follow;
mod lead;
mod word;

pub use word::Asked;

use super::open::OpenCheckpoint;
use super::{Adapt, Burst, CheckpointTable, Lane, Marks, record};
use crate::Result;
use crate::calls::Calls;
use crate::messages::{Message, Talk};
use crate::stub::Inode;
use announce::Announced;
use follow::Kept;
use lead::Asks;
use parking_lot::Mutex;
use policy::Time;
use policy::burst::admission::Event as Told;
use policy::burst::buffer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use word::{By, Named, Stand, Word};

/// Grace period for the other nodes' states, before a new leader completes a version. A guess: nodes notice a new
/// leader within a second or two.
const GRACE: Duration = Duration::from_secs(10);
/// Interval between checks for messages to send again. A guess.
const EVERY: Duration = Duration::from_millis(250);
/// Retransmission timeout of a message. A guess: messages are seldom lost.
const AGAIN: Duration = Duration::from_millis(1000);

/// State that a node shares with the others.
pub struct Shared {
    talk: Arc<dyn Talk>,
    /// Whether this node decides about the buffer.
    decides: AtomicBool,
    /// Time since which this node decides.
    since: Mutex<Option<Instant>>,
    /// Whether the periodic work is running.
    tending: AtomicBool,
    tended: Mutex<Option<Instant>>,
    kept: Kept,
    asks: Asks,
    announced: Announced,
    calls: Arc<Calls>,
}

impl Shared {
    pub fn new(talk: Arc<dyn Talk>, calls: Arc<Calls>) -> Shared {
        Shared {
            talk,
            decides: AtomicBool::new(false),
            since: Mutex::default(),
            tending: AtomicBool::new(false),
            tended: Mutex::default(),
            kept: Kept::default(),
            asks: Asks::default(),
            announced: Announced::default(),
            calls,
        }
    }

    fn by(&self) -> By {
        By { name: self.talk.own().to_owned(), node: self.talk.me().0 }
    }

    /// Sends a message to the leader, which may be this node.
    fn say(&self, word: &Word) {
        if let Some(leader) = self.talk.leader() {
            self.talk.send(Some(&leader), &Message::Burst(json!(word)));
        }
    }

    /// The kept entry of a file that is opened again while its version is incomplete.
    pub fn written_before(&self, app: &str, label: &str, path: &str, inode: Inode) -> Option<Arc<OpenCheckpoint>> {
        let of = self.kept.at(path)?;
        ((&*of.app, &*of.label, of.file.stub().inode()) == (app, label, Some(inode))).then_some(of)
    }

    fn say_to(&self, name: &str, word: &Word) {
        self.talk.send(Some(name), &Message::Burst(json!(word)));
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
        }
    }
}

impl Burst {
    /// Whether this node decides about the buffer.
    pub fn decides(&self) -> bool {
        self.shared.get().is_none_or(|shared| shared.decides.load(Ordering::Acquire))
    }

    /// Shares the buffer with the other nodes. Called before anything is mounted.
    pub(crate) fn share(self: &Arc<Burst>, talk: Arc<dyn Talk>, calls: Arc<Calls>) {
        drop(self.shared.set(Shared::new(talk, calls)));
        self.serve_calls();
    }

    /// Handles a message of another node.
    pub(crate) fn hear(&self, text: &Value) {
        let (Some(shared), Some(word)) = (self.shared.get(), Word::deserialize(text).ok()) else {
            return tracing::debug!("what another node says of checkpoints makes no sense");
        };
        match word {
            Word::Settle { by, number, app, label } => {
                self.commits(move |burst, _| burst.settle_here(&by, number, &app, &label));
            }
            Word::Settled { by, number, stands } => shared.asks.settled(&by.name, number, stands),
            Word::Heard { by, number } => shared.announced.heard(by.name, number),
            other => self.later(move |burst, adapt| burst.heard(adapt, other)),
        }
    }

    fn heard(&self, adapt: &Adapt, word: Word) {
        let Some(shared) = self.shared.get() else { return };
        match word {
            Word::Ask { by, stand, number, bytes } => self.asked(adapt, &by, &stand, number, bytes),
            Word::Stands { by, stand } => self.stands(adapt, &by, &stand),
            Word::Full { bytes } => self.tell_buffer(buffer::Event::Full { bytes: bytes as f64 }),
            Word::Reads { path, file } => self.is_read(file, path),
            Word::Waits { path, number } => self.waits(&path, number),
            Word::Answer { path, number, said, direct } => self.answered(&path, number, said, direct),
            Word::Known { path, number } => shared.kept.known(&path, number),
            Word::Over { app, label } => self.version_is_over(&app, &label),
            Word::Announced { by, number } => self.learn_announced(&by, number),
            _ => {}
        }
    }

    /// Checks for a new leader and sends unacknowledged messages again. Called often.
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
            match (shared.talk.leads(), shared.decides.load(Ordering::Acquire)) {
                (true, false) => {
                    if let Err(error) = burst.take_over(adapt) {
                        tracing::warn!("this node leads, and does not know yet what is in the burst buffer: {error}");
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
        let (table, marks) =
            (CheckpointTable::open(&*self.state, |path| self.owner_of(path))?, Marks::open(&*self.state)?);
        let (sessions, period) = (record::sessions(&*self.state)?, record::period(&*self.state)?);
        self.tell(Told::HandOver);
        *self.table.lock() = table;
        *self.marks.write() = marks;
        *self.sessions.write() = sessions;
        if let Some(period) = period {
            self.tell_buffer(buffer::Event::Resumed { dwsf: period.dwsf, dwpp: period.dwpp });
        }
        self.load(adapt)?;
        shared.asks.forget();
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
        self.tell(Told::HandOver);
    }

    /// Whether the grace period for the other nodes' states is still running.
    pub(super) fn is_in_grace(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.since.lock().is_some_and(|since| since.elapsed() < GRACE))
    }

    fn now(&self) -> Time {
        self.driver.now()
    }
}
