//! A slow oracle: it plays the driver in a world with random failures, and tracks all rows of all keys one by one. It
//! checks each action against the coordinator's promises.

use super::*;
use crate::machine::Machine;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Next event of the script.
#[derive(Clone, Debug)]
enum Step {
    Block {
        key: u8,
        start: u64,
        len: u64,
    },
    Repair {
        key: u8,
    },
    /// The driver answers one outstanding action, with success or with a failure.
    Answer {
        which: usize,
        failure: Option<FetchError>,
    },
    Cancel {
        which: usize,
    },
    Abandon {
        key: u8,
    },
    Wait {
        millis: u64,
    },
}

/// An answer that the driver owes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Owed {
    Spare(Key),
    Publish(Key),
    Row(Key, u64),
}

impl Owed {
    fn key(&self) -> Key {
        match self {
            Owed::Spare(key) | Owed::Publish(key) | Owed::Row(key, _) => *key,
        }
    }
}

#[derive(Default)]
struct Known {
    rows: u64,
    published: bool,
    abandoned: bool,
    active: bool,
    patched: BTreeSet<u64>,
    /// Rows begun since the recovery began (or began again).
    begun: BTreeSet<u64>,
    /// Ends of blocked reads since the recovery began (or began again).
    read_to: BTreeSet<u64>,
    /// Rows with a failed last fetch: some of them wait for a retry, and count against their key's limit.
    failing: BTreeSet<u64>,
}

struct Oracle {
    machine: Recovery,
    config: Config,
    now: Time,
    keys: BTreeMap<Key, Known>,
    waiting: VecDeque<(Waiter, Key, Range<u64>)>,
    owed: Vec<Owed>,
    next_waiter: Waiter,
    objects: u64,
    outcomes: BTreeMap<Waiter, Outcome>,
}

fn key(n: u8) -> Key {
    Key { file: FileId(u64::from(n)), lost: ObjectId(100 + u64::from(n)) }
}

impl Known {
    fn untouched(&self, from: u64) -> Option<u64> {
        (from..self.rows).find(|r| !self.patched.contains(r) && !self.begun.contains(r))
    }
}

