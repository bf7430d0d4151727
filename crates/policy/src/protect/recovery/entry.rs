//! The recovery of one lost object: its patched, running and failed rows, and its usable sources.

use super::ahead::Ahead;
use super::{FetchError, Finished, Why};
use crate::ids::ObjectId;
use crate::ranges::RangeSet;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Progress of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// The driver chooses a spare.
    #[default]
    Choosing,
    /// The driver writes the layout.
    Publishing,
    /// The driver fetches rows.
    Patching,
    /// Every row is patched; the layout does not record it yet.
    Closing,
    /// Some rows could not be patched. Readers are refused for a while.
    Broken {
        /// Time from which it may be retried.
        until: Time,
    },
    /// Given up; kept until the driver has sent all its answers.
    Abandoned,
}

/// A row that is being fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// The source of the current or next request.
    pub source: u32,
    /// The source of the first request.
    pub first: u32,
    /// Retries at this source so far.
    pub retries: u32,
    /// Time of the next request; `None` while a fetch is under way.
    pub due: Option<Time>,
    /// Time at which the current fetch began.
    pub since: Time,
}

/// State of one key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub phase: Phase,
    /// Whether the driver owes the answer to `ChooseSpare` or `Publish`.
    pub owed: bool,
    /// The spare, once it exists.
    pub spare: Option<ObjectId>,
    /// Whether the layout names the spare.
    pub published: bool,
    pub rows: u64,
    pub patched: RangeSet,
    pub failed: RangeSet,
    pub busy: BTreeMap<u64, Busy>,
    /// Rows ahead of its readers.
    pub ahead: Ahead,
    /// Rows below this one are taken, in ascending order.
    pub cursor: u64,
    /// Whether its key is in the queue of keys with rows to fetch in order.
    pub in_turn: bool,
    /// Waiters, by place in the order of requests.
    pub waiting: BTreeSet<u64>,
    /// Reason for the first failed row.
    pub why: Option<Why>,
    /// Failed rows since the last good one.
    pub failed_in_row: u32,
    /// Whether no further row is begun.
    pub given_up: bool,
    /// Whether each source has refused permanently.
    dead: Vec<bool>,
    /// The source of first requests.
    preferred: u32,
}

impl Entry {
    /// Makes a recovery that has just begun.
    pub(super) fn new() -> Entry {
        Entry { phase: Phase::Choosing, owed: true, ..Entry::default() }
    }

    /// Sets the spare.
    pub(super) fn spare_ready(&mut self, spare: ObjectId, rows: u64, sources: u32) {
        self.phase = Phase::Publishing;
        self.spare = Some(spare);
        self.rows = rows;
        self.dead = vec![false; sources as usize];
    }

    /// Forgets failed rows, so that they are retried.
    pub(super) fn start_over(&mut self) {
        self.failed.clear();
        self.ahead.clear();
        self.cursor = 0;
        self.why = None;
        self.failed_in_row = 0;
        self.given_up = false;
        self.dead.fill(false);
        self.preferred = 0;
        self.phase = if self.published { Phase::Patching } else { Phase::Choosing };
        self.owed = !self.published;
    }

    /// Returns the part of a range that exists.
    pub(super) fn clip(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start.min(self.rows)..rows.end.min(self.rows)
    }

    /// Whether all rows of a range are patched; rows beyond the end count as patched.
    pub(super) fn has(&self, rows: &Range<u64>) -> bool {
        self.published && self.patched.contains_all(&self.clip(rows))
    }

    /// Returns the first row of `rows` that is neither patched, failed nor under way.
    pub(super) fn untouched(&self, rows: Range<u64>) -> Option<u64> {
        let end = rows.end.min(self.rows);
        let mut row = rows.start;
        while row < end {
            let next = self.failed.gap_from(self.patched.gap_from(row));
            let next = if self.busy.contains_key(&next) { next + 1 } else { next };
            if next == row {
                return Some(row);
            }
            row = next;
        }
        None
    }

