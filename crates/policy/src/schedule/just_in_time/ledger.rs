//! Share of the free space promised to jobs whose data are not there yet: no byte is promised twice.
//!
//! ```text
//!   |<------------------- free space ------------------>|
//!   [ promised, not there yet ][ can be promised ][ kept ]
//! ```
//! Data that have arrived do not count any more: they are no free space. For data on their way that is known some
//! seconds later ([`super::Coming`]), which errs to the safe side. Promises of other nodes of the volume count as well
//! ([`Space`]); they are exchanged by [`super::nodes`].

use super::JobId;
use std::collections::BTreeMap;

/// Treatment of a job whose data find no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits until there is some.
    #[default]
    Wait,
    /// It fails at once if the free space would be too small even without the promises to others.
    Fail,
}

/// The answer to a job that requests space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The space is promised.
    Granted,
    /// Wait for space.
    Wait,
    /// The space would be too small even after all other transfers.
    Refused,
}

/// Space of the volume, as measured once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that are free, promised or not.
    pub free: u64,
    /// Bytes of it promised by other nodes.
    pub elsewhere: u64,
}

/// Promises of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    when_full: WhenFull,
    /// Bytes that stay free in any case.
    kept: u64,
    promised: BTreeMap<JobId, u64>,
}

impl Ledger {
    /// Ledger without promises. `kept` bytes are never promised.
    pub fn new(when_full: WhenFull, kept: u64) -> Ledger {
        Ledger { when_full, kept, promised: BTreeMap::new() }
    }

    /// Bytes that could be promised now.
    pub fn room(&self, space: Space) -> u64 {
        let promised = self.promised().saturating_add(space.elsewhere);
        space.free.saturating_sub(self.kept).saturating_sub(promised)
    }

    /// Handles a job's request for space. A second promise to it replaces the first.
    pub fn ask(&mut self, job: JobId, bytes: u64, space: Space) -> Answer {
        self.promised.remove(&job);
        let offered = space.free.saturating_sub(self.kept);
        if bytes == 0 || bytes <= self.room(space) {
            self.promised.insert(job, bytes);
            Answer::Granted
        } else if self.when_full == WhenFull::Fail && bytes > offered {
            Answer::Refused
        } else {
            Answer::Wait
        }
    }

    /// Adopts a transfer that an earlier daemon promised space to, whether or not there is room.
    pub fn adopt(&mut self, job: JobId, bytes: u64) {
        self.promised.insert(job, bytes);
    }

    /// Reduces a job's promise to the bytes that have yet to arrive.
    pub fn comes(&mut self, job: JobId, left: u64) {
        self.promised.entry(job).and_modify(|bytes| *bytes = left);
    }

    /// A job's data are complete, or were given up.
    pub fn settle(&mut self, job: JobId) {
        self.promised.remove(&job);
    }

    /// Bytes promised and not there yet.
    pub fn promised(&self) -> u64 {
        self.promised.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: JobId = JobId(1);
    const B: JobId = JobId(2);

    fn free(free: u64) -> Space {
        Space { free, elsewhere: 0 }
    }

    #[test]
    fn the_same_bytes_are_not_promised_twice() {
        let mut ledger = Ledger::new(WhenFull::Wait, 10);
        assert_eq!(ledger.ask(A, 60, free(100)), Answer::Granted);
        assert_eq!(ledger.ask(B, 60, free(100)), Answer::Wait);
        assert_eq!(ledger.ask(B, 30, free(100)), Answer::Granted);
        ledger.comes(A, 20);
        ledger.comes(JobId(3), 20);
        assert_eq!((ledger.promised(), ledger.room(free(60))), (50, 0), "most of A's data are there");
        // All data have arrived and use their space.
        ledger.settle(A);
        assert_eq!((ledger.promised(), ledger.ask(B, 31, free(40))), (30, Answer::Wait));
        assert_eq!(ledger.ask(B, 30, free(40)), Answer::Granted);
    }

    #[test]
    fn what_other_nodes_promised_is_not_promised_here() {
        let mut ledger = Ledger::new(WhenFull::Fail, 10);
        let space = Space { free: 100, elsewhere: 50 };
        assert_eq!((ledger.room(space), ledger.ask(A, 41, space)), (40, Answer::Wait), "they may fail and leave it");
        assert_eq!(ledger.ask(A, 40, space), Answer::Granted);
        assert_eq!(ledger.ask(B, 1, space), Answer::Wait);
        assert_eq!(ledger.ask(B, 91, space), Answer::Refused);
        assert_eq!(ledger.room(Space { free: 100, elsewhere: u64::MAX }), 0);
    }

    #[test]
    fn who_may_not_wait_is_refused_only_if_it_cannot_fit() {
        let mut ledger = Ledger::new(WhenFull::Fail, 0);
        assert_eq!(ledger.ask(A, 60, free(100)), Answer::Granted);
        assert_eq!(ledger.ask(B, 60, free(100)), Answer::Wait, "A may fail and leave its space");
        assert_eq!(ledger.ask(B, 101, free(100)), Answer::Refused);
        assert_eq!(ledger.ask(B, 0, free(0)), Answer::Granted, "nothing needs no space");
    }

    proptest! {
        /// After any requests, settlements and releases the data on their way fit into the free space.
        #[test]
        fn nobody_runs_out_of_space_in_the_middle(steps in prop::collection::vec((0u8..3, 0u64..6, 1u64..50), 1..200)) {
            let mut ledger = Ledger::new(WhenFull::Wait, 5);
            let (mut left, mut coming) = (100u64, BTreeMap::new());
            for (what, job, bytes) in steps {
                let job = JobId(job);
                match what {
                    0 if !coming.contains_key(&job) => {
                        if ledger.ask(job, bytes, free(left)) == Answer::Granted {
                            coming.insert(job, bytes);
                        }
                    }
                    1 => {
                        if let Some(bytes) = coming.remove(&job) {
                            left -= bytes;
                            ledger.settle(job);
                        }
                    }
                    _ => {
                        coming.remove(&job);
                        ledger.settle(job);
                    }
                }
                prop_assert!(coming.values().sum::<u64>() + 5 <= left || coming.is_empty(), "{coming:?} in {left}");
            }
        }
    }
}
