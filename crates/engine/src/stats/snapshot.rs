//! All metrics at one time, for display: `entrepot stats`, `.stats`, and Prometheus ([`super::exposition`]).

use super::table::Metric;
use crate::cache::CacheCounts;
use object::counters::{BUCKETS, quantile_ns};
use std::fmt::Write;

/// All metrics at one time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Snapshot {
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// Operations of applications, in the order of the table.
    pub ops: Vec<OpCounts>,
    /// Targets, by number.
    pub targets: Vec<TargetCounts>,
    /// All other numbers: name and value, in the order of the table.
    pub numbers: Vec<(String, u64)>,
    /// The store of the state.
    pub state: Option<StateCounts>,
    /// The block cache, if there is one.
    pub cache: Option<CacheCounts>,
}

/// One kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OpCounts {
    /// Name of the operation.
    pub op: String,
    /// Operations that ended, well or not.
    pub count: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Nanoseconds that they took together.
    pub total_ns: u64,
    /// Counts by duration; see `Histogram`.
    pub buckets: Vec<u64>,
}

/// Counters of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TargetCounts {
    /// The number of the target in the volume.
    pub id: u16,
    /// Name of the target.
    pub name: String,
    /// Tier of the target.
    pub tier: u8,
    /// State of the target.
    pub state: String,
    /// All its bytes.
    pub total_bytes: u64,
    /// Its free bytes.
    pub free_bytes: u64,
    /// Number of operations.
    pub ops: u64,
    /// Errors of the device.
    pub errors: u64,
    /// Operations that passed their deadline.
    pub deadline_misses: u64,
    /// Bytes of files read.
    pub read_bytes: u64,
    /// Bytes of files written.
    pub written_bytes: u64,
    /// Nanoseconds that the reads and writes took that were timed.
    #[serde(default)]
    pub timed_ns: u64,
    /// Counts by duration.
    #[serde(default)]
    pub timed: Vec<u64>,
}

/// Operations on the store of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StateCounts {
    /// Number of failed operations.
    pub failed: u64,
    /// Nanoseconds that they took together.
    pub total_ns: u64,
    /// Counts by duration.
    pub buckets: Vec<u64>,
}

impl OpCounts {
    /// Mean nanoseconds; 0 if there was none.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }

    /// An upper bound of the given share (0 to 1) of spans, in nanoseconds.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let mut buckets = [0; BUCKETS];
        for (bucket, count) in buckets.iter_mut().zip(&self.buckets) {
            *bucket = *count;
        }
        quantile_ns(&buckets, share)
    }
}

impl Snapshot {
    /// A number by its name in the table.
    pub fn number(&self, metric: Metric) -> u64 {
        self.numbers.iter().find(|(name, _)| name == metric.name()).map_or(0, |(_, value)| *value)
    }

