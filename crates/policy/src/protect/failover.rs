//! A target fails while a file has a replica: the twin object takes the lost one's place, and only later is a new twin
//! made.
//!
//! ```text
//!            Swap               Swapped            after a delay            Rebuilt
//!  (none) ----------> Swapping ---------> Swapped ---------------> Rebuilding -------> Settled
//!    first Complained    |                   ^  Rebuild                |
//!                        | NoTwin            +--- RebuildFailed -------+  (later each time, a few times)
//!                        v
//!                     Hopeless: complaints are sent on to recovery from the source
//! ```
//! The swap costs the same whatever the file's size, because only the layout changes. Bytes are copied when the reader
//! goes on already; the delay leaves the devices to it. There is one request per file and failed target, however many
//! clients complain.
//!
//! Duties of the driver: it answers each `Swap` with `Swapped` or `NoTwin`, each `Rebuild` with `Rebuilt` or
//! `RebuildFailed`. On `Swap` object j of the original gives its place to object j' of the replica if that is complete;
//! on `Rebuild` a copy of j' is made on a target that holds, if there is one, no part of either file, and is put into
//! the replica in its place. When the file, its replica or the failed target is no more, it says `Forget`.
//!
//! Source: Zhang, sections 4.5 and 4.6; the reference, section 6.7.

use crate::ids::{FileId, TargetId};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The file that is read.
    pub file: FileId,
    /// The target that failed.
    pub target: TargetId,
}

/// A caller that waits; a number of the driver's choosing, in use for one wait at a time.
pub type Waiter = u64;

/// Limits of [`Failover`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// From the swap to the beginning of the secondary replica.
    pub rebuild_delay: Time,
    /// So often a rebuild that failed is tried again, each time after twice the delay before.
    pub rebuild_retries: u32,
}

impl Default for Config {
    /// Five seconds, as published; the retries are a guess.
    fn default() -> Config {
        Config { rebuild_delay: Time::from_secs(5), rebuild_retries: 3 }
    }
}

/// Events of [`Failover`]: complaints, and what became of swaps and rebuilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A reader met a failed target. It is woken when it should look at the layout again.
    Complained {
        /// The file and the target that failed under it.
        key: Key,
        /// The reader that is woken when the swap is done.
        waiter: Waiter,
    },
    /// The layout now names the twin.
    Swapped {
        /// The file whose twins took over.
        key: Key,
    },
    /// There is no complete twin, or the layout could not be changed.
    NoTwin {
        /// The file that has no complete replica.
        key: Key,
    },
    /// The secondary replica is complete.
    Rebuilt {
        /// The file whose replica is complete again.
        key: Key,
    },
    /// It could not be made.
    RebuildFailed {
        /// The file whose replica still lacks an object.
        key: Key,
    },
    /// A caller waits no longer.
    Cancel {
        /// The waiter that gave up.
        waiter: Waiter,
    },
    /// The file has no replica any more, or is no more: nothing is rebuilt, and the next complaint starts from nothing.
    Forget {
        /// A file that is gone, or whose replica is.
        file: FileId,
    },
    /// A target was replaced or came back: the next complaint about it starts from nothing. A rebuild that is due goes
    /// on, for the twin that took over has no twin of its own yet.
    TargetReturned {
        /// The target that answers again.
        target: TargetId,
    },
    /// Time passed; to be sent at [`Failover::next_deadline`].
    Tick,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the twin into the layout.
    Swap {
        /// The file and the failed target.
        key: Key,
        /// What made the swap due.
        reason: Reason,
    },
    /// Let somebody go on.
    Wake {
        /// The reader that complained.
        waiter: Waiter,
        /// Whether it reads on from the twin or goes to recovery.
        outcome: Outcome,
    },
    /// Make a new twin of the object that took over.
    Rebuild {
        /// The file and the failed target whose twin is missing.
        key: Key,
        /// Whether the delay has passed or an earlier try failed.
        reason: Reason,
    },
}

/// Why something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A reader complained, the first about this file and target.
    Complaint,
    /// The replica has stood in for so long.
    Delay(Time),
    /// The last try failed; this is the so-manieth again.
    Retry(u32),
}

/// What somebody who complained is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The layout names the twin: read again.
    LookAgain,
    /// There is none: the object has to come from its source.
    Recover,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The layout is being changed.
    Swapping,
    /// The twin stands in; the secondary replica is begun at this time.
    Swapped(Time),
    /// The secondary replica is being made.
    Rebuilding,
    /// All is as it was before, or was given up.
    Settled,
    /// There was no twin.
    Hopeless,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Complaints of readers.
    pub complaints: u64,
    /// Twins that took over.
    pub swapped: u64,
    /// Requests that found no twin.
    pub without_twin: u64,
    /// Secondary replicas made.
    pub rebuilt: u64,
    /// Secondary replicas given up.
    pub rebuilds_given_up: u64,
}

