//! The recovery of one lost object: which rows are there, under way, failed; which sources still count.

use super::ahead::Ahead;
use super::rows::RowSet;
use super::{FetchError, Finished, Why};
use crate::ids::ObjectId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How far a recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A spare is being chosen.
    Choosing,
    /// The layout is being written.
    Publishing,
    /// Rows are being fetched.
    Patching,
    /// Every row is patched; the layout is yet to say so.
    Closing,
    /// Not every row could be patched. Refuses until then.
    Broken {
        /// When it may be tried again.
        until: Time,
    },
    /// Given up; remembered until all that was asked of the driver is answered.
    Abandoned,
}

/// A row under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// The source asked now or next.
    pub source: u32,
    /// The source asked first.
    pub first: u32,
    /// Retries at this source so far.
    pub retries: u32,
    /// When it is to be asked (again); `None` while a fetch is under way.
    pub due: Option<Time>,
    /// When the fetch that is under way was begun.
    pub since: Time,
}

/// One key's state.
#[derive(Debug)]
pub(super) struct Entry {
    pub phase: Phase,
    /// The driver owes the answer to `ChooseSpare` or `Publish`.
    pub owed: bool,
    /// The spare, once there is one.
    pub spare: Option<ObjectId>,
    /// Whether the layout names the spare.
    pub published: bool,
    pub rows: u64,
    pub patched: RowSet,
    pub failed: RowSet,
    pub busy: BTreeMap<u64, Busy>,
    /// What lies ahead of its readers.
    pub ahead: Ahead,
    /// Rows below were taken in order already.
    pub cursor: u64,
    /// Whether it stands in the round of those with rows to take in order.
    pub in_turn: bool,
    /// Those who wait, by their place in the order of asking.
    pub waiting: BTreeSet<u64>,
    /// Why the first row failed.
    pub why: Option<Why>,
    /// Rows failed since the last good one.
    pub failed_in_row: u32,
    /// No row is begun any more.
    pub given_up: bool,
    /// Which sources refused for good.
    dead: Vec<bool>,
    /// The source to ask first.
    preferred: u32,
}

impl Entry {
    /// A recovery that has just begun.
    pub(super) fn new() -> Entry {
        Entry {
            phase: Phase::Choosing,
            owed: true,
            spare: None,
            published: false,
            rows: 0,
            patched: RowSet::default(),
            failed: RowSet::default(),
            busy: BTreeMap::new(),
            ahead: Ahead::default(),
            cursor: 0,
            in_turn: false,
            waiting: BTreeSet::new(),
            why: None,
            failed_in_row: 0,
            given_up: false,
            dead: Vec::new(),
            preferred: 0,
        }
    }

    /// Takes on the spare.
    pub(super) fn spare_ready(&mut self, spare: ObjectId, rows: u64, sources: u32) {
        self.phase = Phase::Publishing;
        self.spare = Some(spare);
        self.rows = rows;
        self.dead = vec![false; sources as usize];
    }

    /// Forgets what failed, so that it is tried again.
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

    /// The rows that exist of a range.
    pub(super) fn clip(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start.min(self.rows)..rows.end.min(self.rows)
    }

    /// Whether all rows of a range are patched; rows beyond the end are.
    pub(super) fn has(&self, rows: &Range<u64>) -> bool {
        self.published && self.patched.contains_all(&self.clip(rows))
    }

    /// The first row of `rows` that nothing took yet.
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

    /// Somebody reads a range: what lies behind it is needed soon.
    pub(super) fn reader_at(&mut self, rows: &Range<u64>) {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.waits(rows, |from| self.untouched(from..self.rows));
        self.ahead = ahead;
    }

    /// The row to take next though no caller waits for it: one ahead of a reader, else the first; and whether it is ahead of one.
    pub(super) fn next_unasked(&mut self) -> Option<(u64, bool)> {
        let mut ahead = std::mem::take(&mut self.ahead);
        let row = ahead.next(|from| self.untouched(from..self.rows));
        self.ahead = ahead;
        let in_order = || self.untouched(self.cursor..self.rows).map(|row| (row, false));
        row.map(|row| (row, true)).or_else(in_order)
    }

    /// Marks a row as under way, from the source that answered best so far.
    pub(super) fn take(&mut self, row: u64) -> Option<Busy> {
        let first = self.live_from(self.preferred)?;
        let busy = Busy { source: first, first, retries: 0, due: None, since: Time::ZERO };
        self.busy.insert(row, busy);
        Some(busy)
    }

    /// A row is there.
    pub(super) fn patch(&mut self, row: u64) {
        self.busy.remove(&row);
        self.failed.remove(row);
        self.patched.insert(row..row + 1);
        self.failed_in_row = 0;
    }

    /// Learns from a failure what it says of the source, and gives the next one to ask for the row.
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

    /// Whether no source is left.
    pub(super) fn all_dead(&self) -> bool {
        self.dead.iter().all(|dead| *dead)
    }

    /// Whether nothing is left to do.
    pub(super) fn is_settled(&self) -> bool {
        self.busy.is_empty() && self.patched.len() + self.failed.len() == self.rows
    }

    /// How it ended, once it is settled.
    pub(super) fn result(&self) -> Finished {
        match self.why {
            Some(why) if self.failed.len() > 0 => Finished::Failed { why, rows_failed: self.failed.len() },
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

    /// The first source at or after `from`, going round, that is not dead.
    fn live_from(&self, from: u32) -> Option<u32> {
        let count = self.dead.len() as u32;
        (0..count).map(|n| (from + n) % count).find(|s| !self.dead[*s as usize])
    }
}
