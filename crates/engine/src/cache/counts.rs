//! Counters of the cache, named as in the simulator's report.

use policy::cache::Level;
use policy::prefetch::Algorithm;

/// Counts of the block cache since the start; in blocks unless stated otherwise.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CacheCounts {
    /// Name of the prefetcher.
    pub prefetch: String,
    /// Capacity in blocks.
    pub blocks: u64,
    /// Blocks resident or on the way now.
    pub inventory: u64,
    /// Bytes of memory that its frames take now.
    pub memory_bytes: u64,
    /// Requests for reading, not blocks.
    pub requests: u64,
    /// Requests on handles opened with `O_NOATIME`: prefetches of a cache above.
    pub speculative_requests: u64,
    /// Blocks that were requested.
    pub asked: u64,
    /// Requested blocks that were resident.
    pub hit: u64,
    /// Requested blocks that were being fetched.
    pub late: u64,
    /// Requested blocks that were neither resident nor being fetched.
    pub missed: u64,
    /// The part of `hit` that PFC served without notice to the native cache.
    pub silent: u64,
    /// Served by PFC directly from the targets.
    pub bypassed: u64,
    /// Fetches, not blocks.
    pub fetches: u64,
    /// Fetched blocks, all kinds.
    pub fetched: u64,
    /// Blocks fetched by issued prefetches.
    pub prefetched: u64,
    /// Prefetched blocks that were requested later.
    pub prefetch_used: u64,
    /// The part of `prefetch_used` that was still being fetched when requested.
    pub prefetch_late: u64,
    /// Prefetched blocks that left the cache without a request.
    pub prefetch_wasted: u64,
    /// Prefetched blocks without a request so far.
    pub prefetch_unused: u64,
    /// Prefetches not issued because every frame was on the way.
    pub prefetch_dropped: u64,
    /// Blocks that were evicted.
    pub evicted: u64,
    /// Blocks that failed to arrive, prefetches included.
    pub failed: u64,
    /// Reads (not blocks) that went on without the cache because a fetch failed or passed its deadline.
    pub around: u64,
    /// Share of the requested blocks that were resident.
    pub hit_ratio: f64,
    /// Share of potential misses that prefetching made resident or had on the way.
    pub coverage: f64,
    /// Share of the prefetched blocks that were requested.
    pub accuracy: f64,
}

impl CacheCounts {
    pub(super) fn new(level: &Level, memory_bytes: u64, speculative_requests: u64, around: u64) -> CacheCounts {
        let (config, stats) = (level.config(), level.stats());
        CacheCounts {
            prefetch: config.prefetch.name().to_owned(),
            blocks: config.capacity_blocks.into(),
            inventory: level.inventory().into(),
            memory_bytes,
            requests: stats.requests,
            speculative_requests,
            asked: stats.asked,
            hit: stats.hit,
            late: stats.late,
            missed: stats.missed,
            silent: stats.silent,
            bypassed: stats.bypassed,
            fetches: stats.fetches,
            fetched: stats.fetched,
            prefetched: stats.prefetched,
            prefetch_used: stats.prefetch_used,
            prefetch_late: stats.prefetch_late,
            prefetch_wasted: stats.prefetch_wasted,
            prefetch_unused: stats.prefetch_unused(),
            prefetch_dropped: stats.prefetch_dropped,
            evicted: stats.evicted,
            failed: stats.failed,
            around,
            hit_ratio: stats.hit_ratio(),
            coverage: stats.coverage(),
            accuracy: stats.accuracy(),
        }
    }
}
