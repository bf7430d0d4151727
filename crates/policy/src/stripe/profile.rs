//! What is asked of a file: requests by size, reads and writes apart, over a moving window of eight panes.
//!
//! Sizes fall into classes by powers of two, so that a few large requests beside many small ones are seen as what they are
//! and not as their mean. Who counts hands counts over now and then; nothing here is touched by a request.

use super::sensor::Reading;
use crate::time::Time;

/// Size classes: up to 4 KiB, up to 8 KiB, ... the last has no end.
pub const CLASSES: usize = 16;
const FIRST_POWER: u32 = 12;
const PANES: usize = 8;

/// The class of a request of so many bytes.
pub fn class_of(bytes: u64) -> usize {
    let power = u64::BITS - bytes.saturating_sub(1).leading_zeros();
    (power.saturating_sub(FIRST_POWER) as usize).min(CLASSES - 1)
}

/// Requests of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        *self = Count {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes: self.bytes + other.bytes,
        };
    }

    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Counts by class.
pub type Counts = [Count; CLASSES];

/// Requests of like size, as the model takes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Which size class.
    pub class: usize,
    /// Per second.
    pub rate: f64,
    /// Mean bytes.
    pub bytes: f64,
}

/// The window.
#[derive(Clone, Debug)]
pub struct Profile {
    pane: Time,
    panes: [Counts; PANES],
    present: u64,
    began: Time,
    last: Time,
}

impl Profile {
    /// A window that is `window` long (at least 8 ns).
    pub fn new(window: Time, now: Time) -> Profile {
        let pane = Time((window.0 / PANES as u64).max(1));
        let panes = [Counts::default(); PANES];
        Profile { pane, panes, present: now.0 / pane.0, began: now, last: now }
    }

    /// What was asked since the last time.
    pub fn add(&mut self, now: Time, counts: &Counts) {
        self.pass(now);
        let pane = &mut self.panes[self.present as usize % PANES];
        for (sum, more) in pane.iter_mut().zip(counts) {
            sum.add(*more);
        }
        if counts.iter().any(|count| count.requests() > 0) {
            self.last = now;
        }
    }

    /// When something was asked last.
    pub fn last(&self) -> Time {
        self.last
    }

    /// The sums of the window and its length in seconds.
    fn sums(&mut self, now: Time) -> (Counts, f64) {
        self.pass(now);
        let mut sums = Counts::default();
        for pane in &self.panes {
            sums.iter_mut().zip(pane).for_each(|(sum, more)| sum.add(*more));
        }
        // The present pane is not over, and at the start there was nothing before.
        let passed = Time(now.0 % self.pane.0 + (PANES as u64 - 1) * self.pane.0);
        (sums, passed.min(now.since(self.began)).as_secs_f64())
    }

    /// Requests by class; classes without any are left out.
    pub fn classes(&mut self, now: Time) -> Vec<Class> {
        let (sums, span) = self.sums(now);
        if span <= 0.0 {
            return Vec::new();
        }
        let of = |(class, count): (usize, &Count)| {
            let requests = count.requests() as f64;
            (requests > 0.0).then(|| Class { class, rate: requests / span, bytes: count.bytes as f64 / requests })
        };
        sums.iter().enumerate().filter_map(of).collect()
    }

    /// All classes together, and the share of writes.
    pub fn reading(&mut self, now: Time) -> (Reading, f64) {
        let (sums, span) = self.sums(now);
        let mut all = Count::default();
        sums.iter().for_each(|count| all.add(*count));
        let requests = all.requests() as f64;
        if requests == 0.0 || span <= 0.0 {
            return (Reading::default(), 0.0);
        }
        let reading = Reading { rate: requests / span, bytes: all.bytes as f64 / requests, under_way: 0 };
        (reading, all.writes as f64 / requests)
    }

    fn pass(&mut self, now: Time) {
        let present = now.0 / self.pane.0;
        for n in 1..=present.saturating_sub(self.present).min(PANES as u64) {
            self.panes[(self.present + n) as usize % PANES] = Counts::default();
        }
        self.present = self.present.max(present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_powers_of_two() {
        let classes = [0, 1, 4096, 4097, 8192, 32 << 10, 1 << 20, 1 << 40].map(class_of);
        assert_eq!(classes, [0, 0, 0, 1, 1, 3, 8, CLASSES - 1]);
    }

    #[test]
    fn a_mix_is_seen_as_a_mix_and_passes() {
        let mut profile = Profile::new(Time::from_secs(8), Time::ZERO);
        for second in 1..=8u64 {
            let mut counts = Counts::default();
            counts[class_of(4096)] = Count { reads: 90, writes: 10, bytes: 100 * 4096 };
            counts[class_of(1 << 20)] = Count { reads: 2, writes: 0, bytes: 2 << 20 };
            profile.add(Time::from_millis(second * 1000 - 500), &counts);
        }
        let classes = profile.classes(Time::from_millis(7999));
        assert_eq!(classes.len(), 2);
        assert!((classes[0].rate - 100.0).abs() < 0.1 && classes[0].bytes == 4096.0, "{classes:?}");
        assert!((classes[1].rate - 2.0).abs() < 0.01 && classes[1].bytes == f64::from(1 << 20));
        let (all, writes) = profile.reading(Time::from_millis(7999));
        assert!((all.rate - 102.0).abs() < 0.2 && (writes - 80.0 / 816.0).abs() < 1e-9);
        assert!(profile.classes(Time::from_secs(100)).is_empty());
        assert_eq!(profile.last(), Time::from_millis(7500));
    }
}
