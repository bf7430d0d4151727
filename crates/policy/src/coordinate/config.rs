//! What coordinates a level with the one above.

use std::fmt;

/// The coordinators of one level. They go together as one likes; the published ones are one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordination {
    /// How the level looks at the requests' `demand_len` (section 4.1).
    pub labels: Labels,
    /// Whether the level above asks for what its application waits for in a request of its own, so that its answer waits for no prefetch
    /// . It is the one above that does so: whoever stacks levels tells it.
    pub early: bool,
    /// PFC in front of the level (section 4.2).
    pub pfc: Option<Pfc>,
    /// Whether blocks that were sent up go first (section 4.3).
    pub du: bool,
    /// Whether our per-stream coordinator serves the requests instead of the native prefetcher; PFC is not asked then.
    pub adaptive: bool,
}

impl Coordination {
    /// None.
    pub const NONE: Coordination =
        Coordination { labels: Labels::Ignored, early: false, pfc: None, du: false, adaptive: false };
    /// Demand labels.
    pub const LABELS: Coordination = Coordination { labels: Labels::Published, ..Coordination::NONE };
    /// PFC as published, in the reading of the reference.
    pub const PFC: Coordination = Coordination { pfc: Some(Pfc::PUBLISHED), ..Coordination::NONE };
    /// Our per-stream coordinator.
    pub const ADAPTIVE: Coordination = Coordination { adaptive: true, ..Coordination::NONE };
    /// The same, with the level above asking early for what its application waits for.
    pub const EARLY: Coordination = Coordination { early: true, ..Coordination::ADAPTIVE };
    /// DU, exclusive caching.
    pub const DU: Coordination = Coordination { du: true, ..Coordination::NONE };

    /// Whether it makes a difference which blocks only the upper level's prefetcher wants.
    pub(crate) fn knows_labels(&self) -> bool {
        self.early || self.labels != Labels::Ignored
    }
}

/// What only the upper level's prefetcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Counts as demanded: the labels are not looked at.
    Ignored,
    /// Adapts nothing, as published.
    Published,
    /// Ours: counts as demanded if the request goes on where an earlier prefetch of that level ended, for then the application reads on there; else
    /// it adapts nothing.
    Onward,
}

/// PFC's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pfc {
    /// Whether it bypasses.
    pub bypass: bool,
    /// Whether it reads more.
    pub readmore: bool,
    /// What has one set of parameters.
    pub scope: Scope,
    /// What happens to requests that are larger than the mean.
    pub large: Large,
    /// Blocks of each queue, as a fraction of the level's capacity: 0.1.
    pub queue_fraction: f64,
    /// Largest `bypass_length`; none as published.
    pub bypass_max: Option<u32>,
}

impl Pfc {
    /// As published, in the reading of the reference.
    pub const PUBLISHED: Pfc = Pfc {
        bypass: true,
        readmore: true,
        scope: Scope::Level,
        large: Large::Literal,
        queue_fraction: 0.1,
        bypass_max: None,
    };
}

impl Pfc {
    /// Whether the numbers make sense.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(self.queue_fraction > 0.0 && self.queue_fraction <= 1.0) {
            return Err(ConfigError::QueueFraction { fraction: self.queue_fraction });
        }
        match self.large {
            Large::Text { factor } if !(factor > 0.0 && factor.is_finite()) => Err(ConfigError::Factor { factor }),
            _ => Ok(()),
        }
    }
}

/// What has one set of PFC's parameters. The queues and what is known of the cache are the level's in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The level, as published.
    Level,
    /// Each file, as the paper's future work asks.
    File,
    /// Each client, as the paper's future work asks.
    Client,
}

/// How Algorithm 2 treats a request that is larger than the mean, which code and text say differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Large {
    /// The code: larger than the mean and the level full, then `readmore_length = 0`, and on to the rest.
    Literal,
    /// The text: larger than `factor` of the mean and the level full, then the whole request is bypassed and nothing more
    /// read. The text's factor is 0.5.
    Text {
        /// Part of the mean.
        factor: f64,
    },
}

/// Why PFC cannot be had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// Queues of nothing or of more than the level.
    QueueFraction {
        /// What was asked for.
        fraction: f64,
    },
    /// A part of the mean that is no positive number.
    Factor {
        /// What was asked for.
        factor: f64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::QueueFraction { fraction } => {
                write!(f, "PFC's queues are {fraction} of the cache; set queue_fraction above 0 and at most 1")
            }
            ConfigError::Factor { factor } => {
                write!(f, "{factor} of the mean request is no size; set PFC's factor to a number above 0")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
