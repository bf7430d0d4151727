//! The hit rate of a location: the probability of an access soon, learned from all locations by count and age.
//!
//! ```text
//!   rate(n, age)   accesses that came at that age / accesses that others were that old for  n in 1, 2-3, 4-7, ..
//!   comes(n, age)  1 - exp(-(the rates from `age` to `age` + the horizon))                  age in 0-127, 128-255, ..
//!   further(n)     comes(n, 0) * (1 + further(n + 1))
//! ```
//! Time is counted in accesses. A location without another access counts for the ages it has had so far. So rates are
//! known before any location is old, and a change of the load shows first at young ages. A rate with few samples is
//! taken from the age class before it. So a scan teaches that locations do not return, and a location with two accesses
//! returns more often than one with one access.
//!
//! The horizon is a quarter of the time for which the ghost list ([`super::ghosts`]) keeps an unused location. Until
//! one has left the list, that time follows from the rate at which the list fills.
//!
//! Ours. It is a hazard rate, estimated with censored observations. Eviction of the location with the fewest expected
//! hits per time follows N. Beckmann, H. Chen, A. Cidon, "LHD: Improving Cache Hit Rate by Maximizing Hit Density"
//! (NSDI 2018).

use super::ghosts::{GhostList, Stay};

/// Counts with a computed expectation; counts above half of them share the one at half.
const COUNTS: usize = 256;

/// Classes of counts.
const CLASSES: usize = 9;

/// Classes of ages.
const AGES: usize = 24;

/// Accesses between two updates of the rates.
const TURN: u64 = 128;

/// Weight of earlier observations after an update.
const MEMORY: f64 = 1.0 - TURN as f64 / 1000.0;

/// Weight of the assumed rate, in locations.
const PRIOR: f64 = 8.0;

/// The horizon, as a share of the time for which the list keeps an unused location.
const HORIZON: f64 = 0.25;

/// Weight of the newest location that left the list, in the mean time in the list.
const NEWEST: f64 = 1.0 / 256.0;

/// Observations of one class of counts at one class of ages.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    came: f64,
    /// Accesses that passed while a location was in it, summed over its locations.
    waited: f64,
    /// Locations in it since the last update.
    waiting: u64,
    rate: f64,
}

/// Learned rates of all classes.
#[derive(Clone, Debug)]
pub struct HitRate {
    cells: [[Cell; AGES]; CLASSES],
    /// `further` for each count, as of the last update.
    further: Vec<f64>,
    /// Number of the access at the last update.
    turned: u64,
    /// Accesses for which the list keeps an unused location; 0 until a location has left it.
    kept: f64,
    horizon: f64,
}

impl Default for HitRate {
    fn default() -> HitRate {
        HitRate { cells: Default::default(), further: vec![0.0; COUNTS + 1], turned: 0, kept: 0.0, horizon: 0.0 }
    }
}

impl HitRate {
    /// Learns from an access: the location's stay before it, and the list after it.
    pub fn accessed(&mut self, before: Stay, ghosts: &GhostList, room: usize) {
        if before.last > 0 {
            let (count, age) = (count_class(before.accesses()), ghosts.accesses() - before.last);
            self.cells[count][age_class(age)].came += 1.0;
            self.leaves(before);
        }
        self.cells[count_class(before.accesses().saturating_add(1))][0].waiting += 1;
        if ghosts.accesses() - self.turned >= TURN {
            self.turn(ghosts, room);
        }
    }

    /// Learns from a stay that ended, because others were accessed since.
    pub fn ended(&mut self, stay: Stay, ghosts: &GhostList) {
        self.leaves(stay);
        let kept = (ghosts.accesses() - stay.last) as f64;
        self.kept += (kept - self.kept) * if self.kept == 0.0 { 1.0 } else { NEWEST };
    }

    /// Removes a location that waits no longer, without learning from it.
    pub fn leaves(&mut self, stay: Stay) {
        let age = self.turned.saturating_sub(stay.last);
        let waiting = &mut self.cells[count_class(stay.accesses())][age_class(age)].waiting;
        *waiting = waiting.saturating_sub(1);
    }

    /// Returns the probability that a location with `n` accesses, the last one `age` accesses ago, is accessed within
    /// the horizon.
    pub fn comes(&self, n: u32, age: u64) -> f64 {
        let (from, to) = (age as f64, age as f64 + self.horizon);
        let mut sum = 0.0;
        for (at, cell) in self.cells[count_class(n)].iter().enumerate().skip(age_class(age)) {
            let end = if at + 1 == AGES { f64::INFINITY } else { starts(at + 1) as f64 };
            sum += cell.rate * (end.min(to) - from.max(starts(at) as f64));
            if end >= to {
                break;
            }
        }
        1.0 - (-sum).exp()
    }

    /// Returns the expected further accesses of a location at its `n`-th access.
    pub fn further(&self, n: u32) -> f64 {
        self.further[(n as usize).min(COUNTS / 2)]
    }

