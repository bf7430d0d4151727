//! Figures of a run, written as JSON and printed as tables.

use crate::latency::Latencies;
use crate::rounded::short;
use crate::world::{LevelTally, StreamTally, Tally};
use policy::cache::StreamStats;
use serde::Serialize;

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Virtual time from the first request to the last answer, in seconds.
    #[serde(serialize_with = "short")]
    pub span_s: f64,
    /// Response times of reads.
    pub reads: Times,
    /// Response times of reads of each client.
    pub clients: Vec<Times>,
    /// Blocks that applications read.
    pub read_blocks: u64,
    /// Number of the applications' writes.
    pub writes: u64,
    /// Writes that were dropped.
    pub dropped_writes: u64,
    /// Megabytes per second (10^6) that applications read.
    #[serde(serialize_with = "short")]
    pub read_mb_s: f64,
    /// The levels, that of the application first.
    pub levels: Vec<LevelFigures>,
    /// Requests that the device served, after merging.
    pub disk_requests: u64,
    /// Writes among these requests.
    pub disk_writes: u64,
    /// Megabytes (2^20) that the device moved.
    #[serde(serialize_with = "short")]
    pub disk_mib: f64,
    /// Mean time that a request waited for the device, in milliseconds.
    #[serde(serialize_with = "short")]
    pub disk_wait_ms: f64,
    /// Share of the time that the device was busy; summed over devices, so an array may exceed 1.
    #[serde(serialize_with = "short")]
    pub disk_busy: f64,
    /// Replies over the link.
    pub link_replies: u64,
    /// Response times per stream, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamTally>,
}

/// A distribution of response times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Number of requests.
    pub count: u64,
    /// Mean response time.
    #[serde(serialize_with = "short")]
    pub mean_ms: f64,
    /// Median response time.
    #[serde(serialize_with = "short")]
    pub p50_ms: f64,
    /// 95th percentile.
    #[serde(serialize_with = "short")]
    pub p95_ms: f64,
    /// 99th percentile.
    #[serde(serialize_with = "short")]
    pub p99_ms: f64,
    /// Largest response time.
    #[serde(serialize_with = "short")]
    pub max_ms: f64,
}

/// Figures of a level, in blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelFigures {
    /// Capacity of the level in blocks.
    pub capacity_blocks: u32,
    /// Blocks requested from above.
    pub asked: u64,
    /// Share of these that were resident.
    #[serde(serialize_with = "short")]
    pub hit_ratio: f64,
    /// Resident blocks that PFC served silently.
    pub silent: u64,
    /// Blocks that PFC passed around the level.
    pub bypassed: u64,
    /// Number of prefetched blocks.
    pub prefetched: u64,
    /// Prefetched blocks that were requested later.
    pub prefetch_used: u64,
    /// Used prefetched blocks that were still on their way at the request.
    pub prefetch_late: u64,
    /// Prefetched blocks that were evicted unused.
    pub prefetch_wasted: u64,
    /// Prefetched blocks that were still unused at the end.
    pub prefetch_unused: u64,
    /// Share of the potential misses that prefetching avoided.
    #[serde(serialize_with = "short")]
    pub coverage: f64,
    /// Share of the prefetched blocks that were requested.
    #[serde(serialize_with = "short")]
    pub accuracy: f64,
    /// Fetches sent down.
    pub fetches: u64,
    /// Blocks in these fetches.
    pub fetched: u64,
    /// Number of evicted blocks.
    pub evicted: u64,
    /// Figures per stream, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<LevelStream>,
}

/// Figures of a stream at a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelStream {
    /// Number of the stream.
    pub stream: u32,
    /// Blocks requested by it.
    pub asked: u64,
    /// Share of these that were resident.
    #[serde(serialize_with = "short")]
    pub hit_ratio: f64,
    /// Blocks prefetched for it.
    pub prefetched: u64,
    /// Prefetched blocks that were used.
    pub prefetch_used: u64,
    /// Prefetched blocks that were evicted unused.
    pub prefetch_wasted: u64,
}

impl Report {
    /// Creates the figures of `tally`, whose blocks have `block_bytes`.
    pub fn new(tally: &Tally, block_bytes: u32) -> Report {
        let span_s = tally.end.as_secs_f64();
        let per_second = |amount: f64| if span_s > 0.0 { amount / span_s } else { 0.0 };
        let started = tally.storage.started.max(1) as f64;
        Report {
            span_s,
            reads: Times::new(&tally.reads),
            clients: tally.clients.iter().map(Times::new).collect(),
            read_blocks: tally.read_blocks,
            writes: tally.writes,
            dropped_writes: tally.dropped_writes,
            read_mb_s: per_second(tally.read_blocks as f64 * f64::from(block_bytes) / 1e6),
            levels: tally.levels.iter().map(LevelFigures::new).collect(),
            disk_requests: tally.storage.started,
            disk_writes: tally.storage.writes,
            disk_mib: tally.storage.sectors as f64 / 2048.0,
            disk_wait_ms: tally.storage.waited_ns as f64 / started / 1e6,
            disk_busy: per_second(tally.storage_busy_ns as f64 / 1e9),
            link_replies: tally.link_replies,
            streams: tally.streams.clone(),
        }
    }
}

impl Times {
    fn new(latencies: &Latencies) -> Times {
        Times {
            count: latencies.count(),
            mean_ms: latencies.mean_ms(),
            p50_ms: latencies.quantile_ms(0.5),
            p95_ms: latencies.quantile_ms(0.95),
            p99_ms: latencies.quantile_ms(0.99),
            max_ms: latencies.max_ms(),
        }
    }
}

impl LevelFigures {
    fn new(level: &LevelTally) -> LevelFigures {
        let stats = &level.stats;
        LevelFigures {
            capacity_blocks: level.capacity_blocks,
            asked: stats.asked,
            hit_ratio: stats.hit_ratio(),
            silent: stats.silent,
            bypassed: stats.bypassed,
            prefetched: stats.prefetched,
            prefetch_used: stats.prefetch_used,
            prefetch_late: stats.prefetch_late,
            prefetch_wasted: stats.prefetch_wasted,
            prefetch_unused: stats.prefetch_unused(),
            coverage: stats.coverage(),
            accuracy: stats.accuracy(),
            fetches: stats.fetches,
            fetched: stats.fetched,
            evicted: stats.evicted,
            streams: level.streams.iter().map(LevelStream::new).collect(),
        }
    }
}

impl LevelStream {
    fn new(stats: &StreamStats) -> LevelStream {
        LevelStream {
            stream: stats.stream,
            asked: stats.asked,
            hit_ratio: if stats.asked == 0 { 0.0 } else { stats.hit as f64 / stats.asked as f64 },
            prefetched: stats.prefetched,
            prefetch_used: stats.prefetch_used,
            prefetch_wasted: stats.prefetch_wasted,
        }
    }
}
