//! The coordinator itself: all keys, the order of requests, and fetches under way.

mod fetch;
mod wait;

use super::entry::{Busy, Entry, Phase};
use super::pace::Pace;
use super::{Action, Config, Event, FetchError, Finished, Key, Outcome, Stats, Waiter, Why};
use crate::ids::ObjectId;
use crate::machine::Machine;
use crate::ranges::RangeSet;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wait::Wait;

/// The coordinator of all recoveries of a volume.
#[derive(Debug, Default)]
pub struct Recovery {
    config: Config,
    now: Time,
    keys: BTreeMap<Key, Entry>,
    /// All waiters, in the order of their requests.
    order: BTreeMap<u64, Wait>,
    place_of: BTreeMap<Waiter, u64>,
    next_place: u64,
    /// Keys with rows to fetch in ascending order; they take turns.
    turn: VecDeque<Key>,
    /// Rows to be requested again, with their times.
    again: BTreeSet<(Time, Key, u64)>,
    in_flight: usize,
    pace: Pace,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Recovery {
    /// Makes a coordinator without keys.
    pub fn new(config: Config) -> Recovery {
        Recovery { pace: Pace::new(config.row_within, config.fetches_max), config, ..Recovery::default() }
    }

    /// Whether a row of the spare holds its data. Always true for a finished recovery, false for an unknown key.
    pub fn is_patched(&self, key: Key, row: u64) -> bool {
        self.keys.get(&key).is_some_and(|e| e.has(&(row..row.saturating_add(1))))
    }

    /// Whether the key is known: in recovery, finished but not closed, or broken.
    pub fn knows(&self, key: Key) -> bool {
        self.keys.contains_key(&key)
    }

    /// Returns the number of patched rows and of all rows, for a published key.
    pub fn progress(&self, key: Key) -> Option<(u64, u64)> {
        self.keys.get(&key).filter(|e| e.published).map(|e| (e.patched.len(), e.rows))
    }

    /// Returns counts since the start.
    pub fn stats(&self) -> Stats {
        let (keys, waiting) = (self.keys.len() as u64, self.order.len() as u64);
        Stats { keys, waiting, in_flight: self.in_flight as u64, ..self.stats }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let under_way = |e: &Entry| e.busy.values().filter(|b| b.due.is_none()).count();
        assert_eq!(self.in_flight, self.keys.values().map(under_way).sum::<usize>());
        assert!(self.in_flight <= self.config.fetches_max.max(1), "fetches are bounded");
        assert_eq!(self.place_of.len(), self.order.len());
        let due = |e: &Entry| e.busy.values().filter(|b| b.due.is_some()).count();
        assert_eq!(self.again.len(), self.keys.values().map(due).sum::<usize>());
        for (key, e) in &self.keys {
            assert!(e.busy.len() <= self.config.rows_per_key_max.max(1), "rows of a key are bounded");
            assert!(e.busy.keys().all(|r| *r < e.rows && !e.patched.contains(*r) && !e.failed.contains(*r)));
            assert!(e.patched.len() + e.failed.len() + e.busy.len() as u64 <= e.rows.max(e.patched.len()));
            for place in &e.waiting {
                let wait = &self.order[place];
                assert_eq!((wait.key, self.place_of[&wait.waiter]), (*key, *place));
                assert!(!e.has(&wait.rows), "who has all rows does not wait");
                assert!(!e.failed.intersects(&e.clip(&wait.rows)), "who cannot have all rows does not wait");
            }
            let nobody = e.waiting.is_empty() && e.busy.is_empty();
            let idle = matches!(e.phase, Phase::Closing | Phase::Broken { .. });
            assert!(!idle || nobody, "nothing goes on where all is over");
        }
    }

    /// Begins a recovery, or restarts a broken one: immediately if `at_once`, else when its delay has passed.
    fn wake_up(&mut self, key: Key, at_once: bool) {
        let Some(entry) = self.keys.get_mut(&key) else {
            self.keys.insert(key, Entry::new());
            self.stats.started += 1;
            return self.actions.push_back(Action::ChooseSpare(key));
        };
        let Phase::Broken { until } = entry.phase else { return };
        if at_once || until <= self.now {
            entry.start_over();
            self.stats.started += 1;
            if entry.phase == Phase::Choosing {
                self.actions.push_back(Action::ChooseSpare(key));
            } else {
                self.join_turn(key);
            }
        }
    }

    fn spare_ready(&mut self, key: Key, new_object: ObjectId, rows: u64, sources: u32) {
        let waited_for = self.keys.get(&key).is_some_and(|e| e.phase == Phase::Choosing && e.spare.is_none());
        if waited_for && sources > 0 {
            let entry = self.keys.get_mut(&key).expect("looked up above");
            entry.spare_ready(new_object, rows, sources);
            return self.actions.push_back(Action::Publish { key, new_object });
        }
        if self.keys.get(&key).is_none_or(|e| e.spare != Some(new_object)) {
            self.actions.push_back(Action::Discard { key, new_object });
        }
        self.answered(key, Phase::Choosing, |this| this.broke(key, Why::NoSpare));
    }

    /// Handles an answer of the driver. Goes on if the key is still in that phase.
    fn answered(&mut self, key: Key, phase: Phase, go_on: impl FnOnce(&mut Recovery)) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        let abandoned = entry.phase == Phase::Abandoned && entry.owed;
        if entry.phase == phase || abandoned {
            entry.owed = false;
        }
        if abandoned {
            self.forget_if_over(key);
        } else if entry.phase == phase {
            go_on(self);
        }
    }

