//! Which lost objects are repaired first when no caller waits.
//!
//! Those of jobs that start soonest, because a repair that ends after its job began helped no job; then those with the
//! fewest healthy copies left, because the next failure loses them; then the smallest, because they free the list
//! fastest; then by number, so that the order is the same every time.

use crate::ids::{FileId, ObjectId};
use crate::time::Time;

/// A lost object and what decides its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file.
    pub file: FileId,
    /// The lost object.
    pub object: ObjectId,
    /// When the first job that reads it starts; `None` if no job in the queue does.
    pub job_start: Option<Time>,
    /// Complete copies elsewhere: other in-sync mirrors; a source does not count.
    pub healthy_copies: u32,
    /// Bytes to bring back.
    pub bytes: u64,
}

/// The place of a candidate: the smaller, the sooner.
pub type Turn = (u64, u32, u64, FileId, ObjectId);

/// The turn of a candidate.
pub fn turn(of: &Candidate) -> Turn {
    (of.job_start.map_or(u64::MAX, |start| start.0), of.healthy_copies, of.bytes, of.file, of.object)
}

/// Puts candidates into the order of repair.
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
