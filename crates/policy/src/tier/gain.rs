//! What past accesses say of the next ones: learned, not assumed.
//!
//! At the end of each pane, every known location tells how often it was accessed in that pane, given its hotness in the panes before.
//! Locations of like hotness (by powers of two) share one mean, in which older panes weigh less and less. So a scan teaches that what
//! was read once is not read again, and a shifting hot spot how soon hot data cool; nobody sets a threshold.
//!
//! Until enough was seen, a location is expected to go on at half of its past rate.
//!
//! Ours; the paper has fixed thresholds.

/// Classes of hotness: 1, 2-3, 4-7, ...
const CLASSES: usize = 17;

/// Weight of an older pane against the next newer one.
const MEMORY: f64 = 0.7;

/// Observations that the assumption at the start counts for.
const PRIOR_WEIGHT: f64 = 4.0;

/// The learned means of one region.
#[derive(Clone, Debug)]
pub struct Expectation {
    sums: [f64; CLASSES],
    weights: [f64; CLASSES],
    panes_before: f64,
}

impl Expectation {
    /// Nothing learned; hotness is counted over `panes_before` panes.
    pub fn new(panes_before: usize) -> Expectation {
        Expectation { sums: [0.0; CLASSES], weights: [0.0; CLASSES], panes_before: panes_before.max(1) as f64 }
    }

    /// A location of hotness `before` (above 0) was accessed `now` times in the pane that ends.
    pub fn observe(&mut self, before: u32, now: u32) {
        let class = class(before);
        self.sums[class] += f64::from(now);
        self.weights[class] += 1.0;
    }

    /// The pane has ended: what was seen before it weighs less.
    pub fn turn(&mut self) {
        self.sums.iter_mut().chain(&mut self.weights).for_each(|sum| *sum *= MEMORY);
    }

    /// Accesses to expect in the next pane, of a location with this hotness.
    pub fn expect(&self, hotness: u32) -> f64 {
        if hotness == 0 {
            return 0.0;
        }
        let class = class(hotness);
        let prior = f64::from(hotness) / self.panes_before / 2.0;
        (self.sums[class] + prior * PRIOR_WEIGHT) / (self.weights[class] + PRIOR_WEIGHT)
    }
}

fn class(hotness: u32) -> usize {
    (hotness.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_teaches_to_expect_nothing_and_a_hot_spot_to_expect_much() {
        let mut learned = Expectation::new(3);
        assert_eq!(learned.expect(6), 1.0, "half of the past rate");
        for _ in 0..20 {
            (0..1000).for_each(|_| learned.observe(1, 0));
            (0..10).for_each(|_| learned.observe(30, 12));
            learned.turn();
        }
        assert!(learned.expect(1) < 0.001);
        assert!((learned.expect(25) - 12.0).abs() < 2.0);
        assert_eq!(learned.expect(0), 0.0);
    }

    #[test]
    fn what_changed_is_learned_anew_within_some_panes() {
        let mut learned = Expectation::new(3);
        for now in [10, 0] {
            for _ in 0..15 {
                (0..100).for_each(|_| learned.observe(30, now));
                learned.turn();
            }
        }
        assert!(learned.expect(30) < 0.2);
    }
}
