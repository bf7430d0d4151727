//! Trial of our per-stream coordinator against the native prefetcher, which serves while it is better.
//!
//! ```text
//!   windows of requests   ours | native | ours | ours | native | ours | ours | ours | ours | native | ...
//! ```
//! The cost of a window is the time that its requests wait, per block. It is the integral of the number of waiting
//! requests over time (Little's law), so it needs no clock per request and holds for open and closed loops. The other
//! one is tried after twice as many windows each time that it loses.
//!
//! Not seen from here: a native prefetch that overlaps the work of the client. It makes no request here shorter.

use crate::time::Time;

/// Requests of a window: enough for a prefetcher to find its streams. 16, 64 and 128 were worse on recorded traces.
const WINDOW: u32 = 32;

/// Most windows between two trials: they cost little then.
const APART_MAX: u32 = 64;

/// Weight of the newest window in the cost.
const WEIGHT: f64 = 0.5;

/// Ours steps aside only if the native prefetcher is better by this share, since windows differ by chance.
const MARGIN: f64 = 0.1;

const OURS: usize = 0;

/// State of the trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Mean cost per block: ours, native; `None` before the first window.
    costs: [Option<f64>; 2],
    /// The one that serves between trials, and the one that serves now.
    best: usize,
    current: usize,
    /// Windows until the next trial, and the number between two trials.
    left: u32,
    apart: u32,
    requests: u32,
    blocks: u64,
    waited_ns: u64,
    at: Time,
}

impl Trial {
    /// Counts the time since the event before, in which so many requests waited.
    pub(crate) fn advance(&mut self, now: Time, waiting: usize) {
        self.waited_ns = self.waited_ns.saturating_add(now.since(self.at).0.saturating_mul(waiting as u64));
        self.at = self.at.max(now);
    }

    /// Whether ours serves the next request, of so many blocks.
    pub(crate) fn is_ours(&mut self, blocks: u32) -> bool {
        if self.requests == WINDOW {
            self.close();
        }
        self.requests += 1;
        self.blocks += u64::from(blocks);
        self.current == OURS
    }

    fn close(&mut self) {
        let cost = self.waited_ns as f64 / self.blocks as f64;
        let mean = &mut self.costs[self.current];
        *mean = Some(mean.map_or(cost, |before| before + WEIGHT * (cost - before)));
        (self.requests, self.blocks, self.waited_ns) = (0, 0, 0);
        let other = 1 - self.best;
        if self.current == self.best {
            self.left = self.left.saturating_sub(1);
            self.current = if self.left == 0 { other } else { self.best };
            return;
        }
        let bar = if self.best == OURS { 1.0 - MARGIN } else { 1.0 };
        if self.costs[other] < self.costs[self.best].map(|cost| cost * bar) {
            (self.best, self.apart) = (other, 1);
        } else {
            self.apart = (self.apart.max(1) * 2).min(APART_MAX);
        }
        (self.current, self.left) = (self.best, self.apart);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves windows with these waiting times per request; returns how many of them ours served.
    fn serve(trial: &mut Trial, windows: u32, ours_us: u64, native_us: u64) -> u32 {
        let mut served = 0;
        for _ in 0..windows * WINDOW {
            let is_ours = trial.is_ours(1);
            served += u32::from(is_ours);
            let took_us = if is_ours { ours_us } else { native_us };
            trial.advance(Time(trial.at.0 + took_us * 1000), 1);
            trial.advance(Time(trial.at.0 + 1_000_000), 0);
        }
        served / WINDOW
    }

    #[test]
    fn the_better_one_serves_and_the_other_is_tried_ever_more_rarely() {
        let mut trial = Trial::default();
        assert!(serve(&mut trial, 100, 10, 100) > 90);
        assert!(serve(&mut trial, 400, 100, 10) < 100, "it steps aside");
        assert!(serve(&mut trial, 400, 10, 100) > 300, "and comes back");
    }

    #[test]
    fn a_small_advantage_is_chance() {
        let mut trial = Trial::default();
        assert!(serve(&mut trial, 200, 100, 95) > 180);
        assert!(serve(&mut trial, 200, 0, 0) > 180, "where nothing takes time, too");
    }
}
