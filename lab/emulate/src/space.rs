//! Free space of the emulated device, in blocks.
//!
//! Next fit with a preferred start: a growing file continues at its end if that is free. Otherwise the search begins
//! behind the last allocation, so files written in sequence are placed in sequence. Deterministic.

use std::collections::BTreeMap;

/// Map of the free regions.
#[derive(Clone, Debug)]
pub struct Space {
    /// Start and length of each free region; regions do not touch.
    free: BTreeMap<u64, u64>,
    blocks: u64,
    free_blocks: u64,
    cursor: u64,
}

impl Space {
    /// Creates a map of `blocks` free blocks.
    pub fn new(blocks: u64) -> Space {
        let free = if blocks > 0 { BTreeMap::from([(0, blocks)]) } else { BTreeMap::new() };
        Space { free, blocks, free_blocks: blocks, cursor: 0 }
    }

    /// Total number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    /// Takes up to `wanted` blocks in one piece: at `near` if that is free, otherwise from the first long enough
    /// region behind the last allocation. If no region is long enough, takes from the longest one. Returns `None`
    /// when nothing is free.
    pub fn take(&mut self, near: Option<u64>, wanted: u64) -> Option<(u64, u64)> {
        debug_assert!(wanted > 0);
        if let Some(start) = near
            && let Some((&region, &length)) = self.free.range(..=start).next_back()
            && region + length > start
        {
            let taken = wanted.min(region + length - start);
            self.cut(region, length, start, taken);
            return Some((start, taken));
        }
        let fits = |(_, length): &(&u64, &u64)| **length >= wanted;
        // The region that contains the cursor may begin before it.
        let around = self.free.range(..self.cursor).next_back().filter(|(start, length)| {
            let end = **start + **length;
            end > self.cursor && end - self.cursor >= wanted
        });
        let found = match around {
            Some((&region, &length)) => Some((region, length, self.cursor)),
            None => {
                let behind = self.free.range(self.cursor..).find(fits);
                let anywhere = behind.or_else(|| self.free.iter().find(fits));
                let longest = anywhere.or_else(|| self.free.iter().rev().max_by_key(|(_, length)| **length));
                longest.map(|(&region, &length)| (region, length, region))
            }
        };
        let (region, length, start) = found?;
        let taken = wanted.min(region + length - start);
        self.cut(region, length, start, taken);
        self.cursor = start + taken;
        Some((start, taken))
    }

    /// Takes `taken` blocks at `start` out of a free region.
    fn cut(&mut self, region: u64, length: u64, start: u64, taken: u64) {
        self.free.remove(&region);
        if start > region {
            self.free.insert(region, start - region);
        }
        if start + taken < region + length {
            self.free.insert(start + taken, region + length - start - taken);
        }
        self.free_blocks -= taken;
    }

    /// Frees `length` blocks at `start`.
    pub fn give(&mut self, start: u64, length: u64) {
        if length == 0 {
            return;
        }
        self.free_blocks += length;
        let (mut start, mut end) = (start, start + length);
        if let Some((&before, &long)) = self.free.range(..start).next_back() {
            assert!(before + long <= start, "blocks given back twice");
            if before + long == start {
                self.free.remove(&before);
                start = before;
            }
        }
        if let Some((&after, &long)) = self.free.range(start..).next() {
            assert!(after >= end, "blocks given back twice");
            if after == end {
                self.free.remove(&after);
                end = after + long;
            }
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wish_is_met_and_otherwise_the_search_goes_on_behind_the_last_place() {
        let mut space = Space::new(100);
        assert_eq!(space.take(None, 10), Some((0, 10)));
        assert_eq!(space.take(None, 10), Some((10, 10)));
        assert_eq!(space.take(Some(20), 5), Some((20, 5)));
        space.give(0, 10);
        assert_eq!(space.take(None, 10), Some((25, 10)), "not back to the start yet");
        assert_eq!(space.take(None, 60), Some((35, 60)));
        assert_eq!(space.take(None, 8), Some((0, 8)), "around the end");
        assert_eq!(space.take(None, 8), Some((95, 5)), "the longest, if nothing is long enough");
        assert_eq!((space.take(None, 8), space.take(None, 1)), (Some((8, 2)), None));
    }

    proptest! {
        #[test]
        fn no_block_is_given_out_twice(steps in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..20), 1..200)) {
            let mut space = Space::new(64);
            let mut taken = [false; 64];
            let mut pieces = Vec::new();
            for (give, near, wanted) in steps {
                if give && !pieces.is_empty() {
                    let (start, length) = pieces.remove(near as usize % pieces.len());
                    space.give(start, length);
                    (start..start + length).for_each(|block| taken[block as usize] = false);
                } else if let Some((start, length)) = space.take((near % 2 == 0).then_some(near), wanted) {
                    prop_assert!(length > 0 && length <= wanted && start + length <= 64);
                    for block in start..start + length {
                        prop_assert!(!std::mem::replace(&mut taken[block as usize], true));
                    }
                    pieces.push((start, length));
                } else {
                    prop_assert!(taken.iter().all(|taken| *taken));
                }
                prop_assert_eq!(space.free_blocks(), taken.iter().filter(|taken| !**taken).count() as u64);
            }
        }
    }
}
