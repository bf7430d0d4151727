//! Memory of the cache: frames of one block each, allocated on demand, never more than the level has blocks.

use super::BLOCK_BYTES;
use policy::cache::Block;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The bytes of one block.
pub(crate) type Frame = Box<[u8]>;

/// Hash function for block numbers: a multiplication spreads neighbours over the table (Fibonacci hashing).
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// All frames: filled ones by block, free ones, and their total number.
pub(super) struct Frames {
    pub(super) filled: HashMap<Block, Frame, BuildHasherDefault<Spread>>,
    free: Vec<Frame>,
    /// Number of frames that take memory: filled, on the way or free.
    pub(super) made: usize,
    pub(super) made_max: usize,
}

impl Frames {
    pub fn new(made_max: usize) -> Frames {
        Frames { filled: HashMap::default(), free: Vec::new(), made: 0, made_max }
    }

    /// Takes a frame with arbitrary bytes. The level guarantees that one is available.
    pub fn take(&mut self) -> Frame {
        self.free.pop().unwrap_or_else(|| {
            assert!(self.made < self.made_max, "bug: more than {} frames are needed", self.made_max);
            self.made += 1;
            vec![0; BLOCK_BYTES as usize].into_boxed_slice()
        })
    }

    /// Returns frames that are not needed.
    pub fn give(&mut self, frames: impl IntoIterator<Item = Frame>) {
        self.free.extend(frames);
    }

    pub fn fill(&mut self, block: Block, frame: Frame) {
        let old = self.filled.insert(block, frame);
        assert!(old.is_none(), "bug: {block:?} became resident twice");
    }

    pub fn get(&self, block: Block) -> Option<&[u8]> {
        self.filled.get(&block).map(|frame| &**frame)
    }

    /// Frees the frame of an evicted block.
    pub fn free(&mut self, block: Block) {
        self.free.extend(self.filled.remove(&block));
    }
}
