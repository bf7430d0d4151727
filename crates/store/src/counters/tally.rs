//! Operations and their bytes in one word, so that counting one is one atomic addition.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits for the bytes: a terabyte, and 16 million operations in the others.
const BYTES_BITS: u32 = 40;

/// Number of operations, and of their bytes. A reader may miss the last few.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

fn word(bytes: u64) -> u64 {
    (1 << BYTES_BITS) + bytes
}

fn split(word: u64) -> (u64, u64) {
    (word >> BYTES_BITS, word & ((1 << BYTES_BITS) - 1))
}

impl Tally {
    /// Adds one operation of so many bytes; returns the new number of operations.
    pub fn add(&self, bytes: u64) -> u64 {
        split(self.0.fetch_add(word(bytes), Ordering::Relaxed)).0 + 1
    }

    /// One that was added is not there any more.
    pub fn sub(&self, bytes: u64) {
        self.0.fetch_sub(word(bytes), Ordering::Relaxed);
    }

    /// Operations and bytes.
    pub fn get(&self) -> (u64, u64) {
        split(self.0.load(Ordering::Relaxed))
    }

    /// The same since the last time. Looking is cheaper than taking, and there is mostly nothing.
    pub fn take(&self) -> (u64, u64) {
        match self.0.load(Ordering::Relaxed) {
            0 => (0, 0),
            _ => split(self.0.swap(0, Ordering::Relaxed)),
        }
    }
}
