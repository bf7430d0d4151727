//! Callers that wait for rows: their places in the order of requests, and their results.

use super::Recovery;
use crate::protect::recovery::entry::Phase;
use crate::protect::recovery::{Action, Key, Outcome, Waiter, Why};
use std::ops::Range;

/// A waiting caller.
#[derive(Debug)]
pub(super) struct Wait {
    pub waiter: Waiter,
    pub key: Key,
    pub rows: Range<u64>,
    /// Rows below this one are already fetched or under way for it.
    pub next: u64,
}

impl Recovery {
    pub(super) fn read_blocked(&mut self, key: Key, waiter: Waiter, rows: Range<u64>) {
        self.stats.waits += 1;
        self.pace.waits(self.now);
        if let Some(place) = self.place_of.get(&waiter).copied() {
            self.leave(place); // a waiter waits once at a time; the later request counts
        }
        if rows.is_empty() {
            return self.tell(waiter, Outcome::Ok);
        }
        if let Some(entry) = self.keys.get_mut(&key).filter(|e| e.has(&rows)) {
            entry.reader_at(&rows);
            return self.tell(waiter, Outcome::Ok);
        }
        self.wake_up(key, false);
        let Some(entry) = self.keys.get_mut(&key) else { return };
        match entry.phase {
            Phase::Broken { .. } => {
                let why = entry.why.unwrap_or(Why::NoSpare);
                return self.tell(waiter, Outcome::Failed(why));
            }
            // A reader of an abandoned recovery waits until it has ended; otherwise it would read the layout again and
            // again.
            Phase::Choosing | Phase::Publishing | Phase::Patching | Phase::Closing | Phase::Abandoned => {}
        }
        entry.reader_at(&rows);
        if let Some(why) = entry.why.filter(|_| entry.failed.intersects(&entry.clip(&rows))) {
            return self.tell(waiter, Outcome::Failed(why));
        }
        let place = self.next_place;
        self.next_place += 1;
        entry.waiting.insert(place);
        self.place_of.insert(waiter, place);
        self.order.insert(place, Wait { waiter, key, next: rows.start, rows });
    }

    /// Wakes waiters whose rows are all patched, or unavailable.
    pub(super) fn wake_settled(&mut self, key: Key) {
        let Some(entry) = self.keys.get(&key) else { return };
        let outcome = |place: &u64| {
            let rows = &self.order[place].rows;
            let failed = entry.why.filter(|_| entry.failed.intersects(&entry.clip(rows)));
            match failed {
                Some(why) => Some((*place, Outcome::Failed(why))),
                None => entry.has(rows).then_some((*place, Outcome::Ok)),
            }
        };
        let woken: Vec<_> = entry.waiting.iter().filter_map(outcome).collect();
        for (place, outcome) in woken {
            if let Some(wait) = self.leave(place) {
                self.tell(wait.waiter, outcome);
            }
        }
    }

    pub(super) fn tell_all(&mut self, key: Key, outcome: Outcome) {
        let places: Vec<u64> = self.keys.get(&key).map(|e| e.waiting.iter().copied().collect()).unwrap_or_default();
        for place in places {
            if let Some(wait) = self.leave(place) {
                self.tell(wait.waiter, outcome);
            }
        }
    }

    pub(super) fn tell(&mut self, waiter: Waiter, outcome: Outcome) {
        self.actions.push_back(Action::Wake { waiter, outcome });
    }

    pub(super) fn leave(&mut self, place: u64) -> Option<Wait> {
        let wait = self.order.remove(&place)?;
        self.place_of.remove(&wait.waiter);
        if let Some(entry) = self.keys.get_mut(&wait.key) {
            entry.waiting.remove(&place);
        }
        Some(wait)
    }
}
