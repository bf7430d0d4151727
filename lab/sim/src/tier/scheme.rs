//! The schemes of the comparison.

use policy::tier::machine::Config;

/// Placement of data, and the mechanism that moves them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a run has one; that it can be copied is worth more")]
pub enum Scheme {
    /// The slow devices alone.
    SlowOnly,
    /// The fast devices alone, as if their capacity were unlimited.
    FastOnly,
    /// All devices in turn: the plain hybrid.
    RoundRobin,
    /// All devices by speed: the split of the paper's model.
    Proportional,
    /// The fast tier is a cache of the slow one: LRU eviction, write-back.
    Lru {
        /// Whether a write that misses goes around the cache.
        around: bool,
    },
    /// A machine of `policy::tier` moves data: WS-ROS, by frequency, or tuned. Data are first placed in turn, or by
    /// speed.
    Reorganized {
        /// The machine's parameters.
        config: Config,
        /// Whether data are first placed by speed.
        proportional: bool,
    },
    /// The best placement for the requests of each window, without cost: the limit.
    Optimum {
        /// Number of requests in a window.
        window: u64,
    },
}
