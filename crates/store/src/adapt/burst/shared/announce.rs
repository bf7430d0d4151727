//! Distributes announcements and marks to all nodes before any of them relies on one.

use super::super::record;
use super::super::{Burst, Marks};
use super::AGAIN;
use super::word::{By, Word};
use crate::Result;
use crate::messages::{Member, Message};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Timeout of the acknowledgements. A guess: longer than it takes until a dead node is removed.
const HEARD_MAX: Duration = Duration::from_secs(15);
/// Interval between reads of the announcements, in case a message was lost.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Latest announcement that each node has acknowledged.
#[derive(Default)]
pub struct Announced {
    /// Number of the latest announcement that each node has acknowledged; this includes all earlier ones.
    heard: Mutex<BTreeMap<String, u64>>,
    changed: Condvar,
    looked: Mutex<Option<Instant>>,
}

impl Announced {
    pub fn heard(&self, name: String, number: u64) {
        let mut heard = self.heard.lock();
        let latest = heard.entry(name).or_default();
        *latest = number.max(*latest);
        self.changed.notify_all();
    }
}

impl Burst {
    /// Informs all nodes of a new announcement or mark, and waits for their acknowledgements.
    ///
    /// # Errors
    /// The hosts that do not answer.
    pub(in crate::adapt::burst) fn announce(&self) -> std::result::Result<(), String> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let (number, until) = (self.next_number(), Instant::now() + HEARD_MAX);
        let word = Word::Announced { by: shared.by(), number };
        loop {
            shared.talk.send(None, &Message::Burst(serde_json::json!(word)));
            let me = shared.talk.me();
            let others = shared.talk.members().into_iter().filter(|other| other.node != me);
            let mut heard = shared.announced.heard.lock();
            let knows = |name: &String| heard.get(name).is_some_and(|latest| *latest >= number);
            let is_deaf = |other: &Member| !other.own.as_ref().is_some_and(knows);
            let deaf: Vec<String> = others.filter(is_deaf).map(|other| other.host).collect();
            if deaf.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(deaf.join(", "));
            }
            shared.announced.changed.wait_for(&mut heard, AGAIN);
        }
    }

    /// Handles the announcement of another node.
    pub(super) fn learn_announced(&self, by: &By, number: u64) {
        let Some(shared) = self.shared.get() else { return };
        match self.look_what_is_announced() {
            Ok(()) => shared.say_to(&by.name, &Word::Heard { by: shared.by(), number }),
            Err(error) => tracing::warn!("what is announced as a checkpoint is not known here: {error}"),
        }
    }

    fn look_what_is_announced(&self) -> Result<()> {
        // The sessions in memory of the node that decides are newer than the records.
        if !self.decides() {
            let (sessions, marks) = (record::sessions(&*self.state)?, Marks::open(&*self.state)?);
            *self.sessions.write() = sessions;
            *self.marks.write() = marks;
        }
        Ok(())
    }

    /// Reads the announcements at intervals, since a message may get lost.
    pub(super) fn look_at_announced(&self) {
        let Some(shared) = self.shared.get() else { return };
        let mut looked = shared.announced.looked.lock();
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            *looked = Some(Instant::now());
            drop(looked);
            if let Err(error) = self.look_what_is_announced() {
                tracing::debug!("what is announced as a checkpoint is not known for now: {error}");
            }
        }
    }
}