#[derive(Debug)]
struct Request {
    phase: Phase,
    waiters: BTreeSet<Waiter>,
    tries: u32,
    /// Its target is back: forgotten as soon as it is settled.
    returned: bool,
}

/// All requests of a volume.
#[derive(Debug, Default)]
pub struct Failover {
    config: Config,
    requests: BTreeMap<Key, Request>,
    due: BTreeSet<(Time, Key)>,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Failover {
    /// Nothing has failed yet.
    pub fn new(config: Config) -> Failover {
        Failover { config, ..Failover::default() }
    }

    /// How far a request is, if there is one.
    pub fn phase(&self, key: Key) -> Option<Phase> {
        self.requests.get(&key).map(|request| request.phase)
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        for (key, request) in &self.requests {
            let waits = request.phase == Phase::Swapping;
            assert!(waits || request.waiters.is_empty(), "{key:?}: nobody waits once it is decided");
            if let Phase::Swapped(at) = request.phase {
                assert!(self.due.contains(&(at, *key)), "{key:?}: its rebuild is due");
            }
        }
        let swapped = self.requests.values().filter(|r| matches!(r.phase, Phase::Swapped(_))).count();
        assert_eq!(self.due.len(), swapped, "only what stands in is due");
    }

    fn complained(&mut self, key: Key, waiter: Waiter) {
        self.stats.complaints += 1;
        let Some(request) = self.requests.get_mut(&key) else {
            let waiters = BTreeSet::from([waiter]);
            self.requests.insert(key, Request { phase: Phase::Swapping, waiters, tries: 0, returned: false });
            return self.actions.push_back(Action::Swap { key, reason: Reason::Complaint });
        };
        let outcome = match request.phase {
            Phase::Swapping => {
                request.waiters.insert(waiter);
                return;
            }
            Phase::Hopeless => Outcome::Recover,
            Phase::Swapped(_) | Phase::Rebuilding | Phase::Settled => Outcome::LookAgain,
        };
        self.actions.push_back(Action::Wake { waiter, outcome });
    }

    fn rebuild_failed(&mut self, now: Time, key: Key) {
        let Some(request) = self.requests.get_mut(&key).filter(|r| r.phase == Phase::Rebuilding) else { return };
        request.tries += 1;
        if request.tries > self.config.rebuild_retries {
            self.stats.rebuilds_given_up += 1;
            self.enter(key, Phase::Settled);
            return self.tidy(key);
        }
        let delay = Time(self.config.rebuild_delay.0.saturating_mul(1 << request.tries.min(20)));
        self.enter(key, Phase::Swapped(now + delay));
    }

    fn begin_rebuilds(&mut self, now: Time) {
        while let Some((at, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, key));
            let Some(request) = self.requests.get_mut(&key) else { continue };
            request.phase = Phase::Rebuilding;
            let reason = if request.tries == 0 {
                Reason::Delay(self.config.rebuild_delay)
            } else {
                Reason::Retry(request.tries)
            };
            self.actions.push_back(Action::Rebuild { key, reason });
        }
    }

    /// Drops requests; who still waits looks again.
    fn forget(&mut self, gone: impl Fn(&Key) -> bool) {
        let keys: Vec<Key> = self.requests.keys().filter(|key| gone(key)).copied().collect();
        for key in keys {
            self.wake_all(key, Outcome::LookAgain);
            self.requests.remove(&key);
            self.due.retain(|(_, due)| *due != key);
            self.actions.retain(
                |action| !matches!(action, Action::Swap { key: k, .. } | Action::Rebuild { key: k, .. } if *k == key),
            );
        }
    }

    fn target_returned(&mut self, target: TargetId) {
        for (_, request) in self.requests.iter_mut().filter(|(key, _)| key.target == target) {
            request.returned = true;
        }
        self.requests.retain(|_, request| !request.returned || !is_over(request.phase));
    }

    fn wake_all(&mut self, key: Key, outcome: Outcome) {
        let Some(request) = self.requests.get_mut(&key) else { return };
        let waiters = std::mem::take(&mut request.waiters);
        self.actions.extend(waiters.into_iter().map(|waiter| Action::Wake { waiter, outcome }));
    }

    fn in_phase(&self, key: Key, phase: Phase) -> bool {
        self.phase(key) == Some(phase)
    }

    fn enter(&mut self, key: Key, phase: Phase) {
        let Some(request) = self.requests.get_mut(&key) else { return };
        request.phase = phase;
        if let Phase::Swapped(at) = phase {
            self.due.insert((at, key));
        }
    }

