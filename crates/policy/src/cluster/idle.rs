//! In a large cluster, a few nodes measure the space of idle targets, each its share, and report it to the others.
//!
//! A node measures by itself the targets that it uses, and those without a recent report. Such targets are reached by
//! some nodes only, or their measuring node has just left.

use crate::TargetId;
use crate::time::Time;

/// Number of lowest nodes that measure for all. A guess: of a hundred thousand targets each measures a hundred a
/// second, and its reports are a few messages a minute.
const LOOKERS: usize = 16;

/// Interval of measurements of an idle target.
pub const EVERY: Time = Time::from_secs(60);

/// Age of a report after which a node measures the target itself: three missed rounds.
const STALE: Time = Time::from_secs(180);

/// Idle targets that a node measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// In a small cluster each node measures every target, so each also notices failures.
    All,
    /// Targets with this remainder of their number; the results are reported to the others.
    Part(u16),
    /// Other nodes measure for this one.
    None,
}

impl Share {
    /// Share of a node with `lower` lower nodes, of `members` in all.
    pub fn of(lower: usize, members: usize) -> Share {
        match (members > LOOKERS, lower < LOOKERS) {
            (false, _) => Share::All,
            (true, true) => Share::Part(lower as u16),
            (true, false) => Share::None,
        }
    }

    /// Whether the node measures an idle target whose last report has this age; `None`: without a report.
    pub fn looks_at(self, target: TargetId, known: Option<Time>) -> bool {
        known.is_none_or(|age| age >= STALE)
            || match self {
                Share::All => true,
                Share::Part(part) => target.0 % LOOKERS as u16 == part,
                Share::None => false,
            }
    }

    /// Whether the node reports its measurement of an idle target to the others.
    pub fn tells_of(self, target: TargetId) -> bool {
        self != Share::All && self.looks_at(target, Some(Time::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_nodes_exactly_one_looks_at_each_target_and_tells() {
        for members in [17, 18, 1000] {
            let shares: Vec<Share> = (0..members).map(|lower| Share::of(lower, members)).collect();
            for target in (1..200).chain([u16::MAX]).map(TargetId) {
                let looks = shares.iter().filter(|share| share.looks_at(target, Some(EVERY))).count();
                let tells = shares.iter().filter(|share| share.tells_of(target)).count();
                assert_eq!((looks, tells), (1, 1), "{target} of {members}");
            }
        }
    }

    #[test]
    fn of_few_each_looks_at_all_and_tells_nobody() {
        for lower in 0..16 {
            let share = Share::of(lower, 16);
            assert!(share.looks_at(TargetId(7), Some(Time::ZERO)) && !share.tells_of(TargetId(7)));
        }
    }

    #[test]
    fn what_nobody_told_of_is_looked_at_here() {
        let share = Share::of(20, 1000);
        let looks = |known| share.looks_at(TargetId(7), known);
        assert!(looks(None) && looks(Some(STALE)) && !looks(Some(Time::from_secs(179))));
        assert!(!share.tells_of(TargetId(7)));
    }
}
