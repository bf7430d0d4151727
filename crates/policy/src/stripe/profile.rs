//! Load of a file: requests by size, reads and writes apart, over a moving window of eight panes.
//!
//! Size classes are powers of two, so that a few large requests beside many small ones are visible, and not averaged.
//! Drivers report their counts now and then; no request touches this state.

use crate::time::Time;

/// Number of size classes: up to 4 KiB, up to 8 KiB, ...; the last has no upper bound.
pub const CLASSES: usize = 16;
const FIRST_POWER: u32 = 12;
const PANES: usize = 8;
/// Share of requests of hardly seen sizes, in each of the newest panes, that counts as a change of load. A guess.
const TURNED: f64 = 0.8;
/// Number of newest panes that must show the change, and least requests in each.
const TURN_PANES: usize = 2;
const TURN_REQUESTS: f64 = 2.0;

/// Returns the class of a request of `bytes` bytes.
pub fn class_of(bytes: u64) -> usize {
    let power = u64::BITS - bytes.saturating_sub(1).leading_zeros();
    (power.saturating_sub(FIRST_POWER) as usize).min(CLASSES - 1)
}

/// Requests of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes of reads and writes.
    pub bytes: u64,
}

impl Count {
    /// Adds requests and bytes of another count.
    pub fn add(&mut self, other: Count) {
        *self = Count {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes: self.bytes + other.bytes,
        };
    }

    /// Returns the number of reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Load over all sizes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Requests per second.
    pub rate: f64,
    /// Mean bytes of a request; 0 without requests.
    pub bytes: f64,
}

/// Counts of all size classes.
pub type Counts = [Count; CLASSES];

/// Requests of similar size, as input of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number of the size class.
    pub class: usize,
    /// Requests per second.
    pub rate: f64,
    /// Mean bytes of a request.
    pub bytes: f64,
}

/// The moving window of one load.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    window: Time,
    pane: Time,
    panes: [Pane; PANES],
    present: u64,
    /// Time of the last report; the next report covers the time since.
    told: Time,
    last: Time,
    /// Time of the last detected change of load.
    turned: Option<Time>,
}

/// Contents of a window at one moment.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    counts: Box<Counts>,
    /// Time in which they were counted, in seconds.
    span_s: f64,
}

impl Seen {
    /// Returns the requests by class, without empty classes.
    pub fn classes(&self) -> Vec<Class> {
        if self.span_s <= 0.0 {
            return Vec::new();
        }
        let of = |(class, count): (usize, &Count)| {
            let requests = count.requests() as f64;
            (requests > 0.0).then(|| Class {
                class,
                rate: requests / self.span_s,
                bytes: count.bytes as f64 / requests,
            })
        };
        self.counts.iter().enumerate().filter_map(of).collect()
    }

    /// Returns the number of requests, which bounds the precision of their rate.
    pub fn requests(&self) -> u64 {
        self.counts.iter().map(Count::requests).sum()
    }

    /// Returns the load of all classes together, and the share of writes.
    pub fn reading(&self) -> (Reading, f64) {
        let mut all = Count::default();
        self.counts.iter().for_each(|count| all.add(*count));
        let requests = all.requests() as f64;
        if requests == 0.0 || self.span_s <= 0.0 {
            return (Reading::default(), 0.0);
        }
        let reading = Reading { rate: requests / self.span_s, bytes: all.bytes as f64 / requests };
        (reading, all.writes as f64 / requests)
    }

    /// Returns the request size in which most bytes are transferred: half of all bytes are in requests of its class or
    /// smaller ones. Unlike the mean, which no request may have, it ignores a few odd requests beside many equal ones.
    pub fn typical_bytes(&self) -> f64 {
        let all: u64 = self.counts.iter().map(|count| count.bytes).sum();
        let mut below = 0;
        let typical = self.counts.iter().find(|count| {
            below += count.bytes;
            count.requests() > 0 && 2 * below >= all
        });
        typical.map_or(0.0, |count| count.bytes as f64 / count.requests() as f64)
    }
}

/// A part of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Pane {
    counts: Counts,
    /// Start of the count of its first requests; `None` if it is empty.
    since: Option<Time>,
}

