//! Configuration of the coordination between a level and the one above.

use crate::block::{ConfigError, Setting};

/// Coordinators of one level. Any combination works; the published ones are used one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordination {
    /// Use of the requests' `demand_len` (section 4.1).
    pub labels: Labels,
    /// Whether the level above sends its application's blocks as a request of their own, so that the answer waits for
    /// no prefetch. The upper level does this; set it there, too.
    pub early: bool,
    /// PFC in front of the level (section 4.2).
    pub pfc: Option<Pfc>,
    /// Whether blocks that were sent up are evicted first (section 4.3).
    pub du: bool,
    /// Whether our per-stream coordinator replaces the native prefetcher, as long as it is better; PFC is off then.
    pub adaptive: bool,
}

impl Coordination {
    /// No coordination at all.
    pub const NONE: Coordination =
        Coordination { labels: Labels::Ignored, early: false, pfc: None, du: false, adaptive: false };
    /// Demand labels only.
    pub const LABELS: Coordination = Coordination { labels: Labels::Published, ..Coordination::NONE };
    /// PFC as published, in the reading of the reference.
    pub const PFC: Coordination = Coordination { pfc: Some(Pfc::PUBLISHED), ..Coordination::NONE };
    /// Our per-stream coordinator.
    pub const ADAPTIVE: Coordination = Coordination { adaptive: true, ..Coordination::NONE };
    /// Our per-stream coordinator, with early requests from the level above.
    pub const EARLY: Coordination = Coordination { early: true, ..Coordination::ADAPTIVE };
    /// DU: exclusive caching.
    pub const DU: Coordination = Coordination { du: true, ..Coordination::NONE };

    /// Whether requests show which blocks only the upper level's prefetcher requests.
    pub(crate) fn knows_labels(&self) -> bool {
        self.early || self.labels != Labels::Ignored
    }
}

/// Treatment of blocks that only the upper level's prefetcher requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// They count as demanded: labels are ignored.
    Ignored,
    /// They adapt nothing, as published.
    Published,
    /// Ours: they count as demanded if the request continues an earlier prefetch of that level, since the application
    /// then reads on there. Otherwise they adapt nothing.
    Onward,
}

/// Parameters of PFC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pfc {
    /// Whether PFC bypasses.
    pub bypass: bool,
    /// Whether PFC reads more.
    pub readmore: bool,
    /// Scope of one set of parameters.
    pub scope: Scope,
    /// Treatment of requests that are larger than the mean.
    pub large: Large,
    /// Whether a hit in the readmore queue counts whatever is cached, as in the paper's prose. The printed code asks the
    /// queue only if no requested block is cached.
    pub prose: bool,
    /// Length of each queue in blocks, as a fraction of the level's capacity: 0.1.
    pub queue_fraction: f64,
    /// Largest `bypass_length`; `None` as published.
    pub bypass_max: Option<u32>,
}

impl Pfc {
    /// As published, in the reading of the reference.
    pub const PUBLISHED: Pfc = Pfc {
        bypass: true,
        readmore: true,
        scope: Scope::Level,
        large: Large::Literal,
        prose: false,
        queue_fraction: 0.1,
        bypass_max: None,
    };
}

impl Pfc {
    /// Checks the ranges of the numbers.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |why| Err(ConfigError::new(Setting::Coordination, why));
        let fraction = self.queue_fraction;
        if !(fraction > 0.0 && fraction <= 1.0) {
            return wrong(format!(
                "PFC's queues are {fraction} of the cache; set queue_fraction above 0 and at most 1"
            ));
        }
        match self.large {
            Large::Text { factor } if !(factor > 0.0 && factor.is_finite()) => {
                wrong(format!("{factor} of the mean request is no size; set PFC's factor to a number above 0"))
            }
            _ => Ok(()),
        }
    }
}

/// Scope of one set of PFC's parameters. The queues and the state of the cache belong to the level in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole level, as published.
    Level,
    /// Each file, as proposed in the paper's future work.
    File,
    /// Each client, as proposed in the paper's future work.
    Client,
}

/// Treatment of a request larger than the mean in Algorithm 2, where the paper's code and text differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Large {
    /// The code: if larger than the mean and the level is full, then `readmore_length = 0`; the rest follows.
    Literal,
    /// The text: if larger than `factor` times the mean and the level is full, the whole request is bypassed and
    /// nothing more read. The text's factor is 0.5.
    Text {
        /// Multiple of the mean.
        factor: f64,
    },
}
