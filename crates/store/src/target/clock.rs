//! Time as the targets of one volume see it: real, or counted for deterministic tests.

use policy::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the volume was opened.
pub enum Clock {
    /// The machine's monotonic clock.
    Real(Instant),
    /// Moves by a microsecond with every look, so that what happens later is later, and by hand.
    Counted(AtomicU64),
}

impl Clock {
    pub fn real() -> Clock {
        Clock::Real(Instant::now())
    }

    pub fn counted() -> Clock {
        Clock::Counted(AtomicU64::new(0))
    }

    pub fn now(&self) -> Time {
        match self {
            Clock::Real(origin) => Time(origin.elapsed().as_nanos() as u64),
            Clock::Counted(ns) => Time(ns.fetch_add(1000, Ordering::Relaxed)),
        }
    }

    /// Moves a counted clock.
    pub fn advance(&self, span: Duration) {
        if let Clock::Counted(ns) = self {
            ns.fetch_add(span.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// A span as the policies see it.
pub fn time(span: Duration) -> Time {
    Time(span.as_nanos() as u64)
}
