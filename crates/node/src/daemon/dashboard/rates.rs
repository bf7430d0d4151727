//! Rates of the last quarter of an hour, for the dashboard.
//!
//! A glance at the volume takes a sample of the counters, at most every five seconds; nothing runs between glances. A
//! rate is the mean between two samples, also where no glance was for minutes.

use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Time that the samples cover.
const SPAN: Duration = Duration::from_secs(900);
/// Minimum interval of samples, which bounds their number to 181.
const EVERY: Duration = Duration::from_secs(5);

/// Bytes since the daemon started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub read: u64,
    pub written: u64,
    pub staged: u64,
}

/// Bytes per second between two times, which are given by their age in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    pub from_s: u64,
    pub to_s: u64,
    pub read_bytes_s: u64,
    pub written_bytes_s: u64,
    pub staged_bytes_s: u64,
}

/// The samples, each with the time since the daemon started.
#[derive(Default)]
pub struct History(Mutex<VecDeque<(Duration, Counts)>>);

impl History {
    /// Takes a sample if one is due, and returns the rates, oldest first.
    pub fn sample(&self, now: Duration, counts: Counts) -> Vec<Rate> {
        let mut samples = self.0.lock();
        if samples.back().is_none_or(|(at, _)| now >= *at + EVERY) {
            samples.push_back((now, counts));
        }
        while samples.front().is_some_and(|(at, _)| *at + SPAN < now) {
            samples.pop_front();
        }
        let rate = |((from, before), (to, after)): (&(Duration, Counts), &(Duration, Counts))| {
            let per_s = |before, after: u64| (after.saturating_sub(before) as f64 / (*to - *from).as_secs_f64()) as u64;
            Rate {
                from_s: now.saturating_sub(*from).as_secs(),
                to_s: now.saturating_sub(*to).as_secs(),
                read_bytes_s: per_s(before.read, after.read),
                written_bytes_s: per_s(before.written, after.written),
                staged_bytes_s: per_s(before.staged, after.staged),
            }
        };
        samples.iter().zip(samples.iter().skip(1)).map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// [S-425]
    #[test]
    fn a_rate_is_the_mean_between_two_glances() {
        let history = History::default();
        let read = |bytes| Counts { read: bytes, ..Counts::default() };
        assert!(history.sample(s(100), read(7_000)).is_empty());
        assert!(history.sample(s(104), read(9_000)).is_empty(), "no sample is due");
        let rates = history.sample(s(105), Counts { written: 10, ..read(12_000) });
        assert!(matches!(rates[..], [Rate { from_s: 5, to_s: 0, read_bytes_s: 1000, written_bytes_s: 2, .. }]));
        let rates = history.sample(s(705), read(12_600));
        let ages = |rates: &[Rate]| rates.iter().map(|rate| (rate.from_s, rate.to_s)).collect::<Vec<_>>();
        assert_eq!(ages(&rates), [(605, 600), (600, 0)]);
        assert_eq!((rates[1].read_bytes_s, rates[1].written_bytes_s), (1, 0), "a counter that falls is no rate");
        assert!(history.sample(s(2000), read(12_600)).is_empty(), "all before is too old");
    }

    #[test]
    fn samples_are_bounded() {
        let history = History::default();
        let count = (0..10_000).map(|at| history.sample(s(at), Counts::default()).len()).max();
        assert_eq!(count, Some(180));
    }
}