    fn published(&mut self, key: Key) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        entry.phase = Phase::Patching;
        self.wake_settled(key);
        self.join_turn(key);
        self.finish_if_settled(key);
    }

    fn patched(&mut self, key: Key, row: u64) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        if let Some(busy) = entry.busy.get(&row).copied() {
            if busy.due.is_none() {
                self.pace.came(self.now.since(busy.since), self.in_flight);
            }
            self.no_longer_busy(key, row, busy);
        }
        let Some(entry) = self.keys.get_mut(&key) else { return };
        if entry.published && row < entry.rows && !entry.patched.contains(row) {
            entry.patch(row);
            self.stats.rows_patched += 1;
            self.wake_settled(key);
            self.finish_if_settled(key);
        }
        self.forget_if_over(key);
    }

    fn fetch_failed(&mut self, key: Key, row: u64, kind: FetchError) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        let Some(busy) = entry.busy.get(&row).copied().filter(|b| b.due.is_none()) else { return };
        self.no_longer_busy(key, row, busy);
        let Some(entry) = self.keys.get_mut(&key) else { return };
        if entry.phase == Phase::Abandoned {
            return self.forget_if_over(key);
        }
        if !entry.given_up {
            let again = if kind == FetchError::Passing && busy.retries < self.config.retries {
                let wait = self.config.retry_first.0.saturating_mul(1 << busy.retries.min(40));
                let due = self.now + Time(wait.min(self.config.retry_max.0));
                Some(Busy { retries: busy.retries + 1, due: Some(due), ..busy })
            } else {
                let next = entry.next_source(busy.source, busy.first, kind);
                next.map(|source| Busy { source, retries: 0, due: Some(self.now), ..busy })
            };
            if let Some(busy) = again {
                entry.busy.insert(row, busy);
                self.again.insert((busy.due.unwrap_or(self.now), key, row));
                return;
            }
        }
        self.row_failed(key, row, kind);
    }

    fn row_failed(&mut self, key: Key, row: u64, kind: FetchError) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        self.stats.rows_failed += 1;
        entry.failed.insert(row..row + 1);
        entry.why.get_or_insert(Why::Sources(kind));
        if kind != FetchError::BadChecksum {
            entry.failed_in_row += 1; // wrong bytes for one row do not rule out the source for others
        }
        let hopeless = entry.failed_in_row >= self.config.failed_rows_max.max(1) || entry.all_dead();
        if hopeless && !entry.given_up {
            for (due, row) in entry.drop_retries() {
                self.again.remove(&(due, key, row));
            }
            let before = entry.failed.len();
            entry.fail_the_rest();
            self.stats.rows_failed += entry.failed.len() - before;
        }
        self.wake_settled(key);
        self.finish_if_settled(key);
    }

    /// Removes a row from those under way.
    fn no_longer_busy(&mut self, key: Key, row: u64, busy: Busy) {
        match busy.due {
            None => self.in_flight -= 1,
            Some(due) => {
                self.again.remove(&(due, key, row));
            }
        }
        if let Some(entry) = self.keys.get_mut(&key) {
            entry.busy.remove(&row);
        }
    }

    /// Ends a recovery before its first row.
    fn broke(&mut self, key: Key, why: Why) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        entry.phase = Phase::Broken { until: self.now + self.config.broken_for };
        entry.why = Some(why);
        entry.spare = None;
        self.stats.failed += 1;
        self.tell_all(key, Outcome::Failed(why));
        self.actions.push_back(Action::Finish { key, result: Finished::Failed { why, rows_failed: 0 } });
    }

    fn discard(&mut self, key: Key) {
        if let Some(new_object) = self.keys.get_mut(&key).and_then(|e| e.spare.take()) {
            self.actions.push_back(Action::Discard { key, new_object });
        }
    }

    fn finish_if_settled(&mut self, key: Key) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        if !entry.is_settled() {
            return;
        }
        let result = entry.result();
        match (entry.phase, result) {
            (Phase::Patching, Finished::Complete) => entry.phase = Phase::Closing,
            (Phase::Patching, Finished::Failed { .. }) => {
                entry.phase = Phase::Broken { until: self.now + self.config.broken_for };
                self.stats.failed += 1;
            }
            // The missing rows were written in another way.
            (Phase::Broken { .. }, Finished::Complete) => entry.phase = Phase::Closing,
            _ => return,
        }
        self.actions.push_back(Action::Finish { key, result });
    }

    fn abandon(&mut self, key: Key) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        entry.phase = Phase::Abandoned;
        // Earlier failures are void: the layout may have changed.
        (entry.why, entry.failed) = (None, RangeSet::default());
        for (due, row) in entry.drop_retries() {
            self.again.remove(&(due, key, row));
        }
        self.tell_all(key, Outcome::LookAgain);
        self.forget_if_over(key);
    }

    /// Forgets an abandoned key once no answer of the driver is outstanding.
    fn forget_if_over(&mut self, key: Key) {
        let Some(entry) = self.keys.get(&key) else { return };
        if entry.phase == Phase::Abandoned && !entry.owed && entry.busy.is_empty() {
            if !entry.published {
                self.discard(key);
            }
            self.tell_all(key, Outcome::LookAgain);
            if self.keys.remove(&key).is_some_and(|e| e.in_turn) {
                self.turn.retain(|k| *k != key);
            }
            self.actions.push_back(Action::Forgotten(key));
        }
    }
}

