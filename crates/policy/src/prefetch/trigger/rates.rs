//! Samples the rate of each sequential stream and its deviation, and sets trigger distances by them.
//!
//! A read counts if it continues the stream's last one. Random readers are excluded from the shared budget: they add
//! nothing to the sum and get nothing of it.
//!
//! The rate is that of a sampling window, smoothed exponentially; the deviation is the smoothed standard deviation of
//! the windows' rates. Each event takes the samples of all windows that have passed since. So no clock and no timer are
//! needed, and the result does not depend on the times of the calls.

use super::{Share, Trigger, esf, ets};
use crate::block::{Block, Span};
use crate::time::Time;

#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    /// Block that would continue the stream.
    expected: Block,
    /// Blocks read in this window.
    count: u64,
    blocks_per_sec: f64,
    variance: f64,
    /// Whether a window was sampled since the stream became active.
    sampled: bool,
    active: bool,
    read_at: Time,
    distance: u32,
    exact: f64,
}

impl Rate {
    /// State of an inactive stream.
    fn idle(expected: Block, share: &Share) -> Rate {
        Rate { expected, distance: share.distance_default, ..Rate::default() }
    }
}

/// Rates of all streams.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    trigger: Trigger,
    share: Share,
    rates: Vec<Rate>,
    active: Vec<u32>,
    sample_at: Option<Time>,
    fetch_secs: Option<f64>,
}

impl Rates {
    /// Rates for a trigger that distributes distances; `None` for any other.
    pub(crate) fn new(trigger: Trigger) -> Option<Rates> {
        let (Trigger::Ets(share) | Trigger::Esf(share)) = trigger else { return None };
        Some(Rates { trigger, share, rates: Vec::new(), active: Vec::new(), sample_at: None, fetch_secs: None })
    }

    /// Records a read of a stream; `fresh` for a new state. After a jump a stream has the default distance.
    pub(crate) fn read(&mut self, now: Time, stream: usize, fresh: bool, span: Span) {
        self.sample(now);
        let share = &self.share;
        let idle = Rate::idle(Block::new(span.first.file(), 0), share);
        if stream >= self.rates.len() {
            self.rates.resize(stream + 1, idle);
        }
        if fresh {
            self.active.retain(|&other| other as usize != stream);
            self.rates[stream] = idle;
        }
        let rate = &mut self.rates[stream];
        // Consecutive requests that end or begin within a block share it.
        let shares_the_last = span.first.plus(1) == rate.expected && span.end() > rate.expected;
        let goes_on = span.first == rate.expected || shares_the_last;
        rate.expected = span.end();
        if !goes_on {
            (rate.distance, rate.exact) = (share.distance_default, f64::from(share.distance_default));
            return;
        }
        if !rate.active {
            let exact = f64::from(share.distance_default);
            *rate = Rate { active: true, exact, ..Rate::idle(rate.expected, share) };
            self.active.push(stream as u32);
        }
        rate.count += u64::from(span.len);
        rate.read_at = now;
        self.sample_at.get_or_insert(now + share.sample_period);
    }

    /// Records the duration of a prefetch.
    pub(crate) fn fetched(&mut self, span: Time) {
        // Each new sample has a weight of 1/8, as in TCP's round-trip times.
        let secs = span.as_secs_f64();
        self.fetch_secs = Some(self.fetch_secs.map_or(secs, |smoothed| smoothed + (secs - smoothed) / 8.0));
    }

    /// Trigger distance of a stream that has read.
    pub(crate) fn distance(&self, stream: usize) -> u32 {
        self.rates[stream].distance
    }

    /// Unrounded distance, and rate, of a stream; zeros if it never read.
    pub(crate) fn state(&self, stream: usize) -> (f64, f64) {
        self.rates.get(stream).map_or((0.0, 0.0), |rate| (rate.exact, rate.blocks_per_sec))
    }

    fn sample(&mut self, now: Time) {
        while let Some(at) = self.sample_at.filter(|at| *at <= now) {
            self.window(at);
            self.sample_at = (!self.active.is_empty()).then(|| at + self.share.sample_period);
        }
    }

    fn window(&mut self, at: Time) {
        let period = self.share.sample_period.as_secs_f64();
        let weight = 1.0 - (-period / self.share.time_constant.as_secs_f64()).exp();
        let Rates { rates, active, share, .. } = self;
        active.retain(|&stream| {
            let rate = &mut rates[stream as usize];
            let sample = rate.count as f64 / period;
            rate.count = 0;
            if rate.sampled {
                let off = sample - rate.blocks_per_sec;
                rate.blocks_per_sec += weight * off;
                rate.variance = (1.0 - weight) * (rate.variance + weight * off * off);
            } else {
                rate.sampled = true;
                rate.blocks_per_sec = sample;
            }
            rate.active = at.since(rate.read_at) <= share.active_period;
            if !rate.active {
                *rate = Rate::idle(rate.expected, share);
            }
            rate.active
        });
        self.share_out();
    }

