//! Counters of a cache level.

/// Counts of one level since its start, in blocks unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Read requests, not blocks.
    pub requests: u64,
    /// Blocks requested for reading.
    pub asked: u64,
    /// Blocks found resident. PFC's silent hits are among them.
    pub hit: u64,
    /// Blocks found in flight.
    pub late: u64,
    /// Blocks found neither resident nor in flight.
    pub missed: u64,
    /// Part of `hit` that PFC served without the native cache.
    pub silent: u64,
    /// Blocks that PFC served directly from below.
    pub bypassed: u64,
    /// Blocks written from above.
    pub written: u64,
    /// Fetches sent down, not blocks.
    pub fetches: u64,
    /// Part of `fetches` that are pure prefetches.
    pub prefetches: u64,
    /// Blocks fetched, of all kinds.
    pub fetched: u64,
    /// Blocks fetched before any request: issued prefetch, PFC's readmore included.
    pub prefetched: u64,
    /// Part of `prefetched` that was requested while resident or in flight.
    pub prefetch_used: u64,
    /// Part of `prefetch_used` that was still in flight.
    pub prefetch_late: u64,
    /// Part of `prefetched` that was evicted or forgotten before any request.
    pub prefetch_wasted: u64,
    /// Blocks not prefetched because every frame was in flight.
    pub prefetch_dropped: u64,
    /// Blocks fetched for waiting requests and not kept, other than by PFC's bypass.
    pub passed_through: u64,
    /// Blocks evicted from here.
    pub evicted: u64,
    /// Blocks of failed fetches.
    pub failed: u64,
}

impl Stats {
    /// Returns the first inconsistency of the counts.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.hit + self.late + self.missed != self.asked {
            return Err(format!(
                "{} hit, {} late, {} missed of {} asked",
                self.hit, self.late, self.missed, self.asked
            ));
        }
        if self.prefetch_used + self.prefetch_wasted > self.prefetched {
            let (used, wasted) = (self.prefetch_used, self.prefetch_wasted);
            return Err(format!("{used} used and {wasted} wasted of {} prefetched", self.prefetched));
        }
        Ok(())
    }

    /// Share of the requested blocks that were resident; 0 without requests.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hit, self.asked)
    }

    /// Prefetched blocks without a request so far (unused prefetch).
    pub fn prefetch_unused(&self) -> u64 {
        self.prefetched - self.prefetch_used
    }

    /// Share of the prefetched blocks that were requested.
    pub fn accuracy(&self) -> f64 {
        ratio(self.prefetch_used, self.prefetched)
    }

    /// Share of the would-be misses that prefetching had resident or in flight.
    pub fn coverage(&self) -> f64 {
        ratio(self.prefetch_used, self.prefetch_used + self.missed)
    }
}

/// Counts of one stream at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// Number of the stream.
    pub stream: u32,
    /// Blocks requested for reading.
    pub asked: u64,
    /// Blocks found resident.
    pub hit: u64,
    /// Blocks found in flight.
    pub late: u64,
    /// Blocks found neither resident nor in flight.
    pub missed: u64,
    /// Blocks prefetched for the stream.
    pub prefetched: u64,
    /// Part of `prefetched` that was requested.
    pub prefetch_used: u64,
    /// Part of `prefetched` that was evicted unused.
    pub prefetch_wasted: u64,
    /// Prefetched blocks, resident or in flight, without a request yet: its read-ahead inventory.
    pub inventory: u64,
    /// Trigger distance now, in blocks; 0 when the prefetcher keeps none per stream.
    pub trigger_distance: f64,
    /// Rate now, in blocks per second; 0 when rates are not kept.
    pub rate: f64,
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
