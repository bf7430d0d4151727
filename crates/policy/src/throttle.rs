//! Token bucket: the wait of each caller that moves bytes, so that a rate is kept.
//!
//! The bucket holds up to `burst` bytes and fills at `rate`. Taking more than its content is allowed and leaves a debt;
//! the caller waits until the debt is paid. So a piece larger than the burst needs no special case, and the rate holds
//! over any span. By `t` seconds after the start, at most `burst + rate * t` bytes have passed.
//!
//! Amounts are byte-nanoseconds in 128 bits, so that no call loses anything by rounding.

mod turns;

pub use turns::{Turn, Turns};

use crate::time::Time;

const NS_PER_SEC: i128 = 1_000_000_000;

/// State of a token bucket.
#[derive(Clone, Debug)]
pub struct Throttle {
    rate_bytes_per_sec: Option<u64>,
    burst_bytes: u64,
    /// Content, in bytes times nanoseconds per second; negative: debt.
    level: i128,
    filled_at: Time,
}

impl Throttle {
    /// Begins with a full bucket. A rate of `None` is no limit; a rate of 0 counts as 1 byte/s.
    pub fn new(rate_bytes_per_sec: Option<u64>, burst_bytes: u64, now: Time) -> Throttle {
        let level = i128::from(burst_bytes) * NS_PER_SEC;
        Throttle { rate_bytes_per_sec, burst_bytes, level, filled_at: now }
    }

    /// Takes `bytes`. Returns the time at which they may be moved: `now` if there is no debt.
    pub fn take(&mut self, now: Time, bytes: u64) -> Time {
        let Some(rate) = self.rate_bytes_per_sec else { return now };
        self.fill(now);
        self.level -= i128::from(bytes) * NS_PER_SEC;
        let rate = i128::from(rate.max(1));
        let wait_ns = (-self.level.min(0) + rate - 1) / rate;
        now + Time(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }

    /// Changes the rate from now on. Debt stays and is paid at the new rate.
    pub fn set_rate(&mut self, now: Time, rate_bytes_per_sec: Option<u64>) {
        self.fill(now);
        if rate_bytes_per_sec.is_none() {
            self.level = self.level.max(0);
        }
        self.rate_bytes_per_sec = rate_bytes_per_sec;
    }

    /// Rate in bytes per second; `None` is no limit.
    pub fn rate(&self) -> Option<u64> {
        self.rate_bytes_per_sec
    }

    fn fill(&mut self, now: Time) {
        let span = i128::from(now.since(self.filled_at).0);
        self.filled_at = self.filled_at.max(now);
        if let Some(rate) = self.rate_bytes_per_sec {
            let full = i128::from(self.burst_bytes) * NS_PER_SEC;
            self.level = (self.level + span * i128::from(rate.max(1))).min(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_is_free_then_the_rate_holds() {
        let mut t = Throttle::new(Some(100), 50, Time::ZERO);
        assert_eq!(t.take(Time::ZERO, 50), Time::ZERO);
        assert_eq!(t.take(Time::ZERO, 100), Time::from_secs(1));
        assert_eq!(t.take(Time::from_secs(1), 50), Time::from_millis(1500));
        let idle = Time::from_secs(900);
        assert_eq!(t.take(idle, 50), idle);
        assert_eq!(t.take(idle, 50), idle + Time::from_millis(500), "no more than the burst was saved up");
    }

    #[test]
    fn no_limit_never_waits_and_the_rate_can_change() {
        let mut t = Throttle::new(None, 0, Time::ZERO);
        assert_eq!(t.take(Time(7), u64::MAX), Time(7));
        t.set_rate(Time(7), Some(10));
        assert_eq!(t.take(Time(7), 10), Time(7) + Time::from_secs(1));
        t.set_rate(Time(7), Some(1_000));
        assert_eq!(t.take(Time(7), 0), Time(7) + Time::from_millis(10));
        t.set_rate(Time(7), None);
        assert_eq!(t.take(Time(8), 1 << 40), Time(8));
        assert_eq!(t.rate(), None);
    }

    #[test]
    fn a_rate_of_nothing_is_one_byte_per_second() {
        let mut t = Throttle::new(Some(0), 0, Time::ZERO);
        assert_eq!(t.take(Time::ZERO, 2), Time::from_secs(2));
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_and_never_needlessly_less(
            rate in 1u64..10_000_000_000,
            burst in 0u64..100_000_000,
            steps in prop::collection::vec((0u64..2_000_000_000, 0u64..50_000_000), 1..100),
        ) {
            let mut t = Throttle::new(Some(rate), burst, Time::ZERO);
            let (mut now, mut taken) = (Time::ZERO, 0u128);
            let mut waited = false;
            for (idle, bytes) in steps {
                now = now + Time(idle);
                let at = t.take(now, bytes);
                prop_assert!(at >= now);
                taken += u128::from(bytes);
                // In nanoseconds: everything taken so far fits under the line burst + rate * t.
                let allowed = u128::from(burst) * 1_000_000_000 + u128::from(rate) * u128::from(at.0);
                prop_assert!(taken * 1_000_000_000 <= allowed);
                waited |= at > now;
                if waited && idle == 0 && at > now {
                    // One nanosecond earlier the debt was not yet paid.
                    let mut early = t.clone();
                    prop_assert_eq!(early.take(Time(at.0 - 1), 0), at);
                }
                now = at;
            }
        }
    }
}
