//! The replicator copies versions on the capacity tier to the replica group, one at a time and beside demotion.
//!
//! ```text
//!   on the capacity tier --> R-order --> under way --> has its replica
//!                               ^            | failed
//!                               +-- pause ---+    1 s, 2 s, ... at most 10 min
//! ```
//! It never uses bandwidth that demotion counts on. Beside writers and demotions it copies at the rate that does not
//! slow writing (`Brmin`; at least 1/32 of full speed, so that it ends even if the device never rests). It copies at
//! full speed only while the device rests. A removed version is forgotten, even during its copy.
//!
//! Source: Sung, Table 5.1 (R-order) and section 5.2; pauses and pace are ours.

use super::control::Device;
use super::tables::Version;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pause after the first failure, doubled after each further one, and the longest pause. Guesses: a failed target is
/// replaced within minutes.
const PAUSE_MIN: Time = Time::from_secs(1);
const PAUSE_MAX: Time = Time::from_secs(600);
/// Divisor of full speed that gives the least rate. A guess.
const LEAST_SHARE: f64 = 32.0;

/// R-order, and the copies' failures.
#[derive(Clone, Debug, Default)]
pub struct Replicator {
    order: VecDeque<Version>,
    /// Failed versions, by the time of the next attempt.
    pauses: BTreeSet<(Time, Version)>,
    /// Number of failures of each.
    failures: BTreeMap<Version, u32>,
    /// The version being copied, and whether it is still wanted.
    under_way: Option<(Version, bool)>,
}

impl Replicator {
    /// Adds a version on the capacity tier that has no replica.
    pub fn lacks(&mut self, version: Version) {
        let known = self.order.contains(&version)
            || self.failures.contains_key(&version)
            || self.under_way == Some((version, true));
        if !known {
            self.order.push_back(version);
        }
    }

    /// Returns the next version to copy, if none is under way.
    pub fn next(&mut self, now: Time) -> Option<Version> {
        while let Some(&(at, version)) = self.pauses.first().filter(|(at, _)| *at <= now) {
            self.pauses.remove(&(at, version));
            self.order.push_back(version);
        }
        if self.under_way.is_some() {
            return None;
        }
        let version = self.order.pop_front()?;
        self.under_way = Some((version, true));
        Some(version)
    }

    /// Returns the time of the next retry, if no copy is under way.
    pub fn next_deadline(&self) -> Option<Time> {
        self.pauses.first().map(|(at, _)| *at).filter(|_| self.under_way.is_none())
    }

    /// Ends the current copy: its version has a replica, or needs none.
    pub fn done(&mut self) {
        if let Some((version, _)) = self.under_way.take() {
            self.failures.remove(&version);
        }
    }

    /// Ends the current copy as failed; it is retried.
    pub fn failed(&mut self, now: Time) {
        let Some((version, true)) = self.under_way.take() else { return };
        let failures = self.failures.entry(version).or_default();
        let pause = Time(PAUSE_MIN.0.saturating_mul(1 << (*failures).min(30))).min(PAUSE_MAX);
        *failures += 1;
        self.pauses.insert((now + pause, version));
    }

    /// Forgets removed versions.
    pub fn gone(&mut self, is_gone: impl Fn(Version) -> bool) {
        self.order.retain(|version| !is_gone(*version));
        self.pauses.retain(|(_, version)| !is_gone(*version));
        self.failures.retain(|version, _| !is_gone(*version));
        if let Some((version, wanted)) = &mut self.under_way {
            *wanted &= !is_gone(*version);
        }
    }

    /// Returns the number of versions without a replica, including the current one.
    pub fn lacking(&self) -> usize {
        self.order.len() + self.pauses.len() + usize::from(self.under_way.is_some())
    }
}

/// Returns the rate of copies in bytes per second. `busy`: an application writes or a demotion runs.
pub fn rate(device: &Device, busy: bool) -> f64 {
    if busy { device.demote_min.max(device.demote_idle / LEAST_SHARE) } else { device.demote_idle }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(number: u64) -> Version {
        Version { app: 1, number }
    }

    #[test]
    fn one_at_a_time_and_what_fails_comes_again_behind_the_others() {
        let (mut r, at) = (Replicator::default(), Time::from_secs);
        [1, 2, 2, 3].into_iter().for_each(|n| r.lacks(v(n)));
        assert_eq!((r.lacking(), r.next(at(0)), r.next(at(0))), (3, Some(v(1)), None));
        r.failed(at(0));
        assert_eq!(r.next(at(0)), Some(v(2)));
        r.done();
        // The second version is forgotten, and may be added again. The first is known.
        [1, 2].into_iter().for_each(|n| r.lacks(v(n)));
        assert_eq!(r.next(at(1)), Some(v(3)));
        r.done();
        assert_eq!(r.next(at(1)), Some(v(2)));
        r.done();
        assert_eq!((r.next(at(1)), r.lacking()), (Some(v(1)), 1));
    }

    #[test]
    fn pauses_grow_up_to_a_bound_and_end_with_success() {
        let mut r = Replicator::default();
        r.lacks(v(1));
        let (mut now, mut pauses) = (Time::ZERO, Vec::new());
        for _ in 0..40 {
            assert_eq!(r.next(now), Some(v(1)));
            r.failed(now);
            let at = r.pauses.first().expect("it comes again").0;
            pauses.push(at.since(now).0 / 1_000_000_000);
            assert_eq!(r.next(Time(at.0 - 1)), None);
            now = at;
        }
        assert_eq!(pauses[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert!(pauses[10..].iter().all(|pause| *pause == 600));
        r.next(now);
        r.done();
        r.lacks(v(1));
        r.next(now);
        r.failed(now);
        assert_eq!(r.pauses.first().expect("again").0.since(now), PAUSE_MIN);
    }

    #[test]
    fn what_is_gone_is_forgotten_also_while_it_is_copied() {
        let mut r = Replicator::default();
        (1..=3).for_each(|n| r.lacks(v(n)));
        r.next(Time::ZERO);
        r.gone(|version| version.number != 3);
        assert_eq!(r.next(Time::ZERO), None, "its copy has not ended");
        r.failed(Time::ZERO);
        assert_eq!((r.next(Time::ZERO), r.lacking()), (Some(v(3)), 1));
    }
}
