//! Positions of the readers of one lost object, as derived from blocked reads, and the rows ahead of them.
//!
//! ```text
//!            taken for it since it last waited: its lead
//!               |----------->
//!  rows  . . . .#############. . . . . . .####. . . . . .        # patched or under way
//!               ^ last wait  ^ next       ^   ^ next
//! ```
//!
//! A reader of patched rows is invisible; a waiting reader has reached its *front*, the next row to be taken for it. So
//! fronts advance by themselves, and a wait resets the lead of its front to 0. The front with the smallest lead is
//! served first: readers that catch up precede readers that are slow or gone. Two fronts that reach the same row are
//! merged.
//!
//! Source: ours. Wang (3.3.4) patches requested rows in the order of the requests, instead of patching from the lowest
//! stripe "even though this stripe has already been read". This module applies the same idea to rows that no reader has
//! requested yet.

use std::ops::Range;

/// Most readers that are tracked; the one with the largest lead is dropped first. A guess: the ranks of one node.
const FRONTS_MAX: usize = 64;

/// One reader, or several of the same rows.
#[derive(Clone, Copy, Debug)]
struct Front {
    /// Next row to be taken for it.
    next: u64,
    /// Rows taken for it since it last waited.
    lead: u64,
}

/// All fronts of an object.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    fronts: Vec<Front>,
}

impl Ahead {
    /// Notes a wait for `rows`, which predicts a need of the following rows. `untouched` returns the first free row at
    /// or after its argument.
    pub(super) fn waits(&mut self, rows: &Range<u64>, untouched: impl Fn(u64) -> Option<u64>) {
        let place = |row| untouched(row).unwrap_or(row);
        let next = place(rows.end);
        if let Some(front) = self.fronts.iter_mut().find(|f| place(f.next) == next) {
            *front = Front { next, lead: 0 };
            return;
        }
        if self.fronts.len() == FRONTS_MAX {
            let furthest = (0..FRONTS_MAX).max_by_key(|n| self.fronts[*n].lead).unwrap_or(0);
            self.fronts.remove(furthest);
        }
        self.fronts.push(Front { next, lead: 0 });
    }

    /// Returns the next row ahead of a reader, if any; call [`Ahead::took`] when it is taken. Fronts without free rows
    /// ahead are dropped.
    pub(super) fn next(&mut self, untouched: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut known: Vec<Front> = Vec::with_capacity(self.fronts.len());
        for front in &self.fronts {
            let Some(next) = untouched(front.next) else { continue };
            match known.iter_mut().find(|f| f.next == next) {
                Some(same) => same.lead = same.lead.min(front.lead),
                None => known.push(Front { next, ..*front }),
            }
        }
        self.fronts = known;
        self.fronts.iter().min_by_key(|f| f.lead).map(|f| f.next)
    }

    /// Records that a row of [`Ahead::next`] was taken.
    pub(super) fn took(&mut self, row: u64) {
        if let Some(front) = self.fronts.iter_mut().find(|f| f.next == row) {
            *front = Front { next: row + 1, lead: front.lead + 1 };
        }
    }

    /// Forgets all readers.
    pub(super) fn clear(&mut self) {
        self.fronts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// Takes `n` of `rows` rows ahead of the readers.
    fn take(ahead: &mut Ahead, taken: &RefCell<BTreeSet<u64>>, rows: u64, n: usize) -> Vec<u64> {
        let untouched = |from: u64| (from..rows).find(|r| !taken.borrow().contains(r));
        let mut got = Vec::new();
        while got.len() < n
            && let Some(row) = ahead.next(untouched)
        {
            ahead.took(row);
            taken.borrow_mut().insert(row);
            got.push(row);
        }
        got
    }

    fn waits(ahead: &mut Ahead, taken: &RefCell<BTreeSet<u64>>, row: u64) {
        taken.borrow_mut().insert(row); // requested rows are taken elsewhere
        ahead.waits(&(row..row + 1), |from| (from..100).find(|r| !taken.borrow().contains(r)));
    }

    #[test]
    fn fronts_take_turns_and_one_whose_reader_waits_comes_first() {
        let (mut ahead, taken) = (Ahead::default(), RefCell::default());
        waits(&mut ahead, &taken, 10);
        waits(&mut ahead, &taken, 50);
        assert_eq!(take(&mut ahead, &taken, 100, 5), [11, 51, 12, 52, 13]);
        waits(&mut ahead, &taken, 53); // this reader has caught up: its lead is 0, the other's 3
        assert_eq!(take(&mut ahead, &taken, 100, 5), [54, 55, 56, 14, 57]);
    }

    #[test]
    fn fronts_that_meet_are_one_and_those_at_the_end_are_forgotten() {
        let (mut ahead, taken) = (Ahead::default(), RefCell::default());
        waits(&mut ahead, &taken, 93);
        waits(&mut ahead, &taken, 96);
        assert_eq!(take(&mut ahead, &taken, 100, 100), [94, 97, 95, 98, 99]);
        assert!(ahead.fronts.is_empty());
        waits(&mut ahead, &taken, 20);
        waits(&mut ahead, &taken, 20);
        assert_eq!(ahead.fronts.len(), 1);
    }

    #[test]
    fn random_reads_keep_no_more_than_the_limit() {
        let (mut ahead, taken) = (Ahead::default(), RefCell::default());
        for k in 0..1000 {
            waits(&mut ahead, &taken, k * 2 + 200);
        }
        assert_eq!(ahead.fronts.len(), FRONTS_MAX);
    }
}
