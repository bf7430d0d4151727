//! Failover: when a target fails, a file's replica objects replace the lost ones, and the replica is rebuilt later.
//!
//! ```text
//!            Swap               Swapped            after a delay            Rebuilt
//!  (none) ----------> Swapping ---------> Swapped ---------------> Rebuilding -------> Settled
//!       Complained       |                   ^  Rebuild                |
//!                        | NoReplica         +--- RebuildFailed -------+  (later each time, a few times)
//!                        v
//!                     Hopeless: the object has to come from its source
//! ```
//! The cost of a swap does not depend on the file's size, because only the layout changes. Readers do not wait for it:
//! until the layout is updated, they read the other mirror. Bytes are copied later; the delay leaves the devices to
//! readers. All clients share one request per file and failed target.
//!
//! Duties of the driver: it answers each `Swap` with `Swapped` or `NoReplica`, each `Rebuild` with `Rebuilt` or
//! `RebuildFailed`. On `Swap`, each object of the file on the target is exchanged with its counterpart in the replica,
//! if that is complete. On `Rebuild`, the file's data on the failed target are copied, if possible to a target without
//! any part of the file. When the file or its replica is removed, it sends `Forget`.
//!
//! Source: Zhang, sections 4.5 and 4.6; the reference, section 6.7.

use crate::ids::{FileId, TargetId};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Identity of a failover request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The file that is read.
    pub file: FileId,
    /// The target that failed.
    pub target: TargetId,
}

/// Limits of [`Failover`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Delay between the swap and the rebuild of the replica.
    pub rebuild_delay: Time,
    /// Retries of a failed rebuild; each waits twice as long as the one before.
    pub rebuild_retries: u32,
}

impl Default for Config {
    /// Five seconds, as published; the retries are a guess.
    fn default() -> Config {
        Config { rebuild_delay: Time::from_secs(5), rebuild_retries: 3 }
    }
}

/// Events of [`Failover`]: complaints, and results of swaps and rebuilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A reader found a failed target.
    Complained(Key),
    /// The layout now names the replica's objects.
    Swapped(Key),
    /// No complete replica exists, or the layout could not be changed.
    NoReplica(Key),
    /// The replica is complete again.
    Rebuilt(Key),
    /// The replica could not be completed.
    RebuildFailed(Key),
    /// The file or its replica was removed: nothing is rebuilt, and the next complaint starts a new request.
    Forget(FileId),
    /// A target was replaced or came back: the next complaint about it starts a new request. A rebuild that is due goes
    /// on, because the object that took over has no counterpart yet.
    TargetReturned(TargetId),
    /// Time passed; sent at [`Failover::next_deadline`].
    Tick,
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the replica's objects into the layout.
    Swap {
        /// The file and the failed target.
        key: Key,
        /// Reason for the swap.
        reason: Reason,
    },
    /// Rebuild the part of the replica that replaced the lost objects.
    Rebuild {
        /// The file and the failed target.
        key: Key,
        /// Whether the delay has passed or an earlier attempt failed.
        reason: Reason,
    },
}

/// Reason for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The first complaint of a reader about this file and target.
    Complaint,
    /// Time since the swap.
    Delay(Time),
    /// Number of the retry after a failed attempt.
    Retry(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Complaint => f.write_str("a target of it failed, and its replica has the same bytes"),
            Reason::Delay(span) => {
                write!(f, "its replica took over {:.1} s ago and lacks that since", span.as_secs_f64())
            }
            Reason::Retry(times) => write!(f, "its replica still lacks what took over, after {times} tries"),
        }
    }
}

/// Progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The layout is being changed.
    Swapping,
    /// The replica's objects are in use; its rebuild is due at this time.
    Swapped(Time),
    /// The replica is being rebuilt.
    Rebuilding,
    /// The replica is complete again, or its rebuild was given up.
    Settled,
    /// No replica existed.
    Hopeless,
}

#[derive(Debug)]
struct Request {
    phase: Phase,
    tries: u32,
    /// Whether its target is back: the request is dropped as soon as it is settled.
    returned: bool,
}

/// All requests of a volume.
#[derive(Debug, Default)]
pub struct Failover {
    config: Config,
    requests: BTreeMap<Key, Request>,
    due: BTreeSet<(Time, Key)>,
    actions: VecDeque<Action>,
}

impl Failover {
    /// Makes a machine without requests.
    pub fn new(config: Config) -> Failover {
        Failover { config, ..Failover::default() }
    }

    /// Returns the progress of a request, if it exists.
    pub fn phase(&self, key: Key) -> Option<Phase> {
        self.requests.get(&key).map(|request| request.phase)
    }

