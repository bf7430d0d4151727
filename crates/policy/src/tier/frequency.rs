//! Placement by frequency (LFU): the fast tier holds the locations with most accesses so far, without aging.
//!
//! A baseline: right for a load that never changes, and late for any other.

use super::table::LocalityTable;
use super::{Location, Move, Reason, Tier};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the moves of the `capacity` most frequently accessed locations to the fast tier. Among equals, present ones
/// stay.
pub fn plan(read: &LocalityTable, write: &LocalityTable, fast: &BTreeSet<Location>, capacity: u64) -> Vec<Move> {
    let mut counts: BTreeMap<Location, u32> = BTreeMap::new();
    for (at, entry) in read.iter().chain(write.iter()) {
        *counts.entry(at).or_default() += entry.hotness();
    }
    let count = |at: &Location| counts.get(at).copied().unwrap_or(0);
    let mut coming: Vec<(u32, Location)> =
        counts.iter().filter(|(at, _)| !fast.contains(at)).map(|(at, count)| (*count, *at)).collect();
    coming.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut going: Vec<(u32, Location)> = fast.iter().map(|at| (count(at), *at)).collect();
    going.sort_unstable();
    let mut room = capacity.saturating_sub(fast.len() as u64);
    let mut going = going.into_iter();
    let mut moves = Vec::new();
    for (hotness, location) in coming {
        if room > 0 {
            room -= 1;
        } else {
            match going.next() {
                Some((colder, victim)) if colder < hotness => {
                    let reason = Reason::Cold { hotness: colder, threshold: hotness };
                    moves.push(Move { location: victim, to: Tier::Slow, reason });
                }
                _ => break,
            }
        }
        let reason = Reason::ReadHot { hotness, threshold: 0 };
        moves.push(Move { location, to: Tier::Fast, reason });
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn the_most_frequent_are_on_the_fast_tier_and_equals_stay() {
        let at = |segment| Location { file: 0, segment };
        let (mut read, write) = (LocalityTable::new(1, 100), LocalityTable::new(1, 4));
        for (block, times) in [(1, 9), (2, 1), (3, 5), (4, 5)] {
            (0..times).for_each(|_| read.touch(Time::ZERO, at(block)));
        }
        let fast: BTreeSet<Location> = [at(2), at(3)].into();
        let moves: Vec<_> = plan(&read, &write, &fast, 2).iter().map(|of| (of.location.segment, of.to)).collect();
        assert_eq!(moves, [(2, Tier::Slow), (1, Tier::Fast)]);
    }
}
