//! Footprint: number of different blocks touched, as bitmaps of 64 blocks in a table.

use crate::trace::Record;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Maximum of bitmaps: 32 Mi of them are about 1 GiB, and 8 TiB of adjacent 4 KiB blocks.
const WORDS_MAX: usize = 32 << 20;

/// The set of blocks touched so far.
#[derive(Debug, Default)]
pub struct Footprint {
    block_bytes: u32,
    /// Bitmaps by address space and number of the word.
    words: HashMap<(u64, u64), u64>,
    words_max: usize,
    /// Word used last; most requests continue there.
    last: Option<((u64, u64), u64)>,
    blocks: u64,
    exact: bool,
}

impl Footprint {
    /// Creates an empty footprint.
    pub fn new(block_bytes: u32) -> Footprint {
        Footprint::with_words_max(block_bytes, WORDS_MAX)
    }

    fn with_words_max(block_bytes: u32, words_max: usize) -> Footprint {
        Footprint { block_bytes: block_bytes.max(1), words_max, exact: true, ..Footprint::default() }
    }

    /// Adds the blocks of a record; returns their number.
    pub fn add(&mut self, record: &Record) -> u64 {
        if record.length == 0 {
            return 0;
        }
        let block = u64::from(self.block_bytes);
        let (first, last) = (record.offset / block, (record.end() - 1) / block);
        for word in first / 64..=last / 64 {
            let from = if word == first / 64 { first % 64 } else { 0 };
            let to = if word == last / 64 { last % 64 } else { 63 };
            let bits = (u64::MAX << from) & (u64::MAX >> (63 - to));
            self.set((record.space(), word), bits);
        }
        last - first + 1
    }

    fn set(&mut self, key: (u64, u64), bits: u64) {
        if let Some((cached, have)) = self.last
            && cached == key
            && have & bits == bits
        {
            return;
        }
        let full = self.words.len() >= self.words_max;
        match self.words.entry(key) {
            Entry::Occupied(mut e) => {
                self.blocks += u64::from((bits & !*e.get()).count_ones());
                *e.get_mut() |= bits;
                self.last = Some((key, *e.get()));
            }
            Entry::Vacant(_) if full => self.exact = false,
            Entry::Vacant(e) => {
                self.blocks += u64::from(bits.count_ones());
                e.insert(bits);
                self.last = Some((key, bits));
            }
        }
    }

    /// Number of different blocks touched; a lower limit if not exact.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns whether all were counted.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Size of a block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn at(device: u16, offset: u64, length: u32) -> Record {
        Record { device, offset, length, ..Record::default() }
    }

    #[test]
    fn agrees_with_a_set_of_blocks() {
        let mut footprint = Footprint::new(512);
        let mut slow = BTreeSet::new();
        let mut x = 1u64;
        for _ in 0..2000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let r = at((x >> 60) as u16 & 1, (x >> 20) % 3_000_000, (x >> 50) as u32 % 200_000);
            footprint.add(&r);
            if r.length > 0 {
                slow.extend((r.offset / 512..=(r.end() - 1) / 512).map(|b| (r.device, b)));
            }
        }
        assert_eq!(footprint.blocks(), slow.len() as u64);
        assert!(footprint.is_exact());
    }

    #[test]
    fn the_top_of_the_address_space_is_no_edge() {
        let mut footprint = Footprint::new(1);
        assert_eq!(footprint.add(&at(0, u64::MAX - 10, 100)), 10);
        assert_eq!(footprint.blocks(), 10);
    }

    #[test]
    fn memory_is_bounded_and_says_so() {
        let mut footprint = Footprint::with_words_max(4096, 2);
        [0, 1 << 30, 2 << 30].iter().for_each(|o| _ = footprint.add(&at(0, *o, 4096)));
        assert_eq!((footprint.blocks(), footprint.is_exact()), (2, false));
    }
}
