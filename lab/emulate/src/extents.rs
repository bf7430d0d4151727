//! Map from the bytes of each file to the emulated device.
//!
//! A file has extents of blocks of 4 KiB. Blocks are placed at their first write or allocation, in extents of at
//! least `Extents::growth_blocks`. Each extent follows the previous one if that space is free. An unused reservation
//! is released when the file is closed. Holes take no space.

use crate::space::Space;
use std::collections::{BTreeMap, HashMap};

/// Size of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Sectors of a block.
pub const BLOCK_SECTORS: u64 = BLOCK_BYTES / 512;
/// Minimum that a growing file reserves, in blocks: 8 MiB.
pub const GROWTH_BLOCKS: u64 = 2048;

/// A run of sectors: first sector and count.
pub type Run = (u64, u64);

/// Error: the device is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The block map of the device.
#[derive(Debug)]
pub struct Extents {
    space: Space,
    files: HashMap<u64, File>,
    growth_blocks: u64,
}

#[derive(Debug, Default)]
struct File {
    /// Extents by first block of the file: first block on the device, and length.
    extents: BTreeMap<u64, (u64, u64)>,
    /// Reservation behind the last extent: first block on the device, and length.
    reserved: (u64, u64),
}

impl Extents {
    /// Creates an empty device of `sectors`.
    pub fn new(sectors: u64, growth_blocks: u64) -> Extents {
        Extents {
            space: Space::new(sectors / BLOCK_SECTORS),
            files: HashMap::new(),
            growth_blocks: growth_blocks.max(1),
        }
    }

    /// Capacity of the device.
    pub fn bytes(&self) -> u64 {
        self.space.blocks() * BLOCK_BYTES
    }

    /// Bytes that are neither used nor reserved.
    pub fn free_bytes(&self) -> u64 {
        self.space.free_blocks() * BLOCK_BYTES
    }

    /// Returns the sectors of `[offset, offset + length)` of `file`, in order of the file; adjacent runs are merged.
    pub fn find(&self, file: u64, offset: u64, length: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some(file) = self.files.get(&file).filter(|_| length > 0) else { return runs };
        let (first, end) = (offset / 512, (offset + length).div_ceil(512));
        let from = file.extents.range(..=first / BLOCK_SECTORS).next_back().map_or(0, |(&block, _)| block);
        for (&block, &(place, long)) in file.extents.range(from..end.div_ceil(BLOCK_SECTORS)) {
            let start = first.max(block * BLOCK_SECTORS);
            let stop = end.min((block + long) * BLOCK_SECTORS);
            if start < stop {
                push(&mut runs, place * BLOCK_SECTORS + start - block * BLOCK_SECTORS, stop - start);
            }
        }
        runs
    }

    /// Places all blocks of the range that have no place, and returns its sectors. If not all fit, nothing changes.
    pub fn place(&mut self, file: u64, offset: u64, length: u64) -> Result<Vec<Run>, Full> {
        if length > 0 {
            let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
            self.place_blocks(file, first, end)?;
        }
        Ok(self.find(file, offset, length))
    }

    fn place_blocks(&mut self, id: u64, first: u64, end: u64) -> Result<(), Full> {
        let file = self.files.entry(id).or_default();
        let missing = missing(&file.extents, first, end);
        let wanted: u64 = missing.iter().map(|(_, length)| length).sum();
        if wanted > self.space.free_blocks() + file.reserved.1 {
            return self.space_from_others(id, wanted).and_then(|()| self.place_blocks(id, first, end));
        }
        for (mut block, mut length) in missing {
            while length > 0 {
                let grows = file.extents.last_key_value().is_none_or(|(&last, &(_, long))| last + long <= block);
                if !grows && file.reserved.1 > 0 {
                    // A hole inside is filled from elsewhere; the reservation stays behind the end.
                    let near = file.extents.range(..block).next_back().map(|(&at, &(place, _))| place + block - at);
                    if let Some((start, taken)) = self.space.take(near, length) {
                        insert(&mut file.extents, block, start, taken);
                        (block, length) = (block + taken, length - taken);
                        continue;
                    }
                }
                if file.reserved.1 == 0 {
                    let near = file.extents.range(..block).next_back().map(|(_, &(place, long))| place + long);
                    let growth = if grows { self.growth_blocks.max(length) } else { length };
                    file.reserved = self.space.take(near, growth).ok_or(Full)?;
                }
                let taken = length.min(file.reserved.1);
                insert(&mut file.extents, block, file.reserved.0, taken);
                file.reserved = (file.reserved.0 + taken, file.reserved.1 - taken);
                (block, length) = (block + taken, length - taken);
            }
        }
        Ok(())
    }

