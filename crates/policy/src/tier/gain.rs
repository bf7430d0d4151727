//! Prediction of accesses from past ones: learned, not assumed.
//!
//! At the end of each pane, every known location is an observation: its accesses in that pane, given those in the pane
//! before and in earlier ones. Locations with a similar past (each count by powers of two) share one mean, in which
//! older panes weigh less and less. So a scan teaches that a location with one read is not read again. A shifting hot
//! spot teaches that new hot locations stay for a while and cooled ones do not return. No threshold has to be set.
//!
//! Before enough observations, a location is expected to continue at half of its past rate.
//!
//! Ours; the paper has fixed thresholds.

/// Classes of a count: 0, 1, 2-3, 4-7, ...
const CLASSES: usize = 10;

/// Weight of a pane relative to the next newer one.
const MEMORY: f64 = 0.7;

/// Weight of the initial assumption, in observations.
const PRIOR_WEIGHT: f64 = 4.0;

/// Accesses of a location before the pane in question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Accesses in the pane before.
    pub recent: u32,
    /// Accesses in earlier panes of the window.
    pub older: u32,
}

/// The learned means of one region.
#[derive(Clone, Debug)]
pub struct Expectation {
    cells: [[Cell; CLASSES]; CLASSES],
    panes_before: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    sum: f64,
    weight: f64,
}

impl Expectation {
    /// Makes an expectation without observations; the past spans `panes_before` panes.
    pub fn new(panes_before: usize) -> Expectation {
        Expectation { cells: [[Cell::default(); CLASSES]; CLASSES], panes_before: panes_before.max(1) as f64 }
    }

    /// Adds the observation of a location with this past and `now` accesses in the pane that ends.
    pub fn observe(&mut self, past: Past, now: u32) {
        let cell = &mut self.cells[class(past.recent)][class(past.older)];
        cell.sum += f64::from(now);
        cell.weight += 1.0;
    }

    /// Ends a pane: earlier observations weigh less.
    pub fn turn(&mut self) {
        for cell in self.cells.iter_mut().flatten() {
            cell.sum *= MEMORY;
            cell.weight *= MEMORY;
        }
    }

    /// Returns the expected accesses in the next pane, for a location with this past.
    pub fn expect(&self, past: Past) -> f64 {
        if past == Past::default() {
            return 0.0;
        }
        let cell = &self.cells[class(past.recent)][class(past.older)];
        let prior = f64::from(past.recent + past.older) / self.panes_before / 2.0;
        (cell.sum + prior * PRIOR_WEIGHT) / (cell.weight + PRIOR_WEIGHT)
    }
}

fn class(count: u32) -> usize {
    count.checked_ilog2().map_or(0, |log| log as usize + 1).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: Past = Past { recent: 1, older: 0 };
    const HOT: Past = Past { recent: 10, older: 20 };
    const COOLED: Past = Past { recent: 0, older: 20 };

    #[test]
    fn a_scan_teaches_to_expect_nothing_and_a_hot_spot_to_expect_much() {
        let mut learned = Expectation::new(3);
        assert_eq!(learned.expect(Past { recent: 2, older: 4 }), 1.0, "half of the past rate");
        for _ in 0..20 {
            (0..1000).for_each(|_| learned.observe(ONCE, 0));
            (0..10).for_each(|_| learned.observe(HOT, 12));
            (0..100).for_each(|_| learned.observe(COOLED, 0));
            learned.turn();
        }
        assert!(learned.expect(ONCE) < 0.001 && learned.expect(COOLED) < 0.1, "{}", learned.expect(COOLED));
        assert!((learned.expect(Past { recent: 9, older: 25 }) - 12.0).abs() < 2.0);
        assert_eq!(learned.expect(Past::default()), 0.0);
    }

    #[test]
    fn what_changed_is_learned_anew_within_some_panes() {
        let mut learned = Expectation::new(3);
        for now in [10, 0] {
            for _ in 0..15 {
                (0..100).for_each(|_| learned.observe(HOT, now));
                learned.turn();
            }
        }
        assert!(learned.expect(HOT) < 0.2);
    }
}
