//! What one cache level is made of.

use crate::block::{Replacement, TwoLists};
use crate::coordinate::{self, Coordination};
use crate::prefetch::{self, Prefetch, Trigger};
use std::fmt;

/// One level: its size and its algorithms. Every replacement goes with every prefetcher; a trigger other than
/// [`Trigger::Native`] needs a prefetcher that has a trigger distance.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelConfig {
    /// Blocks it holds, those in flight included.
    pub capacity_blocks: u32,
    /// Which block goes.
    pub replacement: Replacement,
    /// Which blocks are fetched unasked.
    pub prefetch: Prefetch,
    /// When they are.
    pub trigger: Trigger,
    /// How it takes part in a hierarchy.
    pub coordination: Coordination,
    /// Whether what is in flight has buffers of its own, so that a block takes its frame only when it arrives. Memory is not
    /// bounded by the capacity then: for comparison with simulators that do so, not for a live cache.
    pub buffers: bool,
    /// Whether a prefetch that directly follows missing blocks goes down with them as one fetch, answered as one.
    pub join: bool,
    /// Whether `Hit`, `Wait`, `Store` and `Evict` are said. The live cache needs them; the simulator is faster without.
    pub announce: bool,
    /// Whether statistics are kept per stream.
    pub per_stream: bool,
    /// Streams that are remembered; the one that has been idle longest is forgotten.
    pub streams_max: u32,
}

impl LevelConfig {
    /// A level with this prefetcher and the replacement that goes with it: SARC brings its own, all others LRU (section
    /// 4.4).
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

    /// Whether a level can be made of it.
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

/// Why a level cannot be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// No room for a single block, or more blocks than can be numbered.
    Capacity {
        /// What was asked for.
        blocks: u32,
    },
    /// The prefetcher's numbers do not fit together.
    Prefetch(prefetch::ConfigError),
    /// The coordinator's numbers do not fit together.
    Coordination(coordinate::ConfigError),
    /// The lists' numbers do not fit together.
    BottomFraction {
        /// What was asked for.
        fraction: f64,
    },
    /// No stream can be remembered.
    Streams,
    /// SARC's lists without a prefetcher, which alone says what is sequential.
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
                "SARC's lists are one for what is sequential and one for the rest, and without a prefetcher nothing is; take lru, which that comes \
                 to, or a prefetcher",
            ),
            ConfigError::Streams => f.write_str("no stream can be remembered; set streams_max to at least 1"),
        }
    }
}

impl std::error::Error for ConfigError {}
