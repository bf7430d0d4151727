//! Rate limiter of copies: holds the mover to the buffer's rate, even if the rate changes during a wait.

use crate::{Error, Result};
use engine::mover::Pace;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::throttle::Throttle;
use std::time::{Duration, Instant};

/// Bytes that may be copied at once before the limit takes effect: one step of copying.
const BURST_BYTES: u64 = 1 << 20;
/// A rate above this is no limit, in bytes per second.
const NO_LIMIT: f64 = 1e12;

/// A token bucket whose waiters are woken by changes of its rate.
pub struct RateLimiter {
    state: Mutex<Inner>,
    changed: Condvar,
    began: Instant,
}

struct Inner {
    bucket: Throttle,
    shut: bool,
    stopped: bool,
}

impl Default for RateLimiter {
    fn default() -> RateLimiter {
        let bucket = Throttle::new(None, BURST_BYTES, Time::ZERO);
        RateLimiter {
            state: Mutex::new(Inner { bucket, shut: false, stopped: false }),
            changed: Condvar::new(),
            began: Instant::now(),
        }
    }
}

impl RateLimiter {
    /// Sets the rate in bytes per second; 0 stops the copies.
    pub fn set(&self, rate: f64) {
        let mut state = self.state.lock();
        state.shut = rate <= 0.0;
        let now = self.now();
        state.bucket.set_rate(now, (rate < NO_LIMIT).then_some(rate as u64));
        self.changed.notify_all();
    }

    /// Ends all waits with `Busy`, for good.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }
}

impl Pace for RateLimiter {
    fn take(&self, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        let mut asked = bytes;
        loop {
            if state.stopped {
                return Err(Error::Busy("the burst buffer is stopped".into()));
            }
            if state.shut {
                self.changed.wait(&mut state);
                continue;
            }
            let now = self.now();
            let at = state.bucket.take(now, std::mem::take(&mut asked));
            if at <= now {
                return Ok(());
            }
            self.changed.wait_for(&mut state, Duration::from_nanos(at.since(now).0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_waits_hears_of_a_change_and_of_the_end() {
        let limiter = Arc::new(RateLimiter::default());
        limiter.take(1 << 40).unwrap();
        limiter.set(0.0);
        let other = limiter.clone();
        let waits = std::thread::spawn(move || other.take(10 << 20));
        limiter.set(2e12);
        assert!(waits.join().unwrap().is_ok(), "opened");
        limiter.set(1.0);
        let other = limiter.clone();
        let waits = std::thread::spawn(move || other.take(1 << 30));
        limiter.stop();
        assert!(matches!(waits.join().unwrap(), Err(Error::Busy(_))));
    }
}