    /// Returns the requests of a file, with their progress.
    pub fn keys(&self, file: FileId) -> impl Iterator<Item = (Key, Phase)> + '_ {
        let of_file = Key { file, target: TargetId(0) }..=Key { file, target: TargetId(u16::MAX) };
        self.requests.range(of_file).map(|(key, request)| (*key, request.phase))
    }

    /// Whether a swap or a rebuild of a file is under way or due.
    pub fn is_at_work(&self, file: FileId) -> bool {
        self.keys(file).any(|(_, phase)| !is_over(phase))
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        for (key, request) in &self.requests {
            if let Phase::Swapped(at) = request.phase {
                assert!(self.due.contains(&(at, *key)), "{key:?}: its rebuild is due");
            }
        }
        let swapped = self.requests.values().filter(|r| matches!(r.phase, Phase::Swapped(_))).count();
        assert_eq!(self.due.len(), swapped, "only what stands in is due");
    }

    fn complained(&mut self, key: Key) {
        if let Entry::Vacant(none) = self.requests.entry(key) {
            none.insert(Request { phase: Phase::Swapping, tries: 0, returned: false });
            self.actions.push_back(Action::Swap { key, reason: Reason::Complaint });
        }
    }

    fn rebuild_failed(&mut self, now: Time, key: Key) {
        let Some(request) = self.requests.get_mut(&key).filter(|r| r.phase == Phase::Rebuilding) else { return };
        request.tries += 1;
        let delay = Time(self.config.rebuild_delay.0.saturating_mul(1 << request.tries.min(20)));
        let is_last = request.tries > self.config.rebuild_retries;
        self.go_on(key, Phase::Rebuilding, if is_last { Phase::Settled } else { Phase::Swapped(now + delay) });
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

    fn forget(&mut self, file: FileId) {
        self.requests.retain(|key, _| key.file != file);
        self.due.retain(|(_, key)| key.file != file);
        let of = |(Action::Swap { key, .. } | Action::Rebuild { key, .. }): &Action| key.file != file;
        self.actions.retain(of);
    }

    fn target_returned(&mut self, target: TargetId) {
        for (_, request) in self.requests.iter_mut().filter(|(key, _)| key.target == target) {
            request.returned = true;
        }
        self.requests.retain(|_, request| !request.returned || !is_over(request.phase));
    }

    /// Moves a request from one phase to the next. Drops it if it is over and its target is back.
    fn go_on(&mut self, key: Key, from: Phase, to: Phase) {
        let Some(request) = self.requests.get_mut(&key).filter(|request| request.phase == from) else { return };
        request.phase = to;
        if let Phase::Swapped(at) = to {
            self.due.insert((at, key));
        }
        if request.returned && is_over(to) {
            self.requests.remove(&key);
        }
    }
}

impl Machine for Failover {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Complained(key) => self.complained(key),
            Event::Swapped(key) => {
                self.go_on(key, Phase::Swapping, Phase::Swapped(now + self.config.rebuild_delay));
            }
            Event::NoReplica(key) => self.go_on(key, Phase::Swapping, Phase::Hopeless),
            Event::Rebuilt(key) => self.go_on(key, Phase::Rebuilding, Phase::Settled),
            Event::RebuildFailed(key) => self.rebuild_failed(now, key),
            Event::Forget(file) => self.forget(file),
            Event::TargetReturned(target) => self.target_returned(target),
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

/// Whether a request is finished.
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

    fn complained(machine: &mut Failover, now: u64, key: Key) -> Vec<Action> {
        after(machine, now, Event::Complained(key))
    }

    #[test]
    fn many_complain_one_swap_and_a_rebuild_after_the_delay() {
        let mut machine = Failover::new(Config::default());
        let (k, swap) = (key(1, 2), Action::Swap { key: key(1, 2), reason: Reason::Complaint });
        assert_eq!(complained(&mut machine, 0, k), [swap]);
        (0..32).for_each(|_| assert_eq!(complained(&mut machine, 0, k), []));
        assert_eq!(after(&mut machine, 1, Event::Swapped(k)), []);
        assert_eq!(complained(&mut machine, 1, k), []);
        assert_eq!(machine.next_deadline(), Some(Time::from_secs(6)));
        assert_eq!(after(&mut machine, 5, Event::Tick), []);
        assert!(machine.is_at_work(FileId(1)) && !machine.is_at_work(FileId(2)));
        let rebuild = Action::Rebuild { key: k, reason: Reason::Delay(Time::from_secs(5)) };
        assert_eq!(after(&mut machine, 6, Event::Tick), [rebuild]);
        assert_eq!(after(&mut machine, 9, Event::Rebuilt(k)), []);
        assert_eq!((machine.phase(k), machine.next_deadline()), (Some(Phase::Settled), None));
        assert!(!machine.is_at_work(FileId(1)));
    }

    #[test]
    fn another_target_of_the_same_file_is_another_request() {
        let mut machine = Failover::new(Config::default());
        assert_eq!(complained(&mut machine, 0, key(1, 2)).len(), 1);
        let other = Action::Swap { key: key(1, 3), reason: Reason::Complaint };
        assert_eq!(complained(&mut machine, 0, key(1, 3)), [other]);
    }

