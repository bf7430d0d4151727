//! Cost of the recovery of one object: counted while it runs, kept for the summary of a job.

use super::log::now_ns;
use policy::protect::recovery::Key;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one lost object.
#[derive(Debug)]
pub struct Tally {
    /// File and object of the recovery.
    pub key: Key,
    /// Start in nanoseconds since 1970.
    pub began_ns: u64,
    lost_stripes: AtomicU64,
    recovered_stripes: AtomicU64,
    fetched_bytes: AtomicU64,
    reader_wait_ns_max: AtomicU64,
}

impl Tally {
    pub(super) fn new(key: Key) -> Tally {
        Tally {
            key,
            began_ns: now_ns(),
            lost_stripes: AtomicU64::new(0),
            recovered_stripes: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            reader_wait_ns_max: AtomicU64::new(0),
        }
    }

    pub(super) fn lost(&self, stripes: u64) {
        self.lost_stripes.store(stripes, Ordering::Relaxed);
    }

    pub(super) fn recovered(&self) {
        self.recovered_stripes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn fetched(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn waited(&self, time: Duration) {
        self.reader_wait_ns_max.fetch_max(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Number of lost stripes.
    pub fn lost_stripes(&self) -> u64 {
        self.lost_stripes.load(Ordering::Relaxed)
    }

    /// Number of recovered stripes.
    pub fn recovered_stripes(&self) -> u64 {
        self.recovered_stripes.load(Ordering::Relaxed)
    }

    /// Bytes fetched from sources.
    pub fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Ordering::Relaxed)
    }

    /// Longest wait of one read.
    pub fn reader_wait_max(&self) -> Duration {
        Duration::from_nanos(self.reader_wait_ns_max.load(Ordering::Relaxed))
    }
}
