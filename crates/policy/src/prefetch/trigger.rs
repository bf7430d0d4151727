//! Where in what was prefetched the next prefetch is triggered: fixed, or shared out over streams by ETS or ESF.

mod esf;
mod ets;
mod rates;

pub use esf::esf;
pub use ets::ets;
pub(crate) use rates::Rates;

use crate::time::Time;

/// What sets the trigger distances `T`: a prefetch is due when no more than `T` blocks, the one being read included, are
/// prefetched and unread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// The prefetcher itself.
    Native,
    /// The same for all streams, always.
    Fixed {
        /// In blocks.
        distance: u32,
    },
    /// In proportion to the streams' rates (section 2, rule 3).
    Ets(Share),
    /// A cycle part by rate and a safety part by the rates' deviation (section 2, rule 4).
    Esf(Share),
}

/// How trigger distances are shared out over the active streams (section 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of a new stream, and what each active stream brings into the sum that is shared: 24.
    pub distance_default: u32,
    /// At least: 4.
    pub distance_min: u32,
    /// At most: 48.
    pub distance_max: u32,
    /// Whether what clamping takes from one stream is given to the others (A-04: no).
    pub redistribute: bool,
    /// Span after which a past rate counts 1/e: 1 s.
    pub time_constant: Time,
    /// Span between two samples of the rates: 100 ms.
    pub sample_period: Time,
    /// A stream that has not read for so long is not active: 1 s.
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
    /// Whether the numbers fit together.
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
