//! Counters of one connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters that many threads add to.
#[derive(Debug, Default)]
pub struct Counts {
    /// Operations that ended, with or without an error.
    pub operations: AtomicU64,
    pub bytes_read: AtomicU64,
    pub bytes_written: AtomicU64,
    /// Sum of the times of all operations, in nanoseconds.
    pub busy_ns: AtomicU64,
    /// Operations that ended with an error of the connection.
    pub failures: AtomicU64,
    /// Number of successful remounts.
    pub mounted_again: AtomicU64,
}

impl Counts {
    /// Counts an operation that ended.
    pub fn operation(&self, took: Duration) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.busy_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts bytes that were moved.
    pub fn bytes(&self, write: bool, bytes: u64) {
        let counter = if write { &self.bytes_written } else { &self.bytes_read };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}