    #[test]
    fn without_a_replica_nothing_is_tried_until_the_target_is_back() {
        let mut machine = Failover::new(Config::default());
        complained(&mut machine, 0, key(1, 2));
        assert_eq!(after(&mut machine, 0, Event::NoReplica(key(1, 2))), []);
        assert_eq!(complained(&mut machine, 5, key(1, 2)), []);
        assert_eq!((machine.phase(key(1, 2)), machine.is_at_work(FileId(1))), (Some(Phase::Hopeless), false));
        after(&mut machine, 6, Event::TargetReturned(TargetId(2)));
        assert_eq!(machine.phase(key(1, 2)), None);
        assert_eq!(complained(&mut machine, 7, key(1, 2)).len(), 1);
    }

    #[test]
    fn a_failed_rebuild_is_tried_again_later_each_time_and_given_up() {
        let mut machine = Failover::new(Config { rebuild_retries: 2, ..Config::default() });
        let k = key(1, 2);
        complained(&mut machine, 0, k);
        after(&mut machine, 0, Event::Swapped(k));
        let mut now = 5;
        after(&mut machine, now, Event::Tick);
        for (tries, delay) in [(1, 10), (2, 20)] {
            after(&mut machine, now, Event::RebuildFailed(k));
            now += delay;
            assert_eq!(machine.next_deadline(), Some(Time::from_secs(now)));
            let again = Action::Rebuild { key: k, reason: Reason::Retry(tries) };
            assert_eq!(after(&mut machine, now, Event::Tick), [again]);
        }
        after(&mut machine, now, Event::RebuildFailed(k));
        assert_eq!(machine.phase(k), Some(Phase::Settled));
    }

    #[test]
    fn a_replica_that_goes_away_is_not_rebuilt() {
        let mut machine = Failover::new(Config::default());
        complained(&mut machine, 0, key(1, 2));
        after(&mut machine, 0, Event::Swapped(key(1, 2)));
        assert_eq!(after(&mut machine, 1, Event::Forget(FileId(1))), []);
        assert_eq!((machine.next_deadline(), machine.phase(key(1, 2))), (None, None));
        complained(&mut machine, 2, key(1, 2));
        assert_eq!(after(&mut machine, 2, Event::Forget(FileId(1))), []);
        assert_eq!(after(&mut machine, 3, Event::Swapped(key(1, 2))), [], "an answer that comes late");
    }

    #[test]
    fn a_target_that_comes_back_leaves_the_rebuild_due() {
        let mut machine = Failover::new(Config::default());
        let k = key(1, 2);
        complained(&mut machine, 0, k);
        after(&mut machine, 0, Event::Swapped(k));
        after(&mut machine, 1, Event::TargetReturned(TargetId(2)));
        assert_eq!(after(&mut machine, 5, Event::Tick).len(), 1);
        after(&mut machine, 6, Event::Rebuilt(k));
        assert_eq!(machine.phase(k), None, "the next failure is a new one");
    }

    proptest! {
        #[test]
        fn one_swap_or_rebuild_is_under_way_per_key_and_every_swap_is_followed_by_its_rebuild(
            steps in prop::collection::vec((0u8..8, 0u64..3, 0u16..2), 1..120)
        ) {
            let mut machine = Failover::new(Config { rebuild_delay: Time::from_secs(2), rebuild_retries: 1 });
            let [mut swaps, mut swapped, mut rebuilds]: [BTreeSet<Key>; 3] = Default::default();
            for (n, (what, file, target)) in steps.into_iter().enumerate() {
                let k = key(file, target);
                let event = match what {
                    0..=2 => Event::Complained(k),
                    3 if swaps.remove(&k) => {
                        swapped.insert(k);
                        Event::Swapped(k)
                    }
                    4 if swaps.remove(&k) => Event::NoReplica(k),
                    5 if rebuilds.remove(&k) => Event::Rebuilt(k),
                    6 if rebuilds.remove(&k) => Event::RebuildFailed(k),
                    7 => {
                        for keys in [&mut swaps, &mut swapped, &mut rebuilds] {
                            keys.retain(|k| k.file != FileId(file));
                        }
                        Event::Forget(FileId(file))
                    }
                    _ => Event::Tick,
                };
                for action in after(&mut machine, n as u64, event) {
                    match action {
                        Action::Swap { key, .. } => prop_assert!(!rebuilds.contains(&key) && swaps.insert(key)),
                        Action::Rebuild { key, .. } => {
                            swapped.remove(&key);
                            prop_assert!(!swaps.contains(&key) && rebuilds.insert(key));
                        }
                    }
                }
            }
            for action in after(&mut machine, 1000, Event::Tick) {
                if let Action::Rebuild { key, .. } = action {
                    swapped.remove(&key);
                }
            }
            prop_assert!(swapped.is_empty());
        }
    }
}
