//! Position in the prefetched blocks at which the next prefetch starts: fixed, or distributed over streams by ETS or
//! ESF.

mod esf;
mod ets;
mod rates;

pub use esf::esf;
pub use ets::ets;
pub(crate) use rates::Rates;

use crate::time::Time;

/// Source of the trigger distances `T`: a prefetch is due when at most `T` blocks, including the one being read, are
/// prefetched and unread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// The prefetcher's own distances.
    Native,
    /// One constant distance for all streams.
    Fixed {
        /// Distance in blocks.
        distance: u32,
    },
    /// Distances in proportion to the streams' rates (section 2, rule 3).
    Ets(Share),
    /// A cycle part by rate and a safety part by the rates' deviation (section 2, rule 4).
    Esf(Share),
}

/// Parameters for distributing trigger distances over the active streams (section 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Distance of a new stream, and contribution of each active stream to the shared sum: 24.
    pub distance_default: u32,
    /// Smallest distance: 4.
    pub distance_min: u32,
    /// Largest distance: 48.
    pub distance_max: u32,
    /// Whether distance cut off by clamping goes to the other streams (A-04: no).
    pub redistribute: bool,
    /// Time after which a past rate counts 1/e: 1 s.
    pub time_constant: Time,
    /// Interval of samples of the rates: 100 ms.
    pub sample_period: Time,
    /// Time without a read after which a stream is inactive: 1 s.
    pub active_period: Time,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            distance_default: 24,
            distance_min: 4,
            distance_max: 48,
            redistribute: false,
            time_constant: Time::from_secs(1),
            sample_period: Time::from_millis(100),
            active_period: Time::from_secs(1),
        }
    }
}

impl Share {
    /// Whether the parameters are consistent.
    pub(crate) fn is_valid(&self) -> bool {
        self.distance_min >= 1
            && self.distance_min <= self.distance_max
            && self.sample_period > Time::ZERO
            && self.time_constant > Time::ZERO
    }

    fn bounds(&self) -> (f64, f64) {
        (f64::from(self.distance_min), f64::from(self.distance_max))
    }
}
