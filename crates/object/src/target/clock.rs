//! Time of the targets of one volume: real, or counted for deterministic tests.
//!
//! A process may stand still for reasons of its own: SIGSTOP, a suspended or starved machine. A deadline then counts
//! from the time at which it went on. The thread that sleeps beside an operation detects this, since it slept longer
//! than requested.

use policy::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the volume was opened.
pub enum Clock {
    /// The machine's monotonic clock.
    Real {
        /// Time of the volume's opening.
        origin: Instant,
        /// Time at which the process last went on after it stood still.
        went_on: AtomicU64,
    },
    /// Clock that advances by a microsecond with every reading, so that times differ, and by [`Clock::advance`].
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

    /// Sleeps beside an operation for at most `span`.
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

    /// Start of the deadline of an operation that began at `began`.
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

/// Longest sleep beside an operation with that deadline.
pub fn nap(deadline: Duration) -> Duration {
    (deadline / 8).max(Duration::from_millis(2))
}

/// Delay of a wake-up that proves a stop of the process. Guesses: on a busy machine some hundred milliseconds are
/// usual.
fn late(deadline: Duration) -> Duration {
    (deadline / 4).max(Duration::from_millis(500))
}

/// Converts to the policies' type.
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
        let start = clock.counts_from(began);
        assert!(start > began && start <= clock.now());
        let later = clock.now();
        assert_eq!(clock.counts_from(later), later);
    }
}
