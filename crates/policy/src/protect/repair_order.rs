//! Order in which lost objects are repaired when no caller waits.
//!
//! Objects of jobs that start soonest come first, because a repair that ends after the start helps no job. Then the
//! fewest healthy copies, because the next failure loses them. Then the smallest, because they shorten the list
//! fastest. Then the number, so that the order is deterministic.

use crate::ids::{FileId, ObjectId};
use crate::time::Time;

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
    (of.job_start.map_or(u64::MAX, |start| start.0), of.healthy_copies, of.bytes, of.file, of.object)
}

/// Sorts candidates into the order of repair.
pub fn repair_order(candidates: &mut [Candidate]) {
    candidates.sort_by_key(turn);
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
}