    fn share_out(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let of =
            |get: fn(&Rate) -> f64| self.active.iter().map(|&s| get(&self.rates[s as usize])).collect::<Vec<f64>>();
        let rates = of(|rate| rate.blocks_per_sec);
        let total = f64::from(self.share.distance_default) * rates.len() as f64;
        let (bounds, redistribute) = (self.share.bounds(), self.share.redistribute);
        let distances = match self.trigger {
            Trigger::Esf(_) => {
                let sigmas = of(|rate| rate.variance.sqrt());
                esf(&rates, &sigmas, self.fetch_secs.unwrap_or(0.0), total, bounds, redistribute)
            }
            _ => ets(&rates, total, bounds, redistribute),
        };
        for (&stream, exact) in self.active.iter().zip(distances) {
            let rate = &mut self.rates[stream as usize];
            rate.exact = exact;
            rate.distance = exact.round() as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Span of `len` blocks from the `n`-th block of the file of a stream.
    fn nth(stream: usize, n: u64, len: u32) -> Span {
        Span::new(stream as u32, n, len)
    }

    /// Reads of one block at these rates for some seconds.
    fn paced(rates: &mut Rates, per_sec: &[u64], secs: u64) {
        let mut reads: Vec<(u64, usize, u64)> = Vec::new();
        for (stream, per_sec) in per_sec.iter().enumerate() {
            reads.extend((0..per_sec * secs).map(|n| (n * 1_000_000_000 / per_sec, stream, n)));
        }
        reads.sort();
        for (at, stream, n) in reads {
            rates.read(Time(at), stream, false, nth(stream, n, 1));
        }
    }

    #[test]
    fn two_paced_streams_get_the_published_distances() {
        for (fast, expected) in [(3000, (12, 36)), (5000, (8, 40)), (7000, (6, 42))] {
            let mut rates = Rates::new(Trigger::Ets(Share::default())).unwrap();
            paced(&mut rates, &[1000, fast], 3);
            assert_eq!((rates.distance(0), rates.distance(1)), expected);
        }
    }

    #[test]
    fn a_new_stream_starts_with_the_default_and_an_idle_one_leaves() {
        let mut rates = Rates::new(Trigger::Ets(Share::default())).unwrap();
        rates.read(Time::ZERO, 0, true, nth(0, 0, 100));
        assert_eq!(rates.distance(0), 24);
        rates.read(Time::from_millis(50), 1, true, nth(1, 0, 1));
        rates.read(Time::from_millis(150), 1, false, nth(1, 1, 1));
        assert_eq!((rates.distance(0), rates.distance(1)), (48, 4), "cap and floor");
        for tenth in 2..20 {
            rates.read(Time::from_millis(tenth * 100), 1, false, nth(1, tenth, 1));
        }
        assert_eq!(rates.active, [1]);
        assert_eq!(rates.distance(1), 24, "alone");
    }

    /// Random readers do not change the streams' distances, however fast they are; a stream that jumps starts over.
    #[test]
    fn only_sequential_streams_share() {
        let alone = |jumpers: usize| {
            let mut rates = Rates::new(Trigger::Ets(Share::default())).unwrap();
            for n in 0..4000 {
                let now = Time::from_millis(n);
                rates.read(now, 0, n == 0, nth(0, n, 1));
                if n % 3 == 0 {
                    rates.read(now, 1, n == 0, nth(1, n / 3, 1));
                }
                for jumper in 2..2 + jumpers {
                    rates.read(now, jumper, n == 0, nth(jumper, 7 + n * 7919 % 100_000, 2));
                }
            }
            (rates.distance(0), rates.distance(1), rates.distance(1 + jumpers), rates.active.len())
        };
        assert_eq!(alone(0), (36, 12, 12, 2));
        assert_eq!(alone(8), (36, 12, 24, 2));
    }

    #[test]
    fn a_stream_of_requests_that_share_a_block_is_sequential() {
        let mut rates = Rates::new(Trigger::Ets(Share::default())).unwrap();
        (0..100).for_each(|n| rates.read(Time::from_millis(n * 10), 0, n == 0, nth(0, n * 2, 3)));
        (0..100).for_each(|n| rates.read(Time::from_millis(n * 10), 1, n == 0, nth(1, 5, 1)));
        assert_eq!(rates.active, [0], "reading the same again is not");
    }

    #[test]
    fn an_irregular_stream_gets_more_from_esf() {
        let mut rates = Rates::new(Trigger::Esf(Share::default())).unwrap();
        rates.fetched(Time::from_millis(6));
        let mut irregular = 0;
        for window in 0..40 {
            for n in 0..100 {
                rates.read(Time::from_millis(window * 100 + n), 0, false, nth(0, window * 100 + n, 1));
            }
            let burst = if window % 2 == 0 { 190 } else { 10 };
            rates.read(Time::from_millis(window * 100 + 99), 1, false, nth(1, irregular, burst));
            irregular += u64::from(burst);
        }
        assert!(rates.distance(1) > rates.distance(0) + 20, "{} and {}", rates.distance(1), rates.distance(0));
    }

    #[test]
    fn a_long_silence_costs_no_loop_over_its_windows() {
        let mut rates = Rates::new(Trigger::Ets(Share::default())).unwrap();
        rates.read(Time::ZERO, 0, true, nth(0, 0, 1));
        rates.read(Time::from_secs(1_000_000_000), 0, false, nth(0, 1, 1));
        assert_eq!((rates.distance(0), rates.active.len()), (24, 1));
    }
}
