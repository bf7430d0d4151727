//! What the cache counted, in the words of the simulator's report.

use policy::cache::Level;

/// Counts of the block cache since the start; blocks unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CacheCounts {
    /// Its prefetcher.
    pub prefetch: String,
    /// Blocks it can hold.
    pub blocks: u64,
    /// Blocks resident or on the way now.
    pub inventory: u64,
    /// Bytes of memory that its frames take now.
    pub memory_bytes: u64,
    /// Requests for reading, not blocks.
    pub requests: u64,
    /// Of these, on handles opened with `O_NOATIME`: prefetches of a cache above.
    pub speculative_requests: u64,
    /// Asked for.
    pub asked: u64,
    /// Found here.
    pub hit: u64,
    /// Found on the way.
    pub late: u64,
    /// Not found.
    pub missed: u64,
    /// Of `hit`, served by PFC without telling the native cache.
    pub silent: u64,
    /// Served by PFC directly from the targets.
    pub bypassed: u64,
    /// Fetches, not blocks.
    pub fetches: u64,
    /// Fetched, all kinds.
    pub fetched: u64,
    /// Fetched unasked: issued prefetch.
    pub prefetched: u64,
    /// Of these, asked for later.
    pub prefetch_used: u64,
    /// Of the used ones, still on the way when asked for.
    pub prefetch_late: u64,
    /// Of the prefetched ones, gone without ever being asked for.
    pub prefetch_wasted: u64,
    /// Of the prefetched ones, not asked for so far.
    pub prefetch_unused: u64,
    /// Prefetches not issued because every frame was on the way.
    pub prefetch_dropped: u64,
    /// Evicted.
    pub evicted: u64,
    /// Failed to arrive, prefetches included.
    pub failed: u64,
    /// Reads (not blocks) that went on without the cache because a fetch failed or passed its deadline.
    pub around: u64,
    /// Share of the blocks asked for that were here.
    pub hit_ratio: f64,
    /// Share of what would have been missed that prefetching had here or on the way.
    pub coverage: f64,
    /// Share of the prefetched blocks that were asked for.
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
