//! Time as the targets of one volume see it: real, or counted for deterministic tests.
//!
//! A process that stands still (SIGSTOP, a suspended or starved machine) makes no progress for reasons of its own: a deadline counts from
//! when it went on. Whoever sleeps beside an operation notices, since its sleep took longer than it was to take.

use policy::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the volume was opened.
pub enum Clock {
    /// The machine's monotonic clock.
    Real {
        /// When the volume was opened.
        origin: Instant,
        /// When the process went on after it stood still the last time.
        went_on: AtomicU64,
    },
    /// Moves by a microsecond with every look, so that what happens later is later, and by hand.
    Counted(AtomicU64),
}

impl Clock {
    pub fn real() -> Clock {
        Clock::Real { origin: Instant::now(), went_on: AtomicU64::new(0) }
    }

    pub fn counted() -> Clock {
        Clock::Counted(AtomicU64::new(0))
    }

    pub fn now(&self) -> Time {
        match self {
            Clock::Real { origin, .. } => Time(origin.elapsed().as_nanos() as u64),
            Clock::Counted(ns) => Time(ns.fetch_add(1000, Ordering::Relaxed)),
        }
    }

    /// Sleeps beside an operation for at most that span.
    pub fn sleep_beside<T>(&self, span: Duration, deadline: Duration, sleep: impl FnOnce() -> T) -> T {
        let expected = self.now() + time(span + late(deadline));
        let slept = sleep();
        if let Clock::Real { went_on, .. } = self {
            let now = self.now();
            if now > expected {
                went_on.fetch_max(now.0, Ordering::Relaxed);
            }
        }
        slept
    }

    /// From when a deadline counts of what began then.
    pub fn counts_from(&self, began: Time) -> Time {
        match self {
            Clock::Real { went_on, .. } => began.max(Time(went_on.load(Ordering::Relaxed))),
            Clock::Counted(_) => began,
        }
    }

    /// Moves a counted clock.
    pub fn advance(&self, span: Duration) {
        if let Clock::Counted(ns) = self {
            ns.fetch_add(span.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// For how long one sleeps beside an operation with that deadline.
pub fn nap(deadline: Duration) -> Duration {
    (deadline / 8).max(Duration::from_millis(2))
}

/// A sleeper that is woken so much too late was stopped. Guesses: on a busy machine some hundred milliseconds are usual.
fn late(deadline: Duration) -> Duration {
    (deadline / 4).max(Duration::from_millis(500))
}

/// A span as the policies see it.
pub fn time(span: Duration) -> Time {
    Time(span.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(1);

    #[test]
    fn a_sleep_that_takes_too_long_begins_deadlines_anew() {
        let clock = Clock::real();
        let began = clock.now();
        clock.sleep_beside(Duration::from_secs(3600), DEADLINE, || ());
        clock.sleep_beside(Duration::ZERO, DEADLINE, || ());
        assert_eq!(clock.counts_from(began), began, "nobody was late");
        clock.sleep_beside(Duration::ZERO, DEADLINE, || std::thread::sleep(2 * late(DEADLINE)));
        let anew = clock.counts_from(began);
        assert!(anew > began && anew <= clock.now());
        let later = clock.now();
        assert_eq!(clock.counts_from(later), later);
    }
}
