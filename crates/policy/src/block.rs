//! Blocks, requests for them, and the pages of a level, as shared by caches, prefetchers and coordinators.
//!
//! A block is file and index in one word, so that one flat table serves all files and the next block is `+ 1`.

mod lists;
pub mod page;
pub mod pages;
pub(crate) mod recent;
mod request;
pub(crate) mod slab;
mod table;
mod two_lists;

pub use lists::Replacement;
pub use request::{Reason, Request, RequestId};
pub use two_lists::TwoLists;

use std::fmt;

/// Number of bits of the index; the file number has the rest.
const INDEX_BITS: u32 = 40;

/// Largest block index in a file. The last number is unused, so that no file's end touches the next one's start.
pub const INDEX_MAX: u64 = (1 << INDEX_BITS) - 2;

/// Largest file number. The last number is unused: its blocks mark free places in tables.
pub const FILE_MAX: u32 = (1 << (64 - INDEX_BITS)) - 2;

/// Setting of a cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Number of blocks.
    Capacity,
    /// Choice of the evicted block.
    Replacement,
    /// Choice of the prefetched blocks.
    Prefetch,
    /// Time of the prefetches.
    Trigger,
    /// Coordination with other levels.
    Coordination,
}

/// Invalid configuration of a cache level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Setting that is wrong.
    pub setting: Setting,
    /// Cause and correction.
    pub why: String,
}

impl ConfigError {
    pub(crate) fn new(setting: Setting, why: impl Into<String>) -> ConfigError {
        ConfigError { setting, why: why.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for ConfigError {}

/// One block of one file. Drivers number files densely in order of appearance, and choose the size of a block.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u64);

impl Block {
    /// Block `index` of `file`. Panics if either exceeds [`FILE_MAX`] or [`INDEX_MAX`]: trace readers and the mount
    /// check their input.
    pub fn new(file: u32, index: u64) -> Block {
        assert!(file <= FILE_MAX && index <= INDEX_MAX, "block {index} of file {file} is out of range");
        Block((u64::from(file) << INDEX_BITS) | index)
    }

    /// Number of the file.
    pub fn file(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32
    }

    /// Index in the file.
    pub fn index(self) -> u64 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    /// Returns the block `n` further on. Drivers keep requests within a file, and plans are clipped to it.
    pub fn plus(self, n: u64) -> Block {
        Block(self.0 + n)
    }

    /// Returns the block before, unless this is the first of its file.
    pub(crate) fn before(self) -> Option<Block> {
        (self.index() > 0).then(|| Block(self.0 - 1))
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file(), self.index())
    }
}

/// Run of blocks of one file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First block of the run.
    pub first: Block,
    /// Number of blocks.
    pub len: u32,
}

impl Span {
    /// Returns `len` blocks of `file` from `index`. Panics like [`Block::new`], also if the end is out of range.
    pub fn new(file: u32, index: u64, len: u32) -> Span {
        let first = Block::new(file, index);
        assert!(index + u64::from(len) <= INDEX_MAX + 1, "{len} blocks from {index} of file {file} end out of range");
        Span { first, len }
    }

    /// Block after the last.
    pub fn end(self) -> Block {
        self.first.plus(u64::from(self.len))
    }

    /// Whether a block is in the run.
    pub fn contains(self, block: Block) -> bool {
        self.first <= block && block < self.end()
    }

    /// Iterates over the blocks, ascending.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        (self.first.0..self.first.0 + u64::from(self.len)).map(Block)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}+{}", self.first, self.len)
    }
}
