//! Between real time and the emulated device's time.

use policy::time::Time;
use std::time::Duration;

/// How many times faster than real time the emulated device's time runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace(f64);

impl Pace {
    /// `speedup` times faster; `None` unless it is a number above 0.
    pub fn new(speedup: f64) -> Option<Pace> {
        (speedup.is_finite() && speedup > 0.0).then_some(Pace(speedup))
    }

    /// The device's time after `real` has passed.
    pub fn device_time(self, real: Duration) -> Time {
        Time((real.as_nanos() as f64 * self.0) as u64)
    }

    /// How much real time passes until the device's time is `at`; never rounded down, so that nothing is done early.
    pub fn real(self, at: Time) -> Duration {
        Duration::from_nanos((at.0 as f64 / self.0).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_faster_means_a_tenth_of_the_wait() {
        let pace = Pace::new(10.0).unwrap();
        assert_eq!(pace.real(Time::from_millis(8)), Duration::from_micros(800));
        assert_eq!(pace.device_time(Duration::from_micros(800)), Time::from_millis(8));
        assert_eq!(pace.real(Time(1)), Duration::from_nanos(1));
        assert!([0.0, -1.0, f64::NAN, f64::INFINITY].into_iter().all(|wrong| Pace::new(wrong).is_none()));
    }
}