    /// Releases the unused reservations of other files when space runs out.
    fn space_from_others(&mut self, id: u64, wanted: u64) -> Result<(), Full> {
        let own = self.files.get(&id).map_or(0, |file| file.reserved.1);
        let reserved: u64 = self.files.values().map(|file| file.reserved.1).sum();
        if wanted > self.space.free_blocks() + reserved || reserved == own {
            return Err(Full);
        }
        let mut others: Vec<u64> = self.files.keys().copied().filter(|other| *other != id).collect();
        others.sort_unstable();
        others.into_iter().for_each(|other| self.close(other));
        Ok(())
    }

    /// Releases the unused reservation of a file that was closed.
    pub fn close(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            let (start, length) = std::mem::take(&mut file.reserved);
            self.space.give(start, length);
        }
    }

    /// Cuts the file to `size`, and frees the blocks behind it.
    pub fn truncate(&mut self, file: u64, size: u64) {
        self.free_blocks(file, size.div_ceil(BLOCK_BYTES), u64::MAX);
        self.close(file);
    }

    /// Punches a hole: frees the whole blocks inside.
    pub fn punch(&mut self, file: u64, offset: u64, length: u64) {
        self.free_blocks(file, offset.div_ceil(BLOCK_BYTES), offset.saturating_add(length) / BLOCK_BYTES);
    }

    /// Removes the file, and frees its blocks.
    pub fn remove(&mut self, file: u64) {
        self.free_blocks(file, 0, u64::MAX);
        self.close(file);
        self.files.remove(&file);
    }

    fn free_blocks(&mut self, file: u64, first: u64, end: u64) {
        let Some(file) = self.files.get_mut(&file).filter(|_| first < end) else { return };
        let from = file.extents.range(..=first).next_back().map_or(first, |(&block, _)| block);
        let touched: Vec<_> = file.extents.range(from..end).map(|(&block, &at)| (block, at)).collect();
        for (block, (place, long)) in touched {
            let (start, stop) = (first.max(block), end.min(block + long));
            if start >= stop {
                continue;
            }
            file.extents.remove(&block);
            if start > block {
                file.extents.insert(block, (place, start - block));
            }
            if stop < block + long {
                file.extents.insert(stop, (place + stop - block, block + long - stop));
            }
            self.space.give(place + start - block, stop - start);
        }
    }
}

/// Returns the blocks of `[first, end)` without a place.
fn missing(extents: &BTreeMap<u64, (u64, u64)>, first: u64, end: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = first;
    let from = extents.range(..=first).next_back().map_or(first, |(&block, _)| block);
    for (&block, &(_, long)) in extents.range(from..end) {
        if block > at {
            gaps.push((at, block - at));
        }
        at = at.max(block + long);
    }
    if at < end {
        gaps.push((at, end - at));
    }
    gaps
}

/// Adds an extent; merges it with the previous one if they are adjacent.
fn insert(extents: &mut BTreeMap<u64, (u64, u64)>, block: u64, place: u64, length: u64) {
    if let Some((_, (before, long))) =
        extents.range_mut(..block).next_back().filter(|(at, (_, long))| *at + long == block)
        && *before + *long == place
    {
        *long += length;
        return;
    }
    extents.insert(block, (place, length));
}

