//! Order in which lost objects are repaired when no caller waits.
//!
//! Objects of jobs that start soonest come first, because a repair that ends after the start helps no job. Then the
//! fewest healthy copies, because the next failure loses them. Then the smallest, because they shorten the list
//! fastest. Then the number, so that the order is deterministic.

use crate::ids::{FileId, ObjectId};
use crate::time::Time;
use std::collections::BTreeSet;

/// A lost object, with the keys of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file that lost it.
    pub file: FileId,
    /// The lost object.
    pub object: ObjectId,
    /// Start of the first job that reads it; `None` if no job in the queue does.
    pub job_start: Option<Time>,
    /// Complete copies elsewhere: other in-sync mirrors; a source does not count.
    pub healthy_copies: u32,
    /// Bytes to restore.
    pub bytes: u64,
}

/// Sort key of a candidate: smaller is sooner.
pub type Turn = (u64, u32, u64, FileId, ObjectId);

/// Returns the sort key of a candidate.
pub fn turn(of: &Candidate) -> Turn {
    (need(of.job_start), of.healthy_copies, of.bytes, of.file, of.object)
}

/// Sorts candidates into the order of repair.
pub fn repair_order(candidates: &mut [Candidate]) {
    candidates.sort_by_key(turn);
}

/// Key for a file that is needed at this time.
fn need(job_start: Option<Time>) -> u64 {
    job_start.map_or(u64::MAX, |start| start.0)
}

/// The most urgent candidates of a walk over all files, in the order of repair.
#[derive(Clone, Debug)]
pub struct RepairQueue {
    turns: BTreeSet<Turn>,
    max: usize,
    left_out: u64,
}

impl RepairQueue {
    /// An empty queue for at most `max` candidates.
    pub fn new(max: usize) -> RepairQueue {
        RepairQueue { turns: BTreeSet::new(), max, left_out: 0 }
    }

    /// Adds a candidate. A full queue drops the least urgent one.
    pub fn add(&mut self, candidate: &Candidate) {
        self.turns.insert(turn(candidate));
        if self.turns.len() > self.max {
            self.turns.pop_last();
            self.left_out += 1;
        }
    }

    /// Sorts again by the present starts of jobs.
    pub fn sort(&mut self, job_start: impl Fn(FileId) -> Option<Time>) {
        let turns = std::mem::take(&mut self.turns).into_iter();
        self.turns = turns
            .map(|(_, copies, bytes, file, object)| (need(job_start(file)), copies, bytes, file, object))
            .collect();
    }

    /// Removes the most urgent candidate and returns its file.
    pub fn pop(&mut self) -> Option<FileId> {
        self.turns.pop_first().map(|(_, _, _, file, _)| file)
    }

    /// Number of dropped candidates.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(object: u64, job_start: Option<u64>, healthy_copies: u32, bytes: u64) -> Candidate {
        let job_start = job_start.map(Time);
        Candidate { file: FileId(1), object: ObjectId(object), job_start, healthy_copies, bytes }
    }

    #[test]
    fn jobs_first_then_fewest_copies_then_smallest() {
        let mut list = [
            candidate(1, None, 0, 10),
            candidate(2, None, 1, 1),
            candidate(3, Some(50), 3, 999),
            candidate(4, Some(20), 3, 999),
            candidate(5, None, 0, 5),
            candidate(6, Some(20), 0, 9999),
            candidate(0, None, 0, 5),
        ];
        repair_order(&mut list);
        assert_eq!(list.map(|c| c.object.0), [6, 4, 3, 0, 5, 1, 2]);
    }

    #[test]
    fn a_full_queue_keeps_the_most_urgent_and_follows_the_jobs() {
        let of = |n: u64, bytes| Candidate { file: FileId(n), ..candidate(n, None, 1, bytes) };
        let mut queue = RepairQueue::new(3);
        for (n, bytes) in [(1, 50), (2, 10), (3, 40), (4, 20), (5, 30)] {
            queue.add(&of(n, bytes));
        }
        assert_eq!((queue.left_out(), queue.pop()), (2, Some(FileId(2))));
        queue.sort(|file| (file == FileId(5)).then_some(Time(7)));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(FileId(5)), Some(FileId(4)), None]);
    }
}
