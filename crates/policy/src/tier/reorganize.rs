//! The paper's Algorithm 2: moves at the end of a window.
//!
//! ```text
//!   fast tier     in neither table: -> to the slow one, whenever the fast tier has less free space than the threshold
//!   read table    hotness > H: on the slow tier -> to the fast one, if it fits
//!                 hotness < L: out of the table; on the fast tier -> to the slow one, later:
//!                              only while the fast tier has less free space than the threshold
//!   write table   hotness > H: on the fast tier -> to the slow one
//!                 hotness < L: out of the table
//! ```
//! The tables hold the working set: the locations accessed within the window. Locations without access are the coldest
//! and leave first. Both comparisons are strict. A location hot in both tables ends on the slow tier because the write
//! table comes second; `read_wins` reverses this. Two moves of one location that undo each other are both dropped.
//!
//! Source: WS-ROS, Algorithm 2; the reference, section 11, readings A-31 (delayed demotion) and A-32 (hot in both).

use super::table::LocalityTable;
use super::{Location, Move, Reason, Tier};
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Threshold H: a location with more accesses in the window is hot.
    pub hot: u32,
    /// Threshold L: a location with fewer accesses is cold.
    pub cold: u32,
    /// Free bytes of the fast tier below which cold data leave it.
    pub free_bytes: u64,
    /// Whether a location hot in both tables goes to the fast tier.
    pub read_wins: bool,
}

impl Default for Thresholds {
    /// The paper's: H = 3, L = 2, 20 GB; the write table wins.
    fn default() -> Thresholds {
        Thresholds { hot: 3, cold: 2, free_bytes: 20_000_000_000, read_wins: false }
    }
}

/// The fast tier's space, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes of the tier.
    pub free_bytes: u64,
    /// Bytes of a location.
    pub block_bytes: u64,
}

/// Returns the moves in the order of the algorithm, without dropping pairs; `fast` are the locations on the fast tier.
/// Cold locations leave the tables. A cold location that stays, since space suffices, is cold again at the end of the
/// next window unless it is read.
pub fn algorithm_2(
    read: &mut LocalityTable,
    write: &mut LocalityTable,
    fast: &BTreeSet<Location>,
    mut space: Space,
    thresholds: &Thresholds,
) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut placed: BTreeMap<Location, Tier> = BTreeMap::new();
    let place = |at: Location| if fast.contains(&at) { Tier::Fast } else { Tier::Slow };
    let left_the_working_set = |at: &Location| read.get(*at).is_none() && write.get(*at).is_none();
    // Computed before any location leaves the tables.
    let unused: Vec<Location> = fast.iter().copied().filter(left_the_working_set).collect();
    let mut unused = unused.into_iter();
    let entries: Vec<_> = read.iter().map(|(at, entry)| Some((at, entry.hotness()))).collect();
    for entry in entries.into_iter().chain([None]) {
        // Before any accessed location leaves, and again as promotions take the space.
        while space.free_bytes < thresholds.free_bytes
            && let Some(coldest) = unused.next()
        {
            demote_cold(coldest, 0, &mut space, thresholds, &mut moves, &mut placed);
        }
        let Some((location, hotness)) = entry else { break };
        if hotness > thresholds.hot {
            if place(location) == Tier::Slow && space.free_bytes >= space.block_bytes {
                space.free_bytes -= space.block_bytes;
                placed.insert(location, Tier::Fast);
                let reason = Reason::ReadHot { hotness, threshold: thresholds.hot };
                moves.push(Move { location, to: Tier::Fast, reason });
            }
        } else if hotness < thresholds.cold {
            read.remove(location);
            if place(location) == Tier::Fast {
                demote_cold(location, hotness, &mut space, thresholds, &mut moves, &mut placed);
            }
        }
    }
    let entries: Vec<_> = write.iter().map(|(at, entry)| (at, entry.hotness())).collect();
    for (location, hotness) in entries {
        if hotness > thresholds.hot {
            let on_fast = placed.get(&location).copied().unwrap_or_else(|| place(location)) == Tier::Fast;
            if on_fast && !(thresholds.read_wins && read.hotness(location) > thresholds.hot) {
                placed.insert(location, Tier::Slow);
                let reason = Reason::WriteHot { hotness, threshold: thresholds.hot };
                moves.push(Move { location, to: Tier::Slow, reason });
            }
        } else if hotness < thresholds.cold {
            write.remove(location);
        }
    }
    moves
}

/// Removes pairs of moves of one location that undo each other.
pub fn cancel_pairs(moves: Vec<Move>) -> Vec<Move> {
    let mut count: BTreeMap<Location, u32> = BTreeMap::new();
    moves.iter().for_each(|of| *count.entry(of.location).or_default() += 1);
    moves.into_iter().filter(|of| count[&of.location] == 1).collect()
}

