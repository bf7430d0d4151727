//! Configuration of a cache level.

use crate::block::{ConfigError, Replacement, Setting};
use crate::coordinate::Coordination;
use crate::prefetch::{self, Algorithm, Prefetch, Trigger};

/// Size and algorithms of a level. Every replacement works with every prefetcher; a trigger other than
/// [`Trigger::Native`] needs a prefetcher with a trigger distance.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelConfig<A: Algorithm = Prefetch> {
    /// Capacity in blocks, including those in flight.
    pub capacity_blocks: u32,
    /// Choice of the evicted block.
    pub replacement: Replacement,
    /// Choice of the prefetched blocks.
    pub prefetch: A,
    /// Time of the prefetches.
    pub trigger: Trigger,
    /// Coordination with the other levels of a hierarchy.
    pub coordination: Coordination,
    /// Whether blocks in flight have buffers of their own and take a frame only on arrival. The capacity then does not
    /// bound the memory: for comparison with simulators that do so, not for a live cache.
    pub buffers: bool,
    /// Whether a prefetch directly after missing blocks is joined with them into one fetch.
    pub join: bool,
    /// Whether `Hit`, `Wait`, `Store` and `Evict` are sent. The live cache needs them; the simulator is faster without.
    pub announce: bool,
    /// Whether statistics are kept per stream.
    pub per_stream: bool,
    /// Number of streams with state; a new one replaces the longest idle one.
    pub streams_max: u32,
}

impl<A: Algorithm> LevelConfig<A> {
    /// A level with this prefetcher and its usual replacement.
    pub fn new(capacity_blocks: u32, prefetch: A) -> LevelConfig<A> {
        LevelConfig {
            capacity_blocks,
            replacement: prefetch.replacement(),
            prefetch,
            trigger: Trigger::Native,
            coordination: Coordination::NONE,
            buffers: false,
            join: true,
            announce: false,
            per_stream: false,
            streams_max: 65_536,
        }
    }

    /// The same level with another prefetcher.
    pub fn with_prefetch<B: Algorithm>(self, prefetch: B) -> LevelConfig<B> {
        let LevelConfig { capacity_blocks, replacement, trigger, coordination, streams_max, .. } = self;
        let LevelConfig { buffers, join, announce, per_stream, .. } = self;
        LevelConfig {
            capacity_blocks,
            replacement,
            prefetch,
            trigger,
            coordination,
            buffers,
            join,
            announce,
            per_stream,
            streams_max,
        }
    }

    /// Checks that a level can be built.
    pub fn check(&self) -> Result<(), ConfigError> {
        let capacity = self.capacity_blocks;
        if capacity == 0 || capacity > super::CAPACITY_MAX {
            let why = format!("a cache of {capacity} blocks cannot be; give it 1 to {} blocks", super::CAPACITY_MAX);
            return Err(ConfigError::new(Setting::Capacity, why));
        }
        if self.streams_max == 0 {
            let why = "the cache can track no stream; set streams_max to at least 1";
            return Err(ConfigError::new(Setting::Prefetch, why));
        }
        prefetch::check(self.prefetch, self.trigger)?;
        if let Replacement::Sarc(lists) = self.replacement {
            if self.prefetch.is_none() {
                let why = "SARC keeps one list for sequential blocks and one for the rest, and without a prefetcher no \
                           block is sequential; choose lru, which is then the same, or a prefetcher";
                return Err(ConfigError::new(Setting::Replacement, why));
            }
            let fraction = lists.bottom_fraction;
            if !(fraction > 0.0 && fraction <= 1.0) {
                let why =
                    format!("the bottom of SARC's lists is {fraction} of the cache; it must be above 0 and at most 1");
                return Err(ConfigError::new(Setting::Replacement, why));
            }
        }
        self.coordination.pfc.map_or(Ok(()), |pfc| pfc.check())
    }
}
