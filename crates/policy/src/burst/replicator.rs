//! The replicator: what has come to the capacity tier and lacks its replica is copied to the replica group, one version at a
//! time and beside demotion.
//!
//! ```text
//!   on the capacity tier --> R-order --> under way --> has its replica
//!                               ^            | failed
//!                               +-- pause ---+    1 s, 2 s, ... at most 10 min
//! ```
//! It never takes what demotion plans with: beside writers and beside a demotion it copies as fast as reading costs writing
//! nothing (`Brmin`; at least a 32nd part of full speed, so that it ends where nothing ever rests), and at full speed only
//! while the device rests. A version that its owner removes is forgotten, also while
//! it is being copied.
//!
//! Source: Sung, Table 5.1 (R-order) and section 5.2; pauses and pace are ours.

use super::control::Device;
use super::tables::Version;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The pause after the first failure, doubled after each further one, and the longest. Guesses: a target that was replaced
/// is there within minutes.
const PAUSE_MIN: Time = Time::from_secs(1);
const PAUSE_MAX: Time = Time::from_secs(600);
/// The least part of full speed. A guess.
const LEAST_SHARE: f64 = 32.0;

/// R-order, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Replicator {
    order: VecDeque<Version>,
    /// What failed, by when it is tried again.
    pauses: BTreeSet<(Time, Version)>,
    /// How often each of them has failed.
    failures: BTreeMap<Version, u32>,
    /// What is being copied, and whether it is still wanted.
    under_way: Option<(Version, bool)>,
}

impl Replicator {
    /// A version is on the capacity tier and has no replica.
    pub fn lacks(&mut self, version: Version) {
        let known = self.order.contains(&version)
            || self.failures.contains_key(&version)
            || self.under_way == Some((version, true));
        if !known {
            self.order.push_back(version);
        }
    }

    /// The next one to copy, if none is under way.
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

    /// When the next one is tried again, if none is under way.
    pub fn next_deadline(&self) -> Option<Time> {
        self.pauses.first().map(|(at, _)| *at).filter(|_| self.under_way.is_none())
    }

    /// The one under way has its replica, or needs none.
    pub fn done(&mut self) {
        if let Some((version, _)) = self.under_way.take() {
            self.failures.remove(&version);
        }
    }

    /// The one under way could not be copied: it is tried again.
    pub fn failed(&mut self, now: Time) {
        let Some((version, true)) = self.under_way.take() else { return };
        let failures = self.failures.entry(version).or_default();
        let pause = Time(PAUSE_MIN.0.saturating_mul(1 << (*failures).min(30))).min(PAUSE_MAX);
        *failures += 1;
        self.pauses.insert((now + pause, version));
    }

    /// Versions that are there no more.
    pub fn gone(&mut self, is_gone: impl Fn(Version) -> bool) {
        self.order.retain(|version| !is_gone(*version));
        self.pauses.retain(|(_, version)| !is_gone(*version));
        self.failures.retain(|version, _| !is_gone(*version));
        if let Some((version, wanted)) = &mut self.under_way {
            *wanted &= !is_gone(*version);
        }
    }

    /// Versions that lack their replica, the one under way among them.
    pub fn lacking(&self) -> usize {
        self.order.len() + self.pauses.len() + usize::from(self.under_way.is_some())
    }
}

/// How fast to copy, in bytes per second, while somebody writes or a demotion runs, or while neither does.
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
        // The second is known no more, and may lack it once again; the first is known.
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