    /// Notes a reader of a range: the rows behind it are needed soon.
    pub(super) fn reader_at(&mut self, rows: &Range<u64>) {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.waits(rows, |from| self.untouched(from..self.rows));
        self.ahead = ahead;
    }

    /// Returns the next row without waiter (one ahead of a reader, else the first), and whether it is ahead of a
    /// reader.
    pub(super) fn next_unasked(&mut self) -> Option<(u64, bool)> {
        let mut ahead = std::mem::take(&mut self.ahead);
        let row = ahead.next(|from| self.untouched(from..self.rows));
        self.ahead = ahead;
        let in_order = || self.untouched(self.cursor..self.rows).map(|row| (row, false));
        row.map(|row| (row, true)).or_else(in_order)
    }

    /// Marks a row as under way, from the preferred source.
    pub(super) fn take(&mut self, row: u64) -> Option<Busy> {
        let first = self.live_from(self.preferred)?;
        let busy = Busy { source: first, first, retries: 0, due: None, since: Time::ZERO };
        self.busy.insert(row, busy);
        Some(busy)
    }

    /// Gives up the rows that wait for a retry; returns these with their times.
    pub(super) fn drop_retries(&mut self) -> impl Iterator<Item = (Time, u64)> {
        let dropped = self.busy.extract_if(.., |_, busy| busy.due.is_some());
        dropped.filter_map(|(row, busy)| Some((busy.due?, row)))
    }

    /// Marks a row as patched.
    pub(super) fn patch(&mut self, row: u64) {
        self.busy.remove(&row);
        self.failed.remove(row..row + 1);
        self.patched.insert(row..row + 1);
        self.failed_in_row = 0;
    }

    /// Records a failure of the source; returns the next source for the row.
    pub(super) fn next_source(&mut self, source: u32, first: u32, kind: FetchError) -> Option<u32> {
        if matches!(kind, FetchError::Permanent | FetchError::Changed)
            && let Some(dead) = self.dead.get_mut(source as usize)
        {
            *dead = true;
        }
        let count = self.dead.len() as u32;
        if kind != FetchError::BadChecksum && self.preferred == source {
            self.preferred = (source + 1) % count.max(1);
        }
        let mut next = (source + 1) % count.max(1);
        while next != first {
            if !self.dead[next as usize] {
                return Some(next);
            }
            next = (next + 1) % count;
        }
        None
    }

    /// Whether every source has refused permanently.
    pub(super) fn all_dead(&self) -> bool {
        self.dead.iter().all(|dead| *dead)
    }

    /// Whether every row is patched or failed.
    pub(super) fn is_settled(&self) -> bool {
        self.busy.is_empty() && self.patched.len() + self.failed.len() == self.rows
    }

    /// Returns the result, once it is settled.
    pub(super) fn result(&self) -> Finished {
        match self.why {
            Some(why) if !self.failed.is_empty() => Finished::Failed { why, rows_failed: self.failed.len() },
            _ => Finished::Complete,
        }
    }

    /// Fails every row that is neither patched nor under way.
    pub(super) fn fail_the_rest(&mut self) {
        self.given_up = true;
        let mut row = 0;
        while let Some(start) = self.untouched(row..self.rows) {
            let patched = self.patched.next_from(start).unwrap_or(self.rows);
            let failed = self.failed.next_from(start).unwrap_or(self.rows);
            let busy = self.busy.range(start..).next().map_or(self.rows, |(row, _)| *row);
            row = patched.min(failed).min(busy);
            self.failed.insert(start..row);
        }
    }

    /// Returns the first usable source at or after `from`, cyclically.
    fn live_from(&self, from: u32) -> Option<u32> {
        let count = self.dead.len() as u32;
        (0..count).map(|n| (from + n) % count).find(|s| !self.dead[*s as usize])
    }
}
