//! Choice of the next row to fetch: due retries, then requested rows, then rows without waiter.

use super::Recovery;
use crate::protect::recovery::entry::Phase;
use crate::protect::recovery::{Action, FetchReason, Key};

impl Recovery {
    pub(super) fn join_turn(&mut self, key: Key) {
        if let Some(entry) = self.keys.get_mut(&key).filter(|e| !e.in_turn) {
            entry.in_turn = true;
            self.turn.push_back(key);
        }
    }

    /// Returns a row whose retry is due.
    pub(super) fn fetch_again(&mut self) -> Option<Action> {
        let &(due, key, row) = self.again.first()?;
        if due > self.now || self.in_flight >= self.config.fetches_max.max(1) {
            return None;
        }
        self.again.pop_first();
        let busy = self.keys.get_mut(&key)?.busy.get_mut(&row)?;
        busy.due = None;
        let reason = if busy.retries == 0 { FetchReason::NextSource } else { FetchReason::Retry(busy.retries) };
        let source_index = busy.source;
        Some(self.count_fetch(key, row, source_index, reason))
    }

    /// Returns the earliest requested row that is not under way.
    pub(super) fn fetch_asked(&mut self) -> Option<Action> {
        if self.in_flight >= self.config.fetches_max.max(1) {
            return None;
        }
        let rows_max = self.config.rows_per_key_max.max(1);
        for wait in self.order.values_mut() {
            let Some(entry) = self.keys.get_mut(&wait.key) else { continue };
            let ready = entry.phase == Phase::Patching && !entry.given_up && entry.busy.len() < rows_max;
            if !ready || wait.next >= wait.rows.end {
                continue;
            }
            let Some(row) = entry.untouched(wait.next..wait.rows.end) else {
                wait.next = wait.rows.end;
                continue;
            };
            wait.next = row + 1;
            let Some(busy) = entry.take(row) else { continue };
            let key = wait.key;
            return Some(self.count_fetch(key, row, busy.source, FetchReason::Asked));
        }
        None
    }

    /// Returns a row without waiter: ahead of a reader of the next key in turn that has one, else the next key's next
    /// row.
    pub(super) fn fetch_unasked(&mut self) -> Option<Action> {
        let unreserved = |max: usize| max.saturating_sub(self.config.reserved_for_asked).max(1);
        let (fetches_max, rows_max) = (unreserved(self.config.fetches_max), unreserved(self.config.rows_per_key_max));
        if self.in_flight >= fetches_max || !self.pace.allows(self.now, self.in_flight) {
            return None;
        }
        let mut in_order = None;
        for _ in 0..self.turn.len() {
            let key = self.turn.pop_front()?;
            let Some(entry) = self.keys.get_mut(&key) else { continue };
            let goes_on = entry.phase == Phase::Patching && !entry.given_up;
            let Some((row, is_ahead)) = goes_on.then(|| entry.next_unasked()).flatten() else {
                entry.in_turn = false;
                continue;
            };
            self.turn.push_back(key);
            if entry.busy.len() >= rows_max {
                continue;
            }
            if is_ahead {
                return self.take_unasked(key, row, FetchReason::Ahead);
            }
            in_order = in_order.or(Some((key, row)));
        }
        let (key, row) = in_order?;
        self.turn.retain(|k| *k != key);
        self.turn.push_back(key);
        self.take_unasked(key, row, FetchReason::InOrder)
    }

    fn take_unasked(&mut self, key: Key, row: u64, reason: FetchReason) -> Option<Action> {
        let entry = self.keys.get_mut(&key)?;
        match reason {
            FetchReason::Ahead => entry.ahead.took(row),
            _ => entry.cursor = row + 1,
        }
        let busy = entry.take(row)?;
        Some(self.count_fetch(key, row, busy.source, reason))
    }

    fn count_fetch(&mut self, key: Key, row: u64, source_index: u32, reason: FetchReason) -> Action {
        self.in_flight += 1;
        self.stats.fetches += 1;
        if let Some(busy) = self.keys.get_mut(&key).and_then(|entry| entry.busy.get_mut(&row)) {
            busy.since = self.now;
        }
        Action::Fetch { key, row, source_index, reason }
    }
}
