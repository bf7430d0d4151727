//! One LRU level whose fetches are done at once, as fast as memory allows: for replays that ask for hit ratios alone.
//!
//! ```text
//!   table   block -> its newest entry in the order         (16 bytes a place, open addressing)
//!   order   oldest | a | b | a | c | b | ... | newest      an entry is stale unless the table points to it
//!                    ^stale          ^b is the least recently used, if a and c came again later
//! ```
//! A hit writes one place of the table and appends one entry; nothing is unlinked. The victim is found by walking from the
//! oldest entry past the stale ones, each of which is passed once. When the order is full the live entries move together at its start,
//! which costs each request a constant on average. Every access to the table is known some requests ahead, so the processor fetches
//! them side by side; a [`super::Level`], which does the same and more, touches a node and its two neighbours besides.

use super::block::{Block, Span};
use super::config::{LevelConfig, Replacement};
use super::event::Outcome;
use super::stats::Stats;
use crate::coordinate::Coordination;
use crate::prefetch::{Prefetch, Trigger};

/// Requests that are looked ahead to.
const AHEAD: usize = 32;

/// Entries of the order for each block at most: the larger, the rarer are the moves; the smaller, the more stays in the processor's cache.
const ENTRIES_PER_BLOCK: usize = 4;

/// A free place: no block has this number.
const FREE: u64 = u64::MAX;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Place {
    block: u64,
    /// Its newest entry.
    entry: u64,
}

/// The level.
#[derive(Clone, Debug)]
pub struct InstantLru {
    capacity: usize,
    len: usize,
    places: Box<[Place]>,
    shift: u32,
    order: Vec<u64>,
    /// Entries before this one are stale.
    oldest: usize,
    stats: Stats,
}

impl InstantLru {
    /// An empty level, if one of this configuration does what this one can: least recently used goes, and nothing else.
    pub fn new(config: &LevelConfig) -> Option<InstantLru> {
        let plain = config.check().is_ok()
            && config.replacement == Replacement::Lru
            && config.prefetch == Prefetch::None
            && config.trigger == Trigger::Native
            && config.coordination == Coordination::NONE
            && !config.announce
            && !config.per_stream;
        plain.then(|| InstantLru {
            capacity: config.capacity_blocks as usize,
            len: 0,
            places: free(10),
            shift: 64 - 10,
            order: Vec::with_capacity(2048),
            oldest: 0,
            stats: Stats::default(),
        })
    }

    /// Reads of one block each, in this order.
    pub fn read_blocks(&mut self, blocks: &[Block]) -> Outcome {
        let mut hit = 0;
        for group in blocks.chunks(AHEAD) {
            self.look_ahead(group);
            self.make_room(group.len());
            hit += group.iter().map(|&block| u32::from(self.touch(block.0))).sum::<u32>();
        }
        let missed = blocks.len() as u32 - hit;
        self.count(blocks.len() as u64, hit, missed, u64::from(missed))
    }

    /// A read.
    pub fn read(&mut self, span: Span) -> Outcome {
        let hit = self.touch_all(span);
        let missed = span.len - hit;
        self.count(u64::from(span.len > 0), hit, missed, u64::from(missed > 0))
    }

    /// Says which blocks will be asked for next, at best some dozens; changes nothing.
    #[inline]
    pub fn foresee(&self, blocks: &[Block]) {
        self.look_ahead(blocks);
    }

    /// A write of whole blocks: they become resident, nothing is fetched (A-13).
    pub fn write(&mut self, span: Span) {
        self.touch_all(span);
        self.stats.written += u64::from(span.len);
    }

    /// What it counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether a block is resident.
    pub fn is_resident(&self, block: Block) -> bool {
        self.find(block.0).is_ok()
    }

    /// Blocks resident: never more than the capacity.
    pub fn inventory(&self) -> u32 {
        self.len as u32
    }

    fn count(&mut self, requests: u64, hit: u32, missed: u32, fetches: u64) -> Outcome {
        self.stats.requests += requests;
        self.stats.asked += u64::from(hit + missed);
        self.stats.hit += u64::from(hit);
        self.stats.missed += u64::from(missed);
        self.stats.fetched += u64::from(missed);
        self.stats.fetches += fetches;
        Outcome { hit, late: 0, missed }
    }