    /// Text for people: all counters that are not zero, in columns.
    pub fn text(&self) -> String {
        let mut out = format!("uptime {:.1} s\n\n", self.uptime_ns as f64 / 1e9);
        let us = |ns: u64| ns as f64 / 1e3;
        let mut line = |args: std::fmt::Arguments<'_>| {
            let _ = writeln!(out, "{args}"); // a String takes everything
        };
        line(format_args!(
            "{:<10} {:>12} {:>8} {:>16} {:>10} {:>10} {:>10}",
            "operation", "count", "failed", "bytes", "mean us", "p50 us <", "p99 us <"
        ));
        for op in self.ops.iter().filter(|op| op.count > 0) {
            line(format_args!(
                "{:<10} {:>12} {:>8} {:>16} {:>10.1} {:>10.0} {:>10.0}",
                op.op,
                op.count,
                op.failed,
                op.bytes,
                us(op.mean_ns()),
                us(op.quantile_ns(0.5)),
                us(op.quantile_ns(0.99))
            ));
        }
        line(format_args!(
            "\n{:<16} {:<9} {:>12} {:>16} {:>16} {:>7} {:>7} {:>16} {:>16}",
            "target", "state", "ops", "read bytes", "written bytes", "errors", "misses", "free bytes", "total bytes"
        ));
        for t in &self.targets {
            line(format_args!(
                "{:<16} {:<9} {:>12} {:>16} {:>16} {:>7} {:>7} {:>16} {:>16}",
                t.name,
                t.state,
                t.ops,
                t.read_bytes,
                t.written_bytes,
                t.errors,
                t.deadline_misses,
                t.free_bytes,
                t.total_bytes
            ));
        }
        line(format_args!(""));
        for (name, value) in self.numbers.iter().filter(|(_, value)| *value > 0) {
            line(format_args!("{name:<24} {value:>16}"));
        }
        if let Some(cache) = &self.cache {
            line(format_args!(""));
            for (name, _, _, value) in CACHE_NUMBERS {
                line(format_args!("cache_{name:<18} {:>16}", value(cache)));
            }
            for (name, _, value) in CACHE_SHARES {
                line(format_args!("cache_{name:<18} {:>16.4}", value(cache)));
            }
        }
        out
    }
}

/// A number of the block cache: name, kind, help, value.
pub(super) type CacheNumber = (&'static str, &'static str, &'static str, fn(&CacheCounts) -> u64);
/// A share: name, help, value.
pub(super) type CacheShare = (&'static str, &'static str, fn(&CacheCounts) -> f64);

/// The numbers of the block cache, in the words of the simulator's report.
pub(super) const CACHE_NUMBERS: &[CacheNumber] = &[
    ("blocks", "gauge", "Blocks of 4 KiB that the block cache can hold", |c| c.blocks),
    ("inventory", "gauge", "Blocks resident or on the way", |c| c.inventory),
    ("memory_bytes", "gauge", "Bytes that the blocks take", |c| c.memory_bytes),
    ("requests", "counter", "Requests for reading, not blocks", |c| c.requests),
    ("speculative", "counter", "Requests that were prefetches of a cache above, not blocks", |c| {
        c.speculative_requests
    }),
    ("asked", "counter", "Blocks asked for", |c| c.asked),
    ("hit", "counter", "Blocks found resident", |c| c.hit),
    ("late", "counter", "Blocks found on the way", |c| c.late),
    ("missed", "counter", "Blocks not found", |c| c.missed),
    ("silent", "counter", "Blocks that PFC served without telling the native cache", |c| c.silent),
    ("bypassed", "counter", "Blocks that PFC served directly from the targets", |c| c.bypassed),
    ("fetches", "counter", "Fetches, not blocks", |c| c.fetches),
    ("fetched", "counter", "Blocks fetched", |c| c.fetched),
    ("prefetched", "counter", "Blocks fetched unasked", |c| c.prefetched),
    ("prefetch_used", "counter", "Prefetched blocks that were asked for", |c| c.prefetch_used),
    ("prefetch_late", "counter", "Prefetched blocks that were still on the way when asked for", |c| c.prefetch_late),
    ("prefetch_wasted", "counter", "Prefetched blocks that went without being asked for", |c| c.prefetch_wasted),
    ("prefetch_dropped", "counter", "Blocks not prefetched because every frame was on the way", |c| c.prefetch_dropped),
    ("evicted", "counter", "Blocks evicted", |c| c.evicted),
    ("failed", "counter", "Blocks that failed to arrive", |c| c.failed),
    ("around", "counter", "Reads that went on without the cache, not blocks", |c| c.around),
];

/// The shares of the block cache.
pub(super) const CACHE_SHARES: &[CacheShare] = &[
    ("hit_ratio", "Share of the blocks asked for that were resident", |c| c.hit_ratio),
    ("coverage", "Share of the would-be misses that prefetching had here or on the way", |c| c.coverage),
    ("accuracy", "Share of the prefetched blocks that were asked for", |c| c.accuracy),
];