/// Demotes a cold location if space is short.
fn demote_cold(
    location: Location,
    hotness: u32,
    space: &mut Space,
    thresholds: &Thresholds,
    moves: &mut Vec<Move>,
    placed: &mut BTreeMap<Location, Tier>,
) {
    if space.free_bytes < thresholds.free_bytes {
        space.free_bytes += space.block_bytes;
        placed.insert(location, Tier::Slow);
        let reason = Reason::Cold { hotness, threshold: thresholds.cold };
        moves.push(Move { location, to: Tier::Slow, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    const LOC: fn(u64) -> Location = |block| Location { file: 0, segment: block };

    /// The walk-through of the reference: reads of loc1-4 and writes of loc2, loc4, loc5, with the given numbers.
    fn tables() -> (LocalityTable, LocalityTable) {
        let (mut read, mut write) = (LocalityTable::new(1, 100), LocalityTable::new(1, 100));
        let touch = |table: &mut LocalityTable, hotness: &[(u64, u32)]| {
            for &(block, times) in hotness {
                (0..times).for_each(|n| table.touch(Time(u64::from(n)), LOC(block)));
            }
        };
        touch(&mut read, &[(1, 1), (2, 5), (3, 3), (4, 4)]);
        touch(&mut write, &[(2, 1), (4, 6), (5, 4)]);
        (read, write)
    }

    fn fast() -> BTreeSet<Location> {
        [1, 3, 5].map(LOC).into()
    }

    /// Moves as block and tier, the blocks that each table keeps, and the moves themselves.
    type Ran = (Vec<(u64, Tier)>, Vec<u64>, Vec<u64>, Vec<Move>);

    fn run(thresholds: &Thresholds, free: u64) -> Ran {
        let (mut read, mut write) = tables();
        let space = Space { free_bytes: free, block_bytes: 1 };
        let moves = algorithm_2(&mut read, &mut write, &fast(), space, thresholds);
        let kept = |table: &LocalityTable| table.iter().map(|(at, _)| at.segment).collect::<Vec<_>>();
        (moves.iter().map(|of| (of.location.segment, of.to)).collect(), kept(&read), kept(&write), moves)
    }

    #[test]
    fn the_walk_through_of_the_reference() {
        use Tier::{Fast, Slow};
        let short = Thresholds { free_bytes: 20, ..Thresholds::default() };
        let (order, read, write, moves) = run(&short, 2);
        assert_eq!(order, [(1, Slow), (2, Fast), (4, Fast), (4, Slow), (5, Slow)]);
        assert_eq!((read, write), (vec![2, 3, 4], vec![4, 5]));
        let made: Vec<_> = cancel_pairs(moves).iter().map(|of| (of.location.segment, of.to)).collect();
        assert_eq!(made, [(1, Slow), (2, Fast), (5, Slow)], "the pair of loc4 undoes itself");
    }

    #[test]
    fn reads_win_if_so_configured_and_cold_data_wait_for_space_to_be_short() {
        use Tier::{Fast, Slow};
        let wins = Thresholds { free_bytes: 20, read_wins: true, ..Thresholds::default() };
        assert_eq!(run(&wins, 2).0, [(1, Slow), (2, Fast), (4, Fast), (5, Slow)]);
        let roomy = Thresholds { free_bytes: 20, ..Thresholds::default() };
        assert_eq!(run(&roomy, 1000).0, [(2, Fast), (4, Fast), (4, Slow), (5, Slow)], "loc1 stays");
    }

    #[test]
    fn what_stayed_goes_when_space_becomes_short_unless_it_warmed_up() {
        let thresholds = Thresholds { free_bytes: 20, ..Thresholds::default() };
        let run = |read: &mut LocalityTable, free_bytes| {
            let (mut write, space) = (LocalityTable::new(1, 9), Space { free_bytes, block_bytes: 1 });
            let moves = algorithm_2(read, &mut write, &fast(), space, &thresholds);
            moves.iter().map(|of| (of.location.segment, of.reason)).collect::<Vec<_>>()
        };
        let cold = |hotness| Reason::Cold { hotness, threshold: 2 };
        let mut table = LocalityTable::new(1, 9);
        table.touch(Time(0), LOC(1));
        assert!(run(&mut table, 1000).is_empty() && table.is_empty(), "there is space");
        // A location without any access is colder than one with an access, and leaves first.
        table.touch(Time(0), LOC(1));
        (0..2).for_each(|n| table.touch(Time(n), LOC(3)));
        assert_eq!(run(&mut table.clone(), 2), [(5, cold(0)), (1, cold(1))], "two reads are not cold");
        assert_eq!(run(&mut table, 19), [(5, cold(0))], "one is enough");
    }

    #[test]
    fn what_does_not_fit_stays() {
        let thresholds = Thresholds { free_bytes: 0, ..Thresholds::default() };
        assert_eq!(run(&thresholds, 0).0, [(5, Tier::Slow)]);
    }
}
