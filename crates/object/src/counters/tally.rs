//! Operations and their bytes in one word, so that counting one is one atomic addition.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits for the bytes: a terabyte; the other bits count 16 million operations.
const BYTES_BITS: u32 = 40;

/// Numbers of operations and of their bytes. A reader may miss the last few.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

fn word(bytes: u64) -> u64 {
    (1 << BYTES_BITS) + bytes
}

fn split(word: u64) -> (u64, u64) {
    (word >> BYTES_BITS, word & ((1 << BYTES_BITS) - 1))
}

impl Tally {
    /// Adds one operation with its bytes; returns the new number of operations.
    pub fn add(&self, bytes: u64) -> u64 {
        split(self.0.fetch_add(word(bytes), Ordering::Relaxed)).0 + 1
    }

    /// Removes an operation that was added before.
    pub fn sub(&self, bytes: u64) {
        self.0.fetch_sub(word(bytes), Ordering::Relaxed);
    }

    /// Returns the numbers of operations and bytes.
    pub fn get(&self) -> (u64, u64) {
        split(self.0.load(Ordering::Relaxed))
    }

    /// Returns the numbers since the last call, and resets them. The load comes first, since it is cheaper.
    pub fn take(&self) -> (u64, u64) {
        match self.0.load(Ordering::Relaxed) {
            0 => (0, 0),
            _ => split(self.0.swap(0, Ordering::Relaxed)),
        }
    }
}
