//! The locality table: number of accesses to each location within a sliding window, and time of the last one.
//!
//! The window consists of panes. A location has a counter for each, and its hotness is their sum. So it counts exactly
//! the accesses of the present pane and of the `panes - 1` before it. With one pane the window tumbles, as in the
//! paper, which evaluates the tables at the end of each window. When a pane ends, the oldest counter is reset and
//! becomes the present one. Locations without accesses are dropped (their time stamp left the window).
//!
//! Memory: at most `locations_max` entries. When the table is full, the coldest quarter is dropped first, the least
//! recently used of equals. So a scan of any length does not evict hot locations.

use super::Location;
use crate::time::Time;
use std::collections::BTreeMap;

/// Most panes of a window.
pub const PANES_MAX: usize = 4;

/// Statistics of one location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    counts: [u16; PANES_MAX],
    last: Time,
}

impl Entry {
    /// Returns the accesses within the window.
    pub fn hotness(&self) -> u32 {
        self.counts.iter().map(|&count| u32::from(count)).sum()
    }

    /// Returns the time of the last access.
    pub fn last(&self) -> Time {
        self.last
    }
}

/// The table of one region.
#[derive(Clone, Debug)]
pub struct LocalityTable {
    entries: BTreeMap<Location, Entry>,
    panes: usize,
    present: usize,
    locations_max: usize,
}

impl LocalityTable {
    /// Makes an empty table for a window of `panes` panes (1 to [`PANES_MAX`]) and at most `locations_max` locations
    /// (at least 4).
    pub fn new(panes: usize, locations_max: usize) -> LocalityTable {
        let panes = panes.clamp(1, PANES_MAX);
        LocalityTable { entries: BTreeMap::new(), panes, present: 0, locations_max: locations_max.max(4) }
    }

    /// Counts an access.
    pub fn touch(&mut self, now: Time, location: Location) {
        if self.entries.len() >= self.locations_max && !self.entries.contains_key(&location) {
            self.forget_coldest();
        }
        let entry = self.entries.entry(location).or_default();
        entry.counts[self.present] = entry.counts[self.present].saturating_add(1);
        entry.last = now;
    }

    /// Returns the accesses to a location within the window.
    pub fn hotness(&self, location: Location) -> u32 {
        self.entries.get(&location).map_or(0, Entry::hotness)
    }

    /// Returns the entry of a location.
    pub fn get(&self, location: Location) -> Option<&Entry> {
        self.entries.get(&location)
    }

    /// Returns the mean accesses to a location in a pane of the window.
    pub fn per_pane(&self, location: Location) -> f64 {
        f64::from(self.hotness(location)) / self.panes as f64
    }

    /// Returns all locations, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Location, &Entry)> {
        self.entries.iter().map(|(location, entry)| (*location, entry))
    }

    /// Removes a cold or removed location.
    pub fn remove(&mut self, location: Location) {
        self.entries.remove(&location);
    }

    /// Removes all locations of a file.
    pub fn remove_file(&mut self, file: u64) {
        let all = Location { file, segment: 0 }..=Location { file, segment: u64::MAX };
        let known: Vec<Location> = self.entries.range(all).map(|(location, _)| *location).collect();
        known.iter().for_each(|&location| self.remove(location));
    }

    /// Returns the locations of a file that are in the table, in ascending order.
    pub fn of_file(&self, file: u64) -> impl Iterator<Item = (Location, &Entry)> {
        let all = Location { file, segment: 0 }..=Location { file, segment: u64::MAX };
        self.entries.range(all).map(|(location, entry)| (*location, entry))
    }

    /// Ends the present pane. Locations without an access in the remaining window are dropped.
    pub fn turn(&mut self) {
        self.present = (self.present + 1) % self.panes;
        let present = self.present;
        self.entries.retain(|_, entry| {
            entry.counts[present] = 0;
            entry.counts != [0; PANES_MAX]
        });
    }

    /// Returns the number of locations in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn forget_coldest(&mut self) {
        let mut ranks: Vec<_> = self.entries.iter().map(|(at, entry)| (entry.hotness(), entry.last, *at)).collect();
        let quarter = (ranks.len() / 4).max(1);
        ranks.select_nth_unstable(quarter - 1);
        for (_, _, location) in &ranks[..quarter] {
            self.entries.remove(location);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn at(segment: u64) -> Location {
        Location { file: 0, segment }
    }

    #[test]
    fn a_tumbling_window_forgets_at_its_end() {
        let mut table = LocalityTable::new(1, 100);
        (0..4).for_each(|n| table.touch(Time(n), at(7)));
        assert_eq!((table.hotness(at(7)), table.get(at(7)).unwrap().last()), (4, Time(3)));
        table.turn();
        assert!(table.is_empty());
    }

    #[test]
    fn a_scan_costs_hot_locations_nothing_and_memory_is_bounded() {
        let mut table = LocalityTable::new(2, 64);
        (0..3).for_each(|n| (0..16).for_each(|block| table.touch(Time(n), at(block))));
        (100..100_000).for_each(|block| table.touch(Time(block), at(block)));
        assert!(table.len() <= 64);
        assert!((0..16).all(|block| table.hotness(at(block)) == 3));
    }

    proptest! {
        #[test]
        fn hotness_counts_the_accesses_of_the_last_panes(
            panes in 1usize..=PANES_MAX,
            steps in prop::collection::vec(prop::collection::vec(0u64..20, 0..30), 1..30),
        ) {
            let mut table = LocalityTable::new(panes, 1000);
            let mut window: VecDeque<Vec<u64>> = VecDeque::new();
            for pane in steps {
                pane.iter().for_each(|&block| table.touch(Time(0), at(block)));
                window.push_back(pane);
                if window.len() > panes {
                    window.pop_front();
                }
                for block in 0..20 {
                    let exact = window.iter().flatten().filter(|&&seen| seen == block).count();
                    prop_assert_eq!(table.hotness(at(block)) as usize, exact);
                }
                table.turn();
            }
        }
    }
}
