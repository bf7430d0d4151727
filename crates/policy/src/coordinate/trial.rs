//! Trial of our per-stream coordinator against the native prefetcher, which serves while it is better.
//!
//! ```text
//!   windows of requests   ours | native | ours | ours | native | ours | ours | ours | ours | native | ...
//! ```
//! The cost of a window is the time that its requests wait, per block. It is the integral of the number of waiting
//! requests over time (Little's law), so it needs no clock per request and holds for open and closed loops. A prefetch
//! of the level above counts in full only while an application waits for it. The other one is tried after twice as many
//! windows each time that it loses.
//!
//! A trial begins among the blocks and fetches of the one before, so its first requests do not count. It ends early
//! once it has cost as much as the whole trial would cost under the one that serves between trials.

use crate::time::Time;

/// Requests of a window: enough for a prefetcher to find its streams. 16, 64 and 128 were worse on recorded traces.
const WINDOW: u32 = 32;

/// Requests of a trial before its window. 0, 8 and 32 were no better on six recorded traces.
const SETTLING: u32 = 16;

/// Most windows between two trials: they cost little then.
const APART_MAX: u32 = 64;

/// Weight of the newest window in the cost.
const WEIGHT: f64 = 0.5;

/// Ours steps aside only if the native prefetcher is better by this share, since windows differ by chance.
const MARGIN: f64 = 0.2;

/// Weight of a request that an application waits for, beside 1 for every waiting request. An unawaited prefetch is not
/// free: its delay adds to the link's. Weights of 5 to 20 rank forced runs on six recorded traces best.
const AWAITED: u64 = 10;

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
    /// Requests, blocks and weighted waiting time of the window or trial.
    requests: u32,
    blocks: u64,
    waited_ns: u64,
    /// Blocks and waiting time before the window of a trial.
    settling: (u64, u64),
    at: Time,
}

impl Trial {
    /// Counts the time since the event before, in which so many requests waited, and applications for so many of them.
    pub(crate) fn advance(&mut self, now: Time, waiting: usize, awaited: usize) {
        let weight = waiting as u64 + AWAITED * awaited as u64;
        self.waited_ns = self.waited_ns.saturating_add(now.since(self.at).0.saturating_mul(weight));
        self.at = self.at.max(now);
    }

    /// Whether ours serves the next request, of so many blocks.
    pub(crate) fn is_ours(&mut self, blocks: u32) -> bool {
        let is_trial = self.current != self.best;
        let whole = if is_trial { SETTLING + WINDOW } else { WINDOW };
        if is_trial && self.is_lost(whole) {
            self.settling = (0, 0);
            self.close();
        } else if self.requests == whole {
            self.close();
        } else if is_trial && self.requests == SETTLING {
            self.settling = (self.blocks, self.waited_ns);
        }
        self.requests += 1;
        self.blocks += u64::from(blocks);
        self.current == OURS
    }

    /// Whether a trial has cost as much as all of its requests would under the best one.
    fn is_lost(&self, whole: u32) -> bool {
        let cost = self.waited_ns as f64 * f64::from(self.requests);
        self.costs[self.best].is_some_and(|best| cost > best * self.blocks as f64 * f64::from(whole))
    }

    fn close(&mut self) {
        let (blocks, waited_ns) = self.settling;
        let cost = (self.waited_ns - waited_ns) as f64 / (self.blocks - blocks) as f64;
        let mean = &mut self.costs[self.current];
        *mean = Some(mean.map_or(cost, |before| before + WEIGHT * (cost - before)));
        (self.requests, self.blocks, self.waited_ns, self.settling) = (0, 0, 0, (0, 0));
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

    /// Serves a request of one block with the waiting time of its server; returns whether ours served it.
    fn serve_one(trial: &mut Trial, ours_us: u64, native_us: u64) -> bool {
        let is_ours = trial.is_ours(1);
        let took_us = if is_ours { ours_us } else { native_us };
        trial.advance(Time(trial.at.0 + took_us * 1000), 1, 1);
        trial.advance(Time(trial.at.0 + 1_000_000), 0, 0);
        is_ours
    }

    /// Serves windows with these waiting times per request; returns how many of them ours served.
    fn serve(trial: &mut Trial, windows: u32, ours_us: u64, native_us: u64) -> u32 {
        let ours = (0..windows * WINDOW).filter(|_| serve_one(trial, ours_us, native_us)).count();
        ours as u32 / WINDOW
    }

    #[test]
    fn the_better_one_serves_and_the_other_is_tried_ever_more_rarely() {
        let mut trial = Trial::default();
        assert!(serve(&mut trial, 100, 10, 100) > 90);
        assert!(serve(&mut trial, 400, 100, 10) < 100, "it steps aside");
        assert!(serve(&mut trial, 400, 10, 100) > 300, "and comes back");
    }

    #[test]
    fn a_trial_ends_once_it_has_cost_as_much_as_the_other_would() {
        let mut trial = Trial::default();
        serve(&mut trial, 100, 1000, 10);
        let ours = (0..64 * WINDOW).filter(|_| serve_one(&mut trial, 1000, 10)).count();
        assert!(ours > 0 && ours < 16, "{ours} requests, each a hundred times as dear");
    }

    #[test]
    fn the_first_requests_of_a_trial_do_not_count() {
        let mut trial = Trial::default();
        let mut natives = 0;
        for _ in 0..200 * WINDOW {
            let in_a_row = natives;
            let is_ours = serve_one(&mut trial, 100, if in_a_row < 8 { 200 } else { 10 });
            natives = if is_ours { 0 } else { natives + 1 };
        }
        assert_eq!(trial.best, 1 - OURS, "the native prefetcher is the better one after eight requests");
    }

    #[test]
    fn a_wait_of_an_application_counts_more_than_that_of_a_prefetch() {
        let mut trial = Trial::default();
        for _ in 0..200 * WINDOW {
            let is_ours = trial.is_ours(1);
            let took_us = if is_ours { 100 } else { 300 };
            trial.advance(Time(trial.at.0 + took_us * 1000), 1, usize::from(is_ours));
        }
        assert_eq!(trial.best, 1 - OURS, "under the native prefetcher no application waits");
    }

    #[test]
    fn a_small_advantage_is_chance() {
        let mut trial = Trial::default();
        assert!(serve(&mut trial, 200, 100, 95) > 180);
        assert!(serve(&mut trial, 200, 0, 0) > 180, "where nothing takes time, too");
    }
}