impl Profile {
    /// Makes a window that is `window` long (at least 8 ns); its first report covers the time since `now`.
    pub fn new(window: Time, now: Time) -> Profile {
        let pane = Time((window.0 / PANES as u64).max(1));
        Profile {
            window,
            pane,
            panes: [Pane::default(); PANES],
            present: now.0 / pane.0,
            told: now,
            last: now,
            turned: None,
        }
    }

    /// Adds the requests since the last report.
    pub fn add(&mut self, now: Time, counts: &Counts) {
        self.pass(now);
        let pane = &mut self.panes[self.present as usize % PANES];
        // After a pause the pane covers the pause, but at most one window of it.
        pane.since.get_or_insert(self.told.max(Time(now.0.saturating_sub(self.window.0))));
        for (sum, more) in pane.counts.iter_mut().zip(counts) {
            sum.add(*more);
        }
        self.told = now;
        if counts.iter().any(|count| count.requests() > 0) {
            self.last = now;
        }
        self.look_for_a_turn(now);
    }

    /// Forgets the load before a change, since a window with both loads describes neither. If the load had changed
    /// within the last window, it alternates, and then the mixture counts.
    fn look_for_a_turn(&mut self, now: Time) {
        let told: Vec<usize> = (0..PANES as u64)
            .map(|back| ((self.present + PANES as u64 - back) % PANES as u64) as usize)
            .filter(|&at| self.panes[at].since.is_some())
            .collect();
        let (newest, older) = told.split_at(told.len().min(TURN_PANES));
        let requests = |panes: &[usize]| {
            let mut by_class = [0.0; CLASSES];
            for count in panes.iter().flat_map(|&at| self.panes[at].counts.iter().enumerate()) {
                by_class[count.0] += count.1.requests() as f64;
            }
            (by_class, by_class.iter().sum::<f64>())
        };
        let (old, before) = requests(older);
        let is_another = |at: &usize| {
            let (new, many) = requests(&[*at]);
            let apart = new.iter().zip(&old).map(|(new, old)| (new / many - old / before).abs()).sum::<f64>() / 2.0;
            many >= TURN_REQUESTS && apart >= TURNED
        };
        if before == 0.0 || !newest.iter().all(is_another) {
            return;
        }
        let earlier = self.turned.replace(now);
        if earlier.is_none_or(|earlier| now.since(earlier) > self.window) {
            // The change lies within the first of the new panes, so that pane has no valid rate.
            told.into_iter().skip(TURN_PANES - 1).for_each(|at| self.panes[at] = Pane::default());
        }
    }

    /// Returns the time of the last request.
    pub fn last(&self) -> Time {
        self.last
    }

    /// Returns the contents of the window.
    pub fn look(&mut self, now: Time) -> Seen {
        self.pass(now);
        let mut counts = Box::<Counts>::default();
        for pane in &self.panes {
            counts.iter_mut().zip(&pane.counts).for_each(|(sum, more)| sum.add(*more));
        }
        // Requests are reported some time after they were made: the oldest precede their pane.
        let since = self.panes.iter().filter_map(|pane| pane.since).min().unwrap_or(now);
        Seen { counts, span_s: now.since(since).as_secs_f64() }
    }

