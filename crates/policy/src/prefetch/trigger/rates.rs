//! How fast and how irregularly each stream reads, sampled, and the trigger distances that follow.
//!
//! The rate is that of a sampling window, smoothed exponentially; the deviation is the smoothed standard deviation of the
//! windows' rates. Samples are taken when something happens, for all windows that have passed since, so that no clock and no
//! timer are needed and the result does not depend on when somebody looks.

use super::{Share, Trigger, esf, ets};
use crate::time::Time;

#[derive(Clone, Copy, Debug, Default)]
struct Rate {
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

/// The rates of all streams.
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
    /// Rates for a trigger that shares distances out; `None` for one that does not.
    pub(crate) fn new(trigger: Trigger) -> Option<Rates> {
        let (Trigger::Ets(share) | Trigger::Esf(share)) = trigger else { return None };
        Some(Rates { trigger, share, rates: Vec::new(), active: Vec::new(), sample_at: None, fetch_secs: None })
    }

    /// A stream read; `fresh` if its state is another's.
    pub(crate) fn read(&mut self, now: Time, stream: usize, fresh: bool, blocks: u32) {
        self.sample(now);
        let sample_at = now + self.share.sample_period;
        self.sample_at.get_or_insert(sample_at);
        if stream >= self.rates.len() {
            self.rates.resize(stream + 1, Rate::default());
        }
        if fresh {
            self.active.retain(|&other| other as usize != stream);
            self.rates[stream] = Rate::default();
        }
        let share = &self.share;
        let rate = &mut self.rates[stream];
        if !rate.active {
            let start = f64::from(share.distance_default);
            *rate = Rate { active: true, distance: share.distance_default, exact: start, ..Rate::default() };
            self.active.push(stream as u32);
        }
        rate.count += u64::from(blocks);
        rate.read_at = now;
    }

    /// A stream jumped: its distance starts over.
    pub(crate) fn reset(&mut self, stream: usize) {
        self.rates[stream].distance = self.share.distance_default;
        self.rates[stream].exact = f64::from(self.share.distance_default);
    }

    /// A prefetch took so long.
    pub(crate) fn fetched(&mut self, span: Time) {
        // An eighth of each new sample, as TCP smooths its round trips.
        let secs = span.as_secs_f64();
        self.fetch_secs = Some(self.fetch_secs.map_or(secs, |smoothed| smoothed + (secs - smoothed) / 8.0));
    }

    /// The trigger distance of a stream that has read.
    pub(crate) fn distance(&self, stream: usize) -> u32 {
        self.rates[stream].distance
    }

    /// Distance before rounding, and rate, of a stream; zeros if it never read.
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
                *rate = Rate { read_at: rate.read_at, distance: share.distance_default, ..Rate::default() };
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

    /// Reads of one block at these rates for some seconds.
    fn paced(rates: &mut Rates, per_sec: &[u64], secs: u64) {
        let mut reads: Vec<(u64, usize)> = Vec::new();
        for (stream, per_sec) in per_sec.iter().enumerate() {
            reads.extend((0..per_sec * secs).map(|n| (n * 1_000_000_000 / per_sec, stream)));
        }
        reads.sort();
        for (at, stream) in reads {
            rates.read(Time(at), stream, false, 1);
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
        rates.read(Time::ZERO, 0, true, 100);
        assert_eq!(rates.distance(0), 24);
        rates.read(Time::from_millis(50), 1, true, 1);
        rates.read(Time::from_millis(150), 1, false, 1);
        assert_eq!((rates.distance(0), rates.distance(1)), (48, 4), "cap and floor");
        for tenth in 2..20 {
            rates.read(Time::from_millis(tenth * 100), 1, false, 1);
        }
        assert_eq!(rates.active, [1]);
        assert_eq!(rates.distance(1), 24, "alone");
    }

    #[test]
    fn an_irregular_stream_gets_more_from_esf() {
        let mut rates = Rates::new(Trigger::Esf(Share::default())).unwrap();
        rates.fetched(Time::from_millis(6));
        for window in 0..40 {
            for n in 0..100 {
                rates.read(Time::from_millis(window * 100 + n), 0, false, 1);
            }
            let burst = if window % 2 == 0 { 190 } else { 10 };
            rates.read(Time::from_millis(window * 100 + 99), 1, false, burst);
        }
        assert!(rates.distance(1) > rates.distance(0) + 20, "{} and {}", rates.distance(1), rates.distance(0));
    }

    #[test]
    fn a_long_silence_costs_no_loop_over_its_windows() {
        let mut rates = Rates::new(Trigger::Ets(Share::default())).unwrap();
        rates.read(Time::ZERO, 0, true, 1);
        rates.read(Time::from_secs(1_000_000_000), 0, false, 1);
        assert_eq!((rates.distance(0), rates.active.len()), (24, 1));
    }
}
