//! The wall clock, with a check against jumps: a clock that is ahead would make all files and accounts look old.

use policy::Time;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Tolerated jump of the clock. A guess: more than any correction, less than any age in rules.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);

/// The wall clock, with its reading at the start of the daemon.
pub(super) struct Clock {
    /// Time since 1970, and time since boot, which cannot be set.
    started: (Duration, Duration),
}

impl Clock {
    pub fn new() -> Clock {
        Clock { started: read() }
    }

    /// The time, in the unit of files' times.
    ///
    /// # Errors
    /// The clock has jumped too far ahead.
    pub(super) fn now(&self) -> Result<Time, String> {
        believed(self.started, read()).map(|now| Time(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)))
    }
}

fn read() -> (Duration, Duration) {
    let since_boot = clock_gettime(ClockId::Boottime);
    let since_boot = Duration::new(since_boot.tv_sec.unsigned_abs(), u32::try_from(since_boot.tv_nsec).unwrap_or(0));
    (object::since_1970(), since_boot)
}

fn believed(started: (Duration, Duration), now: (Duration, Duration)) -> Result<Duration, String> {
    let expected = started.0 + now.1.saturating_sub(started.1);
    let ahead = now.0.saturating_sub(expected);
    if ahead <= AHEAD_MAX {
        return Ok(now.0);
    }
    Err(format!(
        "the clock was set forward by {} since the daemon started, and all files would seem that much older. If the \
         clock is right now (see `date`), restart the daemon",
        policy::units::show_span_s(ahead.as_secs())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_forward_is_not_believed() {
        let (day, at) = (AHEAD_MAX, |days: u32, since_boot: u32| (AHEAD_MAX * days, AHEAD_MAX * since_boot));
        assert_eq!(believed(at(20_000, 1), at(20_100, 101)), Ok(day * 20_100), "a hundred days went by");
        assert_eq!(believed(at(20_000, 1), at(20_002, 2)), Ok(day * 20_002), "a day is no matter");
        assert_eq!(believed(at(20_000, 1), at(19_000, 2)), Ok(day * 19_000), "back, files are young");
        let why = believed(at(20_000, 1), at(21_000, 2)).expect_err("years");
        assert!(why.contains("set forward by 999 d"), "{why}");
    }
}
