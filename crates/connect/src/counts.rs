//! What went over one connection so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters that many threads add to.
#[derive(Debug, Default)]
pub struct Counts {
    /// Operations that ended, well or not.
    pub operations: AtomicU64,
    /// Bytes read.
    pub bytes_read: AtomicU64,
    /// Bytes written.
    pub bytes_written: AtomicU64,
    /// Nanoseconds that all operations took together.
    pub busy_ns: AtomicU64,
    /// Operations that ended with an error of the connection.
    pub failures: AtomicU64,
    /// Times it was mounted again.
    pub mounted_again: AtomicU64,
}

impl Counts {
    /// An operation ended.
    pub fn operation(&self, took: Duration) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.busy_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Bytes went over it.
    pub fn bytes(&self, write: bool, bytes: u64) {
        let counter = if write { &self.bytes_written } else { &self.bytes_read };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}
