//! Of many nodes a few look at the space of targets that are idle, each at a share of them, and tell the others.
//!
//! A node looks by itself at the targets that it uses, and at those that nobody told it of for long: one that only some
//! nodes reach, or whose looker has just gone.

use crate::TargetId;
use crate::time::Time;

/// So many of the lowest nodes look for all. A guess: with a hundred thousand targets each looks at a hundred a second,
/// and what they tell is some letters a minute.
const LOOKERS: usize = 16;

/// How often idle targets are looked at.
pub const EVERY: Time = Time::from_secs(60);

/// What nobody told of for so long is looked at here: three rounds that were missed.
const STALE: Time = Time::from_secs(180);

/// A node's share of the idle targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// There are few nodes, and each looks at all: what fails is noticed by each, too.
    All,
    /// It looks at the targets of that remainder, and tells the others.
    Part(u16),
    /// Others look.
    None,
}

impl Share {
    /// Of a node that has so many lower ones beside it, among so many in all.
    pub fn of(lower: usize, members: usize) -> Share {
        match (members > LOOKERS, lower < LOOKERS) {
            (false, _) => Share::All,
            (true, true) => Share::Part(lower as u16),
            (true, false) => Share::None,
        }
    }

    /// Whether it looks at an idle target of which it last knew something so long ago; `None`: never.
    pub fn looks_at(self, target: TargetId, known: Option<Time>) -> bool {
        known.is_none_or(|age| age >= STALE)
            || match self {
                Share::All => true,
                Share::Part(part) => target.0 % LOOKERS as u16 == part,
                Share::None => false,
            }
    }

    /// Whether others are told of what it saw on an idle target.
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