impl Oracle {
    fn new(config: Config) -> Oracle {
        Oracle {
            machine: Recovery::new(config.clone()),
            config,
            now: Time::ZERO,
            keys: BTreeMap::new(),
            waiting: VecDeque::new(),
            owed: Vec::new(),
            next_waiter: 1,
            objects: 1_000,
            outcomes: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: Event) {
        self.machine.handle(self.now, event);
        while let Some(action) = self.machine.poll() {
            self.see(action);
        }
        self.machine.check();
        for (key, known) in &self.keys {
            for row in 0..known.rows {
                let there = known.published && known.patched.contains(&row);
                assert_eq!(self.machine.is_patched(*key, row), there && self.machine.knows(*key), "{key:?} {row}");
            }
        }
    }

    fn see(&mut self, action: Action) {
        match action {
            Action::ChooseSpare(key) => {
                let known = self.keys.entry(key).or_default();
                assert!(!known.active, "one recovery per key");
                let read_to = std::mem::take(&mut known.read_to);
                *known = Known { active: true, read_to, ..Known::default() };
                self.owed.push(Owed::Spare(key));
            }
            Action::Publish { key, .. } => self.owed.push(Owed::Publish(key)),
            Action::Discard { key, .. } => assert!(self.keys.get(&key).is_none_or(|k| !k.published)),
            Action::Fetch { key, row, reason, .. } => self.see_fetch(key, row, reason),
            Action::Wake { waiter, outcome } => {
                let at = self.waiting.iter().position(|(w, ..)| *w == waiter).expect("woken once, while it waits");
                let (_, key, rows) = self.waiting.remove(at).expect("found above");
                let known = self.keys.entry(key).or_default();
                match outcome {
                    Outcome::Ok => assert!(rows.clone().all(|r| r >= known.rows || known.patched.contains(&r))),
                    Outcome::LookAgain => assert!(known.abandoned),
                    Outcome::Failed(_) => {
                        assert!(
                            !known.published || rows.clone().any(|r| r < known.rows && !known.patched.contains(&r))
                        );
                    }
                }
                self.outcomes.insert(waiter, outcome);
            }
            Action::Finish { key, result } => {
                let known = self.keys.get_mut(&key).expect("finished what was begun");
                known.active = false;
                let complete = known.published && known.patched.len() as u64 == known.rows;
                assert_eq!(result == Finished::Complete, complete);
                assert!(!self.waiting.iter().any(|(_, k, _)| *k == key), "nobody waits for what is over");
            }
            Action::Forgotten(key) => {
                assert!(!self.machine.knows(key), "it begins anew");
                assert!(!self.waiting.iter().any(|(_, k, _)| *k == key), "nobody waits for what is forgotten");
                assert!(!self.owed.iter().any(|owed| owed.key() == key), "nothing is owed");
            }
        }
    }

    fn see_fetch(&mut self, key: Key, row: u64, reason: FetchReason) {
        assert!(!self.owed.contains(&Owed::Row(key, row)), "a row is asked for once at a time");
        let in_flight = self.owed.iter().filter(|o| matches!(o, Owed::Row(..))).count();
        assert!(in_flight < self.config.fetches_max);
        let known = &self.keys[&key];
        assert!(known.published && row < known.rows && !known.patched.contains(&row), "no row is fetched twice");
        match reason {
            FetchReason::Asked => {
                let asked = self.asked();
                let turn = asked.iter().position(|a| (a.0, a.1) == (key, row)).expect("somebody waits for it");
                assert!(asked[..turn].iter().all(|a| a.2), "in the order of asking");
            }
            FetchReason::InOrder => {
                assert!(self.asked().iter().all(|a| a.2), "asked rows come first");
                assert_eq!(known.untouched(0), Some(row), "ascending");
                assert!(
                    known.read_to.iter().all(|end| known.untouched(*end).is_none()),
                    "what is ahead of readers comes first"
                );
            }
            FetchReason::Ahead => {
                assert!(self.asked().iter().all(|a| a.2), "asked rows come first");
                assert!(known.read_to.iter().any(|end| known.untouched(*end) == Some(row)), "just ahead of a reader");
            }
            FetchReason::Retry(_) | FetchReason::NextSource => assert!(known.begun.contains(&row)),
        }
        let known = self.keys.get_mut(&key).expect("looked up above");
        known.active = true;
        known.begun.insert(row);
        known.failing.remove(&row);
        self.owed.push(Owed::Row(key, row));
    }

    /// For each waiter, in the order of the requests: its next free row, and whether its key may be full. (Exact
    /// without failures; otherwise permanently failed rows count as if they waited for a retry.)
    fn asked(&self) -> Vec<(Key, u64, bool)> {
        let next = |(_, key, rows): &(Waiter, Key, Range<u64>)| {
            let known = self.keys.get(key).filter(|k| k.published && !k.abandoned)?;
            let row =
                rows.clone().find(|r| *r < known.rows && !known.patched.contains(r) && !known.begun.contains(r))?;
            let in_flight = self.owed.iter().filter(|o| matches!(o, Owed::Row(k, _) if k == key)).count();
            Some((*key, row, in_flight + known.failing.len() >= self.config.rows_per_key_max))
        };
        self.waiting.iter().filter_map(next).collect()
    }

    fn answer(&mut self, at: usize, failure: Option<FetchError>) {
        let owed = self.owed.swap_remove(at);
        self.objects += 1;
        match (owed, failure) {
            (Owed::Spare(key), None) => {
                let rows = self.objects % 13;
                let known = self.keys.entry(key).or_default();
                known.rows = if known.abandoned { 0 } else { rows };
                let (new_object, sources) = (ObjectId(self.objects), 1 + (self.objects % 3) as u32);
                self.tell(Event::SpareReady { key, new_object, rows, sources });
            }
            (Owed::Spare(key), Some(_)) => self.tell(Event::SpareFailed(key)),
            (Owed::Publish(key), None) => {
                self.keys.entry(key).or_default().published = true;
                self.tell(Event::Published(key));
            }
            (Owed::Publish(key), Some(_)) => self.tell(Event::PublishFailed(key)),
            (Owed::Row(key, row), None) => {
                self.keys.entry(key).or_default().patched.insert(row);
                self.tell(Event::Patched { key, row });
            }
            (Owed::Row(key, row), Some(kind)) => {
                self.keys.entry(key).or_default().failing.insert(row);
                self.tell(Event::FetchFailed { key, row, kind });
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Block { key: n, start, len } => {
                let waiter = self.next_waiter;
                self.next_waiter += 1;
                self.forget_what_ended(key(n));
                if len > 0 {
                    self.keys.entry(key(n)).or_default().read_to.insert(start + len);
                }
                self.waiting.push_back((waiter, key(n), start..start + len));
                self.tell(Event::ReadBlocked { key: key(n), waiter, rows: start..start + len });
                if self.waiting.iter().any(|(w, ..)| *w == waiter) {
                    self.keys.entry(key(n)).or_default().active = true; // though no row of it may have its turn yet
                }
            }
            Step::Repair { key: n } => {
                self.forget_what_ended(key(n));
                self.tell(Event::RepairWanted(key(n)));
            }
            Step::Answer { which, failure } if !self.owed.is_empty() => {
                self.answer(which % self.owed.len(), failure);
            }
            Step::Cancel { which } if !self.waiting.is_empty() => {
                let at = which % self.waiting.len();
                let (waiter, ..) = self.waiting.remove(at).expect("in range");
                self.tell(Event::Cancel(waiter));
            }
            Step::Abandon { key: n } => {
                let known = self.keys.entry(key(n)).or_default();
                known.abandoned = self.machine.knows(key(n));
                known.active = false;
                self.tell(Event::Abandoned(key(n)));
            }
            Step::Wait { millis } => {
                self.now = self.now + Time::from_millis(millis);
                self.tell(Event::Tick);
            }
            Step::Answer { .. } | Step::Cancel { .. } => {}
        }
    }

    /// A key that the machine does not know, or that has ended and may begin again, has no rows under way.
    fn forget_what_ended(&mut self, key: Key) {
        let Some(known) = self.keys.get_mut(&key) else { return };
        if !self.machine.knows(key) {
            *known = Known::default();
        } else if !known.active && !known.abandoned {
            known.begun = known.patched.clone();
            known.failing.clear();
            known.read_to.clear();
        }
    }

    /// Answers all actions with success and lets time pass until no action is open.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.owed.is_empty() {
                self.answer(0, None);
            } else if let Some(due) = self.machine.next_deadline() {
                self.now = self.now.max(due);
                self.tell(Event::Tick);
            } else {
                assert!(self.waiting.is_empty(), "every waiter is woken: {:?}", self.waiting);
                assert_eq!((self.machine.stats().waiting, self.machine.stats().in_flight), (0, 0));
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

fn failure() -> impl Strategy<Value = Option<FetchError>> {
    prop_oneof![
        6 => Just(None),
        2 => Just(Some(FetchError::Passing)),
        1 => Just(Some(FetchError::BadChecksum)),
        1 => prop_oneof![Just(Some(FetchError::Changed)), Just(Some(FetchError::Permanent))],
    ]
}

fn step(failure: impl Strategy<Value = Option<FetchError>>, abandon: bool) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..4, 0u64..14, 0u64..4).prop_map(|(key, start, len)| Step::Block { key, start, len }),
        1 => (0u8..4).prop_map(|key| Step::Repair { key }),
        12 => (any::<usize>(), failure).prop_map(|(which, failure)| Step::Answer { which, failure }),
        1 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        u32::from(abandon) => (0u8..4).prop_map(|key| Step::Abandon { key }),
        2 => (0u64..15_000).prop_map(|millis| Step::Wait { millis }),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    (1usize..5, 1usize..7, 0usize..3, 0u32..3, 1u32..4).prop_map(|(per_key, total, reserved, retries, failed)| Config {
        rows_per_key_max: per_key,
        fetches_max: total,
        reserved_for_asked: reserved,
        retries,
        failed_rows_max: failed,
        ..Config::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn promises_hold_while_everything_fails(
        config in config(),
        steps in prop::collection::vec(step(failure(), true), 1..150),
    ) {
        let mut oracle = Oracle::new(config);
        steps.into_iter().for_each(|s| oracle.step(s));
        oracle.settle();
    }

    #[test]
    fn when_nothing_fails_each_row_is_fetched_once_and_everybody_is_served(
        config in config(),
        steps in prop::collection::vec(step(Just(None), false), 1..150),
    ) {
        let mut oracle = Oracle::new(config);
        steps.into_iter().for_each(|s| oracle.step(s));
        oracle.settle();
        let rows: u64 = oracle.keys.values().map(|k| k.rows).sum();
        // All recoveries are durable.
        for key in oracle.keys.keys() {
            oracle.machine.handle(Time::ZERO, Event::Closed(*key));
        }
        let stats = oracle.machine.stats();
        prop_assert_eq!((stats.fetches, stats.rows_patched, stats.rows_failed), (rows, rows, 0));
        prop_assert_eq!(stats.completed, stats.started);
        prop_assert!(oracle.outcomes.values().all(|o| *o == Outcome::Ok));
    }
}
