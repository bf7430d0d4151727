//! Distributes announcements and marks to all nodes before any of them relies on one.

use super::super::record;
use super::super::{Burst, Marks};
use super::request::Request;
use super::{AGAIN, SERVICE};
use crate::Result;
use crate::control::Caller;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Timeout of the acknowledgements. A guess: longer than it takes until a dead node is removed.
const HEARD_MAX: Duration = Duration::from_secs(15);
/// Interval between reads of the announcements, in case a message was lost.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl Burst {
    /// Informs all nodes of a new announcement or mark, and waits for their acknowledgements.
    ///
    /// # Errors
    /// The hosts that do not answer.
    pub(in crate::adapt::burst) fn announce(&self) -> std::result::Result<(), String> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let (until, mut informed) = (Instant::now() + HEARD_MAX, BTreeSet::new());
        loop {
            let mut others = shared.calls.others();
            others.retain(|other| !other.own.as_ref().is_some_and(|own| informed.contains(own)));
            if others.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(others.into_iter().map(|other| other.host).collect::<Vec<_>>().join(", "));
            }
            let nodes: BTreeMap<String, _> =
                others.into_iter().filter_map(|other| Some((other.own?, other.node))).collect();
            let names = nodes.keys().cloned().collect();
            let is_awaited = |name: &str| Instant::now() < until && !shared.talk().is_over(nodes[name]);
            let (request, caller) = (Request::Announced, Caller::daemon());
            let answers = shared.calls.call_each(names, SERVICE, &caller, &request, HEARD_MAX, &is_awaited);
            let before = informed.len();
            informed.extend(answers.into_iter().filter_map(|(name, answer)| answer.ok().map(|()| name)));
            if informed.len() == before {
                std::thread::sleep(AGAIN);
            }
        }
    }

    pub(super) fn look_what_is_announced(&self) -> Result<()> {
        // The sessions in memory of the node that decides are newer than the records.
        if !self.decides() {
            let (sessions, marks) = (record::SESSIONS.all(&*self.state)?, Marks::open(&*self.state)?);
            *self.sessions.write() = sessions;
            *self.marks.write() = marks;
        }
        Ok(())
    }

    /// Reads the announcements at intervals, since a message may get lost.
    pub(super) fn look_at_announced(&self) {
        let Some(shared) = self.shared.get() else { return };
        let mut looked = shared.announced_at.lock();
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            *looked = Some(Instant::now());
            drop(looked);
            if let Err(error) = self.look_what_is_announced() {
                tracing::debug!("announced checkpoints cannot be read for now: {error}");
            }
        }
    }
}
