//! Configuration of a cache level.

use crate::block::{Replacement, TwoLists};
use crate::coordinate::{self, Coordination};
use crate::prefetch::{self, Prefetch, Trigger};
use std::fmt;

/// Size and algorithms of a level. Every replacement works with every prefetcher; a trigger other than
/// [`Trigger::Native`] needs a prefetcher with a trigger distance.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelConfig {
    /// Capacity in blocks, including those in flight.
    pub capacity_blocks: u32,
    /// Choice of the evicted block.
    pub replacement: Replacement,
    /// Choice of the prefetched blocks.
    pub prefetch: Prefetch,
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

impl LevelConfig {
    /// A level with this prefetcher and its usual replacement: SARC has its own, all others use LRU (section 4.4).
    pub fn new(capacity_blocks: u32, prefetch: Prefetch) -> LevelConfig {
        let replacement = match prefetch {
            Prefetch::Sarc { .. } => Replacement::Sarc(TwoLists::default()),
            _ => Replacement::Lru,
        };
        LevelConfig {
            capacity_blocks,
            replacement,
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

    /// Checks that a level can be built.
    pub fn check(&self) -> Result<(), ConfigError> {
        let capacity = self.capacity_blocks;
        if capacity == 0 || capacity > super::CAPACITY_MAX {
            return Err(ConfigError::Capacity { blocks: capacity });
        }
        if self.streams_max == 0 {
            return Err(ConfigError::Streams);
        }
        prefetch::check(self.prefetch, self.trigger).map_err(ConfigError::Prefetch)?;
        if let Replacement::Sarc(lists) = self.replacement {
            if self.prefetch == Prefetch::None {
                return Err(ConfigError::NothingSequential);
            }
            let fraction = lists.bottom_fraction;
            if !(fraction > 0.0 && fraction <= 1.0) {
                return Err(ConfigError::BottomFraction { fraction });
            }
        }
        self.coordination.pfc.map_or(Ok(()), |pfc| pfc.check().map_err(ConfigError::Coordination))
    }
}

/// Invalid configuration of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// No room for a single block, or more blocks than can be numbered.
    Capacity {
        /// Configured number of blocks.
        blocks: u32,
    },
    /// The prefetcher's numbers do not fit together.
    Prefetch(prefetch::ConfigError),
    /// The coordinator's numbers do not fit together.
    Coordination(coordinate::ConfigError),
    /// The bottom fraction of SARC's lists is out of range.
    BottomFraction {
        /// Configured fraction of the cache.
        fraction: f64,
    },
    /// The limit on streams is 0.
    Streams,
    /// SARC's lists without a prefetcher: only a prefetcher marks blocks as sequential.
    NothingSequential,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Capacity { blocks } => {
                write!(f, "a cache of {blocks} blocks cannot be; give it 1 to {} blocks", super::CAPACITY_MAX)
            }
            ConfigError::Prefetch(e) => e.fmt(f),
            ConfigError::Coordination(e) => e.fmt(f),
            ConfigError::BottomFraction { fraction } => {
                write!(f, "the bottom of SARC's lists is {fraction} of the cache; it must be above 0 and at most 1")
            }
            ConfigError::NothingSequential => f.write_str(
                "SARC keeps one list for sequential blocks and one for the rest, and without a prefetcher no block is \
                 sequential; choose lru, which is then the same, or a prefetcher",
            ),
            ConfigError::Streams => f.write_str("the cache can track no stream; set streams_max to at least 1"),
        }
    }
}

impl std::error::Error for ConfigError {}
