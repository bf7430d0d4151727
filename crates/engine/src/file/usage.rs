//! Usage counters of an open file, which only grow. Adaptive parts of the volume have their own, see
//! [`Load`](super::Load).
//!
//! A request is counted when it is answered, with a few atomic additions and no lock. The counters end with the last
//! user of the file.

use super::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cost of a request beside its bytes, when files are compared. A guess: a page.
const REQUEST_BYTES: u64 = 4096;

/// Counters of one file.
#[derive(Default)]
#[repr(align(64))]
pub struct Usage {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    total_ns: AtomicU64,
    /// Total at the last [`look`](Usage::look).
    seen: AtomicU64,
}

/// Values of one file's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Reads that were answered.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Writes that were answered.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Sum of all response times, in nanoseconds.
    pub total_ns: u64,
}

impl Usage {
    /// Counts an answered read.
    pub fn read(&self, bytes: u64, took_ns: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.total_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// Counts an answered write.
    pub fn write(&self, bytes: u64, took_ns: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.total_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// Current values of the counters.
    pub fn now(&self) -> Used {
        Used {
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            total_ns: self.total_ns.load(Ordering::Relaxed),
        }
    }

    /// Usage since the last [`look`](Usage::look), to compare files by.
    pub fn lately(&self) -> u64 {
        self.all().saturating_sub(self.seen.load(Ordering::Relaxed))
    }

    /// As [`lately`](Usage::lately), and starts the next interval.
    pub fn look(&self) -> u64 {
        let all = self.all();
        all.saturating_sub(self.seen.swap(all, Ordering::Relaxed))
    }

    fn all(&self) -> u64 {
        let used = self.now();
        (used.reads + used.writes) * REQUEST_BYTES + used.read_bytes + used.written_bytes
    }
}

impl File {
    /// Usage counters of the file.
    pub fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_adds_up_and_what_came_lately_ends_with_a_look() {
        let usage = Usage::default();
        usage.read(10, 5);
        usage.read(0, 1);
        usage.write(300, 7);
        let used = Used { reads: 2, read_bytes: 10, writes: 1, written_bytes: 300, total_ns: 13 };
        assert_eq!(usage.now(), used);
        let lately = 3 * REQUEST_BYTES + 310;
        assert_eq!([usage.lately(), usage.look(), usage.lately(), usage.look()], [lately, lately, 0, 0]);
        usage.write(1, 0);
        assert_eq!((usage.lately(), usage.now().written_bytes), (REQUEST_BYTES + 1, 301));
    }
}
