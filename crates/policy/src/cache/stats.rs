//! What a level counted.

/// Counts of one level since it was made. All are blocks unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests for reading, not blocks.
    pub requests: u64,
    /// Asked for by reading.
    pub asked: u64,
    /// Found resident. PFC's silent hits are among them.
    pub hit: u64,
    /// Found on the way.
    pub late: u64,
    /// Not found.
    pub missed: u64,
    /// Of `hit`, those that PFC served without telling the native cache.
    pub silent: u64,
    /// Served by PFC directly from below.
    pub bypassed: u64,
    /// Written.
    pub written: u64,
    /// Fetches sent down, not blocks.
    pub fetches: u64,
    /// Of these, pure prefetches.
    pub prefetches: u64,
    /// Fetched, all kinds.
    pub fetched: u64,
    /// Fetched unasked: issued prefetch, PFC's readmore included.
    pub prefetched: u64,
    /// Of `prefetched`, asked for while resident or on the way.
    pub prefetch_used: u64,
    /// Of `prefetch_used`, those that were still on the way.
    pub prefetch_late: u64,
    /// Of `prefetched`, evicted or forgotten without ever being asked for.
    pub prefetch_wasted: u64,
    /// Prefetches that were not issued because every frame was in flight.
    pub prefetch_dropped: u64,
    /// Fetched for those that waited and not kept, other than PFC's bypass.
    pub passed_through: u64,
    /// Evicted.
    pub evicted: u64,
    /// Failed to arrive.
    pub failed: u64,
}

impl Stats {
    /// What does not add up.
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

    /// Share of the blocks asked for that were resident; 0 if none was asked for.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hit, self.asked)
    }

    /// Blocks fetched unasked that nobody asked for so far (unused prefetch).
    pub fn prefetch_unused(&self) -> u64 {
        self.prefetched - self.prefetch_used
    }

    /// Share of the prefetched blocks that were asked for.
    pub fn accuracy(&self) -> f64 {
        ratio(self.prefetch_used, self.prefetched)
    }

    /// Share of what would have been missed that prefetching had here or on the way.
    pub fn coverage(&self) -> f64 {
        ratio(self.prefetch_used, self.prefetch_used + self.missed)
    }
}

/// Counts of one stream at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// The stream.
    pub stream: u32,
    /// Asked for.
    pub asked: u64,
    /// Found resident.
    pub hit: u64,
    /// Found on the way.
    pub late: u64,
    /// Not found.
    pub missed: u64,
    /// Fetched unasked for it.
    pub prefetched: u64,
    /// Of these, asked for.
    pub prefetch_used: u64,
    /// Of these, evicted unused.
    pub prefetch_wasted: u64,
    /// Prefetched, here or on the way, and not asked for yet: its read-ahead inventory.
    pub inventory: u64,
    /// Trigger distance now, in blocks; 0 when the prefetcher keeps none per stream.
    pub trigger_distance: f64,
    /// Rate now, in blocks per second; 0 when rates are not kept.
    pub rate: f64,
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