    fn pass(&mut self, now: Time) {
        let present = now.0 / self.pane.0;
        for n in 1..=present.saturating_sub(self.present).min(PANES as u64) {
            self.panes[(self.present + n) as usize % PANES] = Pane::default();
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
        let classes = profile.look(Time::from_millis(7999)).classes();
        assert_eq!(classes.len(), 2);
        assert!((classes[0].rate - 100.0).abs() < 0.1 && classes[0].bytes == 4096.0, "{classes:?}");
        assert!((classes[1].rate - 2.0).abs() < 0.01 && classes[1].bytes == f64::from(1 << 20));
        let (all, writes) = profile.look(Time::from_millis(7999)).reading();
        assert!((all.rate - 102.0).abs() < 0.2 && (writes - 80.0 / 816.0).abs() < 1e-9);
        assert!(profile.look(Time::from_secs(100)).classes().is_empty());
        assert_eq!(profile.last(), Time::from_millis(7500));
    }

    #[test]
    fn the_typical_size_is_one_that_is_asked_for_whatever_comes_beside() {
        let mut profile = Profile::new(Time::from_secs(8), Time::ZERO);
        assert_eq!(profile.look(Time::ZERO).typical_bytes(), 0.0);
        let mut counts = Counts::default();
        // A file of 1 MiB blocks that was written from a buffer between two pages, and then read.
        counts[class_of(4096)] = Count { reads: 0, writes: 16, bytes: 16 * 4096 };
        counts[class_of(1020 << 10)] = Count { reads: 0, writes: 16, bytes: 16 * (1020 << 10) };
        counts[class_of(1 << 20)].add(Count { reads: 8, writes: 0, bytes: 8 << 20 });
        profile.add(Time::from_secs(1), &counts);
        let seen = profile.look(Time::from_secs(1));
        assert!(seen.reading().0.bytes < f64::from(700 << 10), "the mean is nobody's: {seen:?}");
        assert!(seen.typical_bytes() > f64::from(1000 << 10), "{seen:?}");
    }

    #[test]
    fn the_rate_is_right_however_often_it_is_told() {
        for (window_ms, every_ms) in [(4000, 500), (2000, 500), (10_000, 1000), (1000, 900), (8000, 100)] {
            let mut profile = Profile::new(Time::from_millis(window_ms), Time::ZERO);
            let mut counts = Counts::default();
            counts[3] = Count { reads: every_ms / 10, writes: 0, bytes: every_ms / 10 * 32_768 };
            for n in 1..=50 {
                let now = Time::from_millis(n * every_ms);
                profile.add(now, &counts);
                let rate = profile.look(now).classes()[0].rate;
                assert!((rate - 100.0).abs() < 1e-6, "{rate} in look {n}, every {every_ms} of {window_ms} ms");
            }
        }
    }

    #[test]
    fn the_rate_is_right_also_when_the_load_turns_between_two_looks() {
        let mut profile = Profile::new(Time::from_secs(2), Time::ZERO);
        let counts = |large: u64, small: u64| {
            let mut counts = Counts::default();
            counts[8] = Count { reads: large, writes: 0, bytes: large << 20 };
            counts[3] = Count { reads: small, writes: 0, bytes: small << 15 };
            counts
        };
        (1..=8).for_each(|n| profile.add(Time::from_millis(n * 500), &counts(4, 0)));
        // The load changes 400 ms into the interval: 100 ms of 200 per second.
        for (n, told) in [(9, counts(3, 20)), (10, counts(0, 100)), (11, counts(0, 100))] {
            profile.add(Time::from_millis(n * 500), &told);
        }
        let now = Time::from_millis(5500);
        let classes = profile.look(now).classes();
        assert_eq!((classes.len(), classes[0].class, profile.look(now).requests()), (1, 3, 200), "{classes:?}");
        assert!((classes[0].rate - 200.0).abs() < 1e-6, "{classes:?}");
    }

    #[test]
    fn what_was_before_a_turn_of_the_load_is_forgotten_unless_it_goes_to_and_fro() {
        let mut profile = Profile::new(Time::from_secs(8), Time::ZERO);
        let mut second = 0;
        let mut run = |seconds: u64, class: usize, reads: u64| {
            for _ in 0..seconds {
                second += 1;
                let mut counts = Counts::default();
                counts[class] = Count { reads, writes: 0, bytes: reads << (class + 12) };
                profile.add(Time::from_secs(second), &counts);
            }
            let now = Time::from_secs(second);
            profile.look(now).classes().iter().map(|of| (of.class, of.rate.round() as u64)).collect::<Vec<_>>()
        };
        assert_eq!(run(20, 3, 200), [(3, 200)]);
        assert_eq!(run(1, 8, 8).len(), 2, "one second may be anything");
        assert_eq!(run(1, 8, 8), [(8, 8)], "two are another load, and its rate is right at once");
        assert_eq!(run(20, 8, 8), [(8, 8)]);
        assert_eq!(run(2, 3, 200), [(3, 200)]);
        // The load alternates every two seconds.
        for _ in 0..10 {
            run(2, 8, 8);
            assert_eq!(run(2, 3, 200).len(), 2, "both count");
        }
    }
}