    fn touch_all(&mut self, span: Span) -> u32 {
        let mut hit = 0;
        for block in span.blocks() {
            self.make_room(1);
            hit += u32::from(self.touch(block.0));
        }
        hit
    }

    #[inline]
    fn home(&self, block: u64) -> usize {
        (block.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    /// Where a block is, or the free place at which the search ended.
    #[inline]
    fn find(&self, block: u64) -> Result<usize, usize> {
        let mask = self.places.len() - 1;
        let mut at = self.home(block) & mask;
        loop {
            let place = &self.places[at];
            if place.block == block {
                return Ok(at);
            }
            if place.block == FREE {
                return Err(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Fetches into the processor's cache where these blocks are looked for, and the next entries that may go.
    #[inline]
    fn look_ahead(&self, group: &[Block]) {
        let mut seen = 0;
        for block in group {
            seen ^= self.places[self.home(block.0) & (self.places.len() - 1)].entry;
        }
        let passed = self.order.get(self.oldest..).unwrap_or_default();
        for &block in &passed[..passed.len().min(AHEAD)] {
            seen ^= self.places[self.home(block) & (self.places.len() - 1)].entry;
        }
        std::hint::black_box(seen);
    }

    /// Makes a block the most recently used; says whether it was here. There is room for an entry and for a place.
    #[inline]
    fn touch(&mut self, block: u64) -> bool {
        let entry = self.order.len() as u64;
        self.order.push(block);
        match self.find(block) {
            Ok(at) => {
                self.places[at].entry = entry;
                true
            }
            Err(at) => {
                self.places[at] = Place { block, entry };
                self.len += 1;
                if self.len > self.capacity {
                    self.evict();
                }
                false
            }
        }
    }

    /// The least recently used block goes; there are two at least.
    #[inline]
    fn evict(&mut self) {
        loop {
            let entry = self.oldest;
            self.oldest += 1;
            if let Ok(at) = self.find(self.order[entry])
                && self.places[at].entry == entry as u64
            {
                self.remove(at);
                self.len -= 1;
                self.stats.evicted += 1;
                return;
            }
        }
    }

    /// Frees a place. What was put behind it because it was taken moves up, so that no tombstone is needed.
    #[inline]
    fn remove(&mut self, mut hole: usize) {
        let mask = self.places.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.block == FREE {
                break;
            }
            let moved = at.wrapping_sub(self.home(place.block)) & mask;
            if moved >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].block = FREE;
    }

    /// Sees to it that so many touches need nothing more: entries in the order, places in the table, at most half of which are taken.
    #[inline]
    fn make_room(&mut self, touches: usize) {
        if self.order.len() + touches > self.order.capacity() {
            self.gather(touches);
        }
        if (self.len + touches) * 2 > self.places.len()
            && self.places.len() < 2 * (self.capacity + 1).next_power_of_two()
        {
            self.grow();
        }
    }

    /// The live entries move together at the start of the order, which gets room for as many as it may have.
    #[cold]
    fn gather(&mut self, touches: usize) {
        let mut kept = 0;
        for group in (self.oldest..self.order.len()).step_by(AHEAD) {
            let end = (group + AHEAD).min(self.order.len());
            let homes = self.order[group..end]
                .iter()
                .map(|&block| self.places[self.home(block) & (self.places.len() - 1)].entry);
            std::hint::black_box(homes.fold(0, |seen, entry| seen ^ entry));
            for entry in group..end {
                let block = self.order[entry];
                if let Ok(at) = self.find(block)
                    && self.places[at].entry == entry as u64
                {
                    self.order[kept] = block;
                    self.places[at].entry = kept as u64;
                    kept += 1;
                }
            }
        }
        self.order.truncate(kept);
        self.oldest = 0;
        let wanted = (self.len + touches) * ENTRIES_PER_BLOCK;
        if wanted > self.order.capacity() {
            self.order.reserve_exact(wanted - self.order.len());
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.shift -= 1;
        let old = std::mem::replace(&mut self.places, free(64 - self.shift));
        for place in old.iter().filter(|place| place.block != FREE) {
            if let Err(at) = self.find(place.block) {
                self.places[at] = *place;
            }
        }
    }
}

fn free(bits: u32) -> Box<[Place]> {
    vec![Place { block: FREE, entry: 0 }; 1 << bits].into_boxed_slice()
}