impl Machine for Recovery {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::ReadBlocked { key, waiter, rows } => self.read_blocked(key, waiter, rows),
            Event::RepairWanted(key) => self.wake_up(key, true),
            Event::SpareReady { key, new_object, rows, sources } => self.spare_ready(key, new_object, rows, sources),
            Event::SpareFailed(key) => self.answered(key, Phase::Choosing, |this| this.broke(key, Why::NoSpare)),
            Event::Published(key) => {
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.published |= entry.owed; // though abandoned, the layout names the spare: it is not discarded
                }
                self.answered(key, Phase::Publishing, |this| this.published(key));
            }
            Event::PublishFailed(key) => self.answered(key, Phase::Publishing, |this| {
                this.discard(key);
                this.broke(key, Why::NotPublished);
            }),
            Event::Patched { key, row } => self.patched(key, row),
            Event::FetchFailed { key, row, kind } => self.fetch_failed(key, row, kind),
            Event::Closed(key) => {
                // Durable only now: before, all rows are patched, but a power loss would restart the recovery.
                let closing = self.keys.get(&key).is_some_and(|e| e.phase == Phase::Closing);
                self.stats.completed += u64::from(closing);
                self.abandon(key);
            }
            Event::Abandoned(key) => self.abandon(key),
            Event::Cancel(waiter) => {
                if let Some(place) = self.place_of.get(&waiter).copied() {
                    self.leave(place);
                }
            }
            Event::Tick => {}
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions
            .pop_front()
            .or_else(|| self.fetch_again())
            .or_else(|| self.fetch_asked())
            .or_else(|| self.fetch_unasked())
    }

    fn next_deadline(&self) -> Option<Time> {
        let free = self.in_flight < self.config.fetches_max.max(1);
        self.again.first().filter(|_| free).map(|(due, ..)| *due)
    }
}