    fn turn(&mut self, ghosts: &GhostList, room: usize) {
        let now = ghosts.accesses();
        for age in 1..AGES {
            // Locations that reached this age since the last update.
            let (after, until) = (self.turned.saturating_sub(starts(age)), now.saturating_sub(starts(age)));
            if until == 0 {
                break;
            }
            for stay in ghosts.between(after, until) {
                let cells = &mut self.cells[count_class(stay.accesses())];
                cells[age - 1].waiting = cells[age - 1].waiting.saturating_sub(1);
                cells[age].waiting += 1;
            }
        }
        let passed = (now - self.turned) as f64;
        self.turned = now;
        let fills = now as f64 * room as f64 / ghosts.len().max(1) as f64;
        self.horizon = HORIZON * if self.kept > 0.0 { self.kept } else { fills };
        for cells in &mut self.cells {
            let mut younger = 0.0;
            for (age, cell) in cells.iter_mut().enumerate() {
                let prior = PRIOR * (starts(age + 1) - starts(age)) as f64;
                cell.waited += cell.waiting as f64 * passed;
                cell.rate = (cell.came + younger * prior) / (cell.waited + prior);
                younger = cell.rate;
                cell.came *= MEMORY;
                cell.waited *= MEMORY;
            }
        }
        let mut above = 0.0;
        for class in (0..CLASSES - 1).rev() {
            let comes = self.comes(1 << class, 0);
            for n in (1usize << class..2 << class).rev() {
                above = comes * (1.0 + above);
                self.further[n] = above;
            }
        }
    }
}

/// Returns the class of a count: 1, 2-3, 4-7, ..
fn count_class(n: u32) -> usize {
    (n.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Returns the class of an age: 0-127, 128-255, 256-511, ..
fn age_class(age: u64) -> usize {
    (age / (TURN / 2)).checked_ilog2().map_or(0, |log| log as usize).min(AGES - 1)
}

/// Returns the first age of a class.
fn starts(class: usize) -> u64 {
    if class == 0 { 0 } else { (TURN / 2) << class }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::{Location, Region};
    use proptest::prelude::*;

    struct Learning {
        ghosts: GhostList,
        hit_rate: HitRate,
        room: usize,
    }

    fn at(segment: u64) -> Location {
        Location { file: 0, segment }
    }

    impl Learning {
        fn new(room: usize) -> Learning {
            Learning { ghosts: GhostList::default(), hit_rate: HitRate::default(), room }
        }

        fn touch(&mut self, block: u64) {
            let before = self.ghosts.touch(at(block), Region::Read);
            self.hit_rate.accessed(before, &self.ghosts, self.room);
            while let Some(stay) = self.ghosts.end(self.room) {
                self.hit_rate.ended(stay, &self.ghosts);
            }
        }

        fn forget(&mut self, block: u64) {
            if let Some(stay) = self.ghosts.forget(at(block)) {
                self.hit_rate.leaves(stay);
            }
        }
    }

    #[test]
    fn a_scan_comes_back_never_and_a_hot_spot_does_again_and_again() {
        let (mut scan, mut spot) = (Learning::new(1000), Learning::new(1000));
        assert_eq!(spot.hit_rate.further(1), 0.0, "nothing is known");
        (0..20_000).for_each(|block| scan.touch(block));
        assert_eq!((scan.hit_rate.comes(1, 0), scan.hit_rate.further(1)), (0.0, 0.0));
        (0..20_000).for_each(|n| spot.touch(n * 7919 % 500));
        let expected = spot.hit_rate.further(40);
        assert!(spot.hit_rate.comes(40, 0) > 0.5 && expected > 1.0, "each was accessed 40 times: {expected}");
        // The hot spot has moved: soon no further access is expected.
        (0..20_000).for_each(|block| spot.touch(10_000 + block));
        assert!(spot.hit_rate.further(40) < 0.05, "{}", spot.hit_rate.further(40));
    }

    #[test]
    fn what_comes_back_is_known_before_anybody_left_the_list() {
        let mut young = Learning::new(8000);
        (0..1500u64).for_each(|n| young.touch(n * n * 7919 % 2003));
        assert!(young.ghosts.len() < 4000 && young.hit_rate.further(1) > 0.3, "{}", young.hit_rate.further(1));
    }

    #[test]
    fn what_has_waited_for_long_or_came_only_once_is_less_likely_to_come() {
        let mut both = Learning::new(2000);
        // Two hundred hot locations, replaced every 3000 accesses, among locations with one access.
        let hot = |n: u64| n / 3000 * 200 + n / 2 * 7919 % 200;
        (0..44_900u64).for_each(|n| both.touch(if n % 2 == 0 { hot(n) } else { 10_000 + n }));
        let comes = |n, age| both.hit_rate.comes(n, age);
        assert!(comes(5, 0) > 0.5 && comes(1, 0) < 0.2, "{} {}", comes(5, 0), comes(1, 0));
        assert!(comes(5, 2500) < 0.5 * comes(5, 0), "{} {}", comes(5, 2500), comes(5, 0));
    }

    proptest! {
        #[test]
        fn everybody_waits_at_its_count_and_age(
            accesses in prop::collection::vec((0u64..300, 0u8..20), 1..1500),
            room in 1usize..200,
        ) {
            let mut learning = Learning::new(room);
            for (block, forgets) in accesses {
                learning.touch(block);
                if forgets == 0 {
                    learning.forget(block / 2);
                }
            }
            let Learning { ghosts, hit_rate, .. } = learning;
            prop_assert!(ghosts.len() <= room);
            let mut counted = [[0u64; AGES]; CLASSES];
            for stay in ghosts.between(0, ghosts.accesses()) {
                let age = hit_rate.turned.saturating_sub(stay.last);
                counted[count_class(stay.accesses())][age_class(age)] += 1;
            }
            let known = hit_rate.cells.map(|cells| cells.map(|cell| cell.waiting));
            prop_assert_eq!(known, counted);
        }
    }
}
