//! Conversion between real time and the emulated device's time.

use policy::time::Time;
use std::time::Duration;

/// Speed of the emulated device's time relative to real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace(f64);

impl Pace {
    /// Returns a pace of `speedup` times real time; `None` unless that is a number above 0.
    pub fn new(speedup: f64) -> Option<Pace> {
        (speedup.is_finite() && speedup > 0.0).then_some(Pace(speedup))
    }

    /// Converts real time to the device's time.
    pub fn device_time(self, real: Duration) -> Time {
        Time((real.as_nanos() as f64 * self.0) as u64)
    }

    /// Converts the device's time to real time, rounded up, so that nothing completes early.
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
