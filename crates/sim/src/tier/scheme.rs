//! The schemes that are compared.

use policy::tier::machine::Config;

/// Where data lie, and what moves them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a run has one; that it can be copied is worth more")]
pub enum Scheme {
    /// The slow devices alone.
    SlowOnly,
    /// The fast devices alone, as if they had room for everything.
    FastOnly,
    /// All devices in turn: the plain hybrid.
    RoundRobin,
    /// All devices by speed: the split of the paper's model.
    Proportional,
    /// The fast tier is a cache of the slow one: least recently used leaves, writes stay until they leave.
    Lru,
    /// A machine of `policy::tier` moves data: WS-ROS, by frequency, or tuned. Data are first placed in turn, or by speed.
    Reorganized {
        /// The machine's parameters.
        config: Config,
        /// Whether data are first placed by speed.
        proportional: bool,
    },
    /// Each window, the best placement for the requests to come, at no cost: the limit.
    Optimum {
        /// Requests of a window.
        window: u64,
    },
}
