//! The figures of a run, in a form that is written as JSON and printed as tables.

use crate::latency::Latencies;
use crate::world::{LevelTally, StreamTally, Tally};
use policy::cache::StreamStats;
use serde::{Deserialize, Serialize, Serializer};

/// Everything that a run has found out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Applications' writes.
    pub writes: u64,
    /// Writes left out.
    pub dropped_writes: u64,
    /// Megabytes per second (10^6) that applications read.
    #[serde(serialize_with = "short")]
    pub read_mb_s: f64,
    /// The levels, that of the application first.
    pub levels: Vec<LevelFigures>,
    /// Requests that the device served, after merging.
    pub disk_requests: u64,
    /// Of these, writes.
    pub disk_writes: u64,
    /// Megabytes (2^20) that the device moved.
    #[serde(serialize_with = "short")]
    pub disk_mib: f64,
    /// Mean time that a request waited for the device, in milliseconds.
    #[serde(serialize_with = "short")]
    pub disk_wait_ms: f64,
    /// Share of the time that the device had something to do; summed over devices, so an array may exceed 1.
    #[serde(serialize_with = "short")]
    pub disk_busy: f64,
    /// Replies over the link.
    pub link_replies: u64,
    /// Response times per stream, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamFigures>,
}

/// A distribution of response times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Mean.
    #[serde(serialize_with = "short")]
    pub mean_ms: f64,
    /// Median.
    #[serde(serialize_with = "short")]
    pub p50_ms: f64,
    /// 95th percentile.
    #[serde(serialize_with = "short")]
    pub p95_ms: f64,
    /// 99th percentile.
    #[serde(serialize_with = "short")]
    pub p99_ms: f64,
    /// Largest.
    #[serde(serialize_with = "short")]
    pub max_ms: f64,
}

/// One level's figures; counts are of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelFigures {
    /// Blocks it holds.
    pub capacity_blocks: u32,
    /// Asked for from above.
    pub asked: u64,
    /// Share of them that were resident.
    #[serde(serialize_with = "short")]
    pub hit_ratio: f64,
    /// Of the resident ones, those that PFC served silently.
    pub silent: u64,
    /// Taken past the level by PFC.
    pub bypassed: u64,
    /// Prefetched.
    pub prefetched: u64,
    /// Of these, asked for later.
    pub prefetch_used: u64,
    /// Of the used, still on the way when they were asked for.
    pub prefetch_late: u64,
    /// Prefetched and evicted without being asked for.
    pub prefetch_wasted: u64,
    /// Prefetched and not asked for until the end.
    pub prefetch_unused: u64,
    /// Share of what would have been missed that prefetching covered.
    #[serde(serialize_with = "short")]
    pub coverage: f64,
    /// Share of the prefetched that were asked for.
    #[serde(serialize_with = "short")]
    pub accuracy: f64,
    /// Fetches sent down.
    pub fetches: u64,
    /// Blocks in them.
    pub fetched: u64,
    /// Blocks evicted.
    pub evicted: u64,
    /// Per stream, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<LevelStream>,
}

/// One stream at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelStream {
    /// The stream.
    pub stream: u32,
    /// Blocks asked for.
    pub asked: u64,
    /// Share of them resident.
    #[serde(serialize_with = "short")]
    pub hit_ratio: f64,
    /// Prefetched for it.
    pub prefetched: u64,
    /// Of these, used.
    pub prefetch_used: u64,
    /// Of these, evicted unused.
    pub prefetch_wasted: u64,
}

/// Response times of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// The stream.
    pub stream: u32,
    /// Reads.
    pub reads: u64,
    /// Their mean response time.
    #[serde(serialize_with = "short")]
    pub mean_ms: f64,
    /// Their longest.
    #[serde(serialize_with = "short")]
    pub max_ms: f64,
}

/// Twelve significant digits: more than is meant, and few enough that what was read back is written the same again.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

fn short<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(rounded(*value))
}

impl Report {
    /// The figures of `tally`, whose blocks have `block_bytes`.
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
            streams: tally.streams.iter().map(StreamFigures::new).collect(),
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

impl StreamFigures {
    fn new(stream: &StreamTally) -> StreamFigures {
        StreamFigures { stream: stream.stream, reads: stream.reads, mean_ms: stream.mean_ms, max_ms: stream.max_ms }
    }
}
