//! Cost of the recovery of one object: counted while it runs, kept for the summary of a job.

use parking_lot::Mutex;
use policy::protect::recovery::Key;
use std::time::Duration;

/// Recovery of one lost object.
#[derive(Debug)]
pub struct Tally {
    /// File and object of the recovery.
    pub key: Key,
    /// Start in nanoseconds since 1970.
    pub began_ns: u64,
    cost: Mutex<Cost>,
}

/// Cost of a recovery so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Number of lost stripes.
    pub lost_stripes: u64,
    /// Number of recovered stripes.
    pub recovered_stripes: u64,
    /// Bytes fetched from sources.
    pub fetched_bytes: u64,
    /// Longest wait of one read.
    pub reader_wait_max: Duration,
}

impl Tally {
    pub(super) fn new(key: Key) -> Tally {
        Tally { key, began_ns: object::since_1970().as_nanos() as u64, cost: Mutex::default() }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Cost)) {
        change(&mut self.cost.lock());
    }

    /// Returns the cost so far.
    pub fn cost(&self) -> Cost {
        *self.cost.lock()
    }
}