fn push(runs: &mut Vec<Run>, sector: u64, count: u64) {
    match runs.last_mut() {
        Some((last, long)) if *last + *long == sector => *long += count,
        _ => runs.push((sector, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn files_that_grow_in_turns_do_not_interleave() {
        let mut map = Extents::new(1 << 20, GROWTH_BLOCKS);
        for at in 0..16 {
            map.place(1, at * 64 * 1024, 64 * 1024).unwrap();
            map.place(2, at * 64 * 1024, 64 * 1024).unwrap();
        }
        assert_eq!(map.find(1, 0, MIB), [(0, 2048)]);
        assert_eq!(map.find(2, 0, MIB), [(8 * 2048, 2048)]);
        assert_eq!(map.find(2, 5000, 100), [(8 * 2048 + 9, 1)]);
        map.close(1);
        map.close(2);
        assert_eq!(map.free_bytes(), map.bytes() - 2 * MIB);
    }

    #[test]
    fn holes_have_no_place_and_punching_makes_them() {
        let mut map = Extents::new(1 << 20, 1);
        map.place(7, 0, 4096).unwrap();
        map.place(7, 12288, 4096).unwrap();
        assert_eq!(map.find(7, 4096, 8192), []);
        assert_eq!(map.find(7, 0, 16384).iter().map(|run| run.1).sum::<u64>(), 16);
        map.punch(7, 100, 16384 - 100);
        assert_eq!(map.find(7, 0, 16384), [(0, 8)], "the first block is touched, not covered");
        map.remove(7);
        assert_eq!(map.free_bytes(), map.bytes());
    }

    #[test]
    fn what_does_not_fit_changes_nothing_and_reservations_give_way() {
        let mut map = Extents::new(100 * BLOCK_SECTORS, 64);
        map.place(1, 0, 4096).unwrap();
        assert_eq!(map.place(2, 0, 100 * BLOCK_BYTES), Err(Full));
        assert!(map.place(2, 0, 90 * BLOCK_BYTES).is_ok(), "file 1 uses one block of its 64");
        assert_eq!(map.place(1, 0, 11 * BLOCK_BYTES), Err(Full));
        assert_eq!(map.find(1, 0, 11 * BLOCK_BYTES).len(), 1);
    }

    proptest! {
        #[test]
        fn every_sector_belongs_to_one_file_and_nothing_is_lost(
            steps in prop::collection::vec((0u8..5, 0u64..4, 0u64..200_000, 1u64..60_000), 1..120), growth in 1u64..20,
        ) {
            let mut map = Extents::new(128 * BLOCK_SECTORS, growth);
            let mut owned: BTreeMap<(u64, u64), ()> = BTreeMap::new();
            for (what, file, offset, length) in steps {
                let blocks = |first: u64, end: u64| (first..end).map(move |block| (file, block));
                match what {
                    0 | 1 => {
                        if let Ok(runs) = map.place(file, offset, length) {
                            let sectors = (offset + length).div_ceil(512) - offset / 512;
                            prop_assert_eq!(runs.iter().map(|run| run.1).sum::<u64>(), sectors);
                            owned.extend(blocks(offset / 4096, (offset + length).div_ceil(4096)).map(|key| (key, ())));
                        }
                    }
                    2 => {
                        map.punch(file, offset, length);
                        for key in blocks(offset.div_ceil(4096), (offset + length) / 4096) { owned.remove(&key); }
                    }
                    3 => {
                        map.truncate(file, offset);
                        for key in blocks(offset.div_ceil(4096), 100) { owned.remove(&key); }
                    }
                    _ => map.close(file),
                }
                let mut seen = std::collections::HashSet::new();
                for &(file, block) in owned.keys() {
                    let runs = map.find(file, block * 4096, 4096);
                    prop_assert_eq!(runs.iter().map(|run| run.1).sum::<u64>(), 8);
                    for (sector, count) in runs {
                        for sector in sector..sector + count {
                            prop_assert!(seen.insert(sector), "sector {} has two owners", sector);
                        }
                    }
                }
            }
            for file in 0..4 { map.close(file); }
            prop_assert_eq!(map.free_bytes(), map.bytes() - owned.len() as u64 * 4096);
        }
    }
}