    /// Forgets a request that is over and whose target is back, once nobody waits for it.
    fn tidy(&mut self, key: Key) {
        if self.requests.get(&key).is_some_and(|request| request.returned && is_over(request.phase)) {
            self.requests.remove(&key);
        }
    }
}

impl Machine for Failover {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Complained { key, waiter } => self.complained(key, waiter),
            Event::Swapped { key } => {
                if self.in_phase(key, Phase::Swapping) {
                    self.stats.swapped += 1;
                    self.enter(key, Phase::Swapped(now + self.config.rebuild_delay));
                    self.wake_all(key, Outcome::LookAgain);
                }
            }
            Event::NoTwin { key } => {
                if self.in_phase(key, Phase::Swapping) {
                    self.stats.without_twin += 1;
                    self.enter(key, Phase::Hopeless);
                    self.wake_all(key, Outcome::Recover);
                    self.tidy(key);
                }
            }
            Event::Rebuilt { key } => {
                if self.in_phase(key, Phase::Rebuilding) {
                    self.stats.rebuilt += 1;
                    self.enter(key, Phase::Settled);
                    self.tidy(key);
                }
            }
            Event::RebuildFailed { key } => self.rebuild_failed(now, key),
            Event::Cancel { waiter } => {
                self.requests.values_mut().for_each(|request| {
                    request.waiters.remove(&waiter);
                });
            }
            Event::Forget { file } => self.forget(|key| key.file == file),
            Event::TargetReturned { target } => self.target_returned(target),
            Event::Tick => {}
        }
        self.begin_rebuilds(now);
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Whether nothing more comes of a request.
fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Settled | Phase::Hopeless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(file: u64, target: u16) -> Key {
        Key { file: FileId(file), target: TargetId(target) }
    }

    fn after(machine: &mut Failover, now: u64, event: Event) -> Vec<Action> {
        machine.handle(Time::from_secs(now), event);
        machine.check();
        machine.drain().collect()
    }

    fn woken(waiter: Waiter, outcome: Outcome) -> Action {
        Action::Wake { waiter, outcome }
    }

    #[test]
    fn many_complain_one_swap_and_a_rebuild_after_the_delay() {
        let mut machine = Failover::new(Config::default());
        let (k, swap) = (key(1, 2), Action::Swap { key: key(1, 2), reason: Reason::Complaint });
        assert_eq!(after(&mut machine, 0, Event::Complained { key: k, waiter: 7 }), [swap]);
        for waiter in 8..40 {
            assert_eq!(after(&mut machine, 0, Event::Complained { key: k, waiter }), []);
        }
        assert_eq!(after(&mut machine, 0, Event::Cancel { waiter: 9 }), []);
        let got = after(&mut machine, 1, Event::Swapped { key: k });
        let expect: Vec<_> = (7..40).filter(|w| *w != 9).map(|w| woken(w, Outcome::LookAgain)).collect();
        assert_eq!(got, expect);
        assert_eq!(after(&mut machine, 1, Event::Complained { key: k, waiter: 50 }), [woken(50, Outcome::LookAgain)]);
        assert_eq!(machine.next_deadline(), Some(Time::from_secs(6)));
        assert_eq!(after(&mut machine, 5, Event::Tick), []);
        let rebuild = Action::Rebuild { key: k, reason: Reason::Delay(Time::from_secs(5)) };
        assert_eq!(after(&mut machine, 6, Event::Tick), [rebuild]);
        assert_eq!(after(&mut machine, 9, Event::Rebuilt { key: k }), []);
        assert_eq!((machine.phase(k), machine.next_deadline()), (Some(Phase::Settled), None));
        let stats = Stats { complaints: 34, swapped: 1, rebuilt: 1, ..Stats::default() };
        assert_eq!(machine.stats(), stats);
    }

    #[test]
    fn another_target_of_the_same_file_is_another_request() {
        let mut machine = Failover::new(Config::default());
        assert_eq!(after(&mut machine, 0, Event::Complained { key: key(1, 2), waiter: 1 }).len(), 1);
        let other = Action::Swap { key: key(1, 3), reason: Reason::Complaint };
        assert_eq!(after(&mut machine, 0, Event::Complained { key: key(1, 3), waiter: 2 }), [other]);
    }

    #[test]
    fn without_a_twin_everybody_is_sent_to_recovery() {
        let mut machine = Failover::new(Config::default());
        after(&mut machine, 0, Event::Complained { key: key(1, 2), waiter: 1 });
        let got = after(&mut machine, 0, Event::NoTwin { key: key(1, 2) });
        assert_eq!(got, [woken(1, Outcome::Recover)]);
        let got = after(&mut machine, 5, Event::Complained { key: key(1, 2), waiter: 2 });
        assert_eq!(got, [woken(2, Outcome::Recover)]);
        after(&mut machine, 6, Event::TargetReturned { target: TargetId(2) });
        assert_eq!(machine.phase(key(1, 2)), None);
        assert_eq!(after(&mut machine, 7, Event::Complained { key: key(1, 2), waiter: 3 }).len(), 1);
    }

    #[test]
    fn a_failed_rebuild_is_tried_again_later_each_time_and_given_up() {
        let mut machine = Failover::new(Config { rebuild_retries: 2, ..Config::default() });
        let k = key(1, 2);
        after(&mut machine, 0, Event::Complained { key: k, waiter: 1 });
        after(&mut machine, 0, Event::Swapped { key: k });
        let mut now = 5;
        after(&mut machine, now, Event::Tick);
        for (tries, delay) in [(1, 10), (2, 20)] {
            after(&mut machine, now, Event::RebuildFailed { key: k });
            now += delay;
            assert_eq!(machine.next_deadline(), Some(Time::from_secs(now)));
            let again = Action::Rebuild { key: k, reason: Reason::Retry(tries) };
            assert_eq!(after(&mut machine, now, Event::Tick), [again]);
        }
        after(&mut machine, now, Event::RebuildFailed { key: k });
        assert_eq!((machine.phase(k), machine.stats().rebuilds_given_up), (Some(Phase::Settled), 1));
    }

    #[test]
    fn a_replica_that_goes_away_is_not_rebuilt() {
        let mut machine = Failover::new(Config::default());
        after(&mut machine, 0, Event::Complained { key: key(1, 2), waiter: 1 });
        after(&mut machine, 0, Event::Swapped { key: key(1, 2) });
        assert_eq!(after(&mut machine, 1, Event::Forget { file: FileId(1) }), []);
        assert_eq!((machine.next_deadline(), machine.phase(key(1, 2))), (None, None));
        after(&mut machine, 2, Event::Complained { key: key(1, 2), waiter: 1 });
        let got = after(&mut machine, 2, Event::Forget { file: FileId(1) });
        assert_eq!(got, [woken(1, Outcome::LookAgain)], "nobody waits for ever");
        assert_eq!(after(&mut machine, 3, Event::Swapped { key: key(1, 2) }), [], "an answer that comes late");
    }

    #[test]
    fn a_target_that_comes_back_leaves_the_rebuild_due() {
        let mut machine = Failover::new(Config::default());
        let k = key(1, 2);
        after(&mut machine, 0, Event::Complained { key: k, waiter: 1 });
        after(&mut machine, 0, Event::Swapped { key: k });
        after(&mut machine, 1, Event::TargetReturned { target: TargetId(2) });
        assert_eq!(after(&mut machine, 5, Event::Tick).len(), 1);
        after(&mut machine, 6, Event::Rebuilt { key: k });
        assert_eq!(machine.phase(k), None, "the next failure is a new one");
    }

    proptest! {
        #[test]
        fn everybody_is_woken_once_and_one_swap_is_under_way_per_key(
            steps in prop::collection::vec((0u8..8, 0u64..3, 0u16..2), 1..120)
        ) {
            let mut machine = Failover::new(Config { rebuild_delay: Time::from_secs(2), rebuild_retries: 1 });
            let mut waiting = BTreeSet::new();
            let (mut swaps, mut rebuilds): (BTreeSet<Key>, BTreeSet<Key>) = Default::default();
            for (n, (what, file, target)) in steps.into_iter().enumerate() {
                let k = key(file, target);
                let event = match what {
                    0..=2 => {
                        waiting.insert(n as u64);
                        Event::Complained { key: k, waiter: n as u64 }
                    }
                    3 if swaps.remove(&k) => Event::Swapped { key: k },
                    4 if swaps.remove(&k) => Event::NoTwin { key: k },
                    5 if rebuilds.remove(&k) => Event::Rebuilt { key: k },
                    6 if rebuilds.remove(&k) => Event::RebuildFailed { key: k },
                    7 => {
                        swaps.retain(|k| k.file != FileId(file));
                        rebuilds.retain(|k| k.file != FileId(file));
                        Event::Forget { file: FileId(file) }
                    }
                    _ => Event::Tick,
                };
                for action in after(&mut machine, n as u64, event) {
                    match action {
                        Action::Swap { key, .. } => prop_assert!(swaps.insert(key)),
                        Action::Rebuild { key, .. } => prop_assert!(rebuilds.insert(key)),
                        Action::Wake { waiter, .. } => prop_assert!(waiting.remove(&waiter)),
                    }
                }
            }
            for k in swaps {
                for action in after(&mut machine, 1000, Event::NoTwin { key: k }) {
                    if let Action::Wake { waiter, .. } = action {
                        prop_assert!(waiting.remove(&waiter));
                    }
                }
            }
            prop_assert!(waiting.is_empty());
        }
    }
}
