//! How often a location that was just accessed for the n-th time will be accessed again: learned from all locations.
//!
//! Every access that brings a location to `n` accesses within the window counts as having reached `n`. Those that reached `m > n` of those that
//! reached `n` are the chance of `m - n` further accesses at least, so that
//!
//! ```text
//!   further(n) = sum over m > n of reached(m) / reached(n)
//! ```
//! A scan teaches that nothing comes back (`reached(2) = 0`), a hot spot that who came once comes many times. It answers at the first access, when
//! the bytes are at hand and a promotion costs no reading; [`super::gain`] answers at the end of a pane.
//!
//! Ours; it is the survival function of popularity, as admission policies of caches use it.

/// Counts that are told apart; more count as this many.
const COUNTS: usize = 256;

/// Accesses after which what was learned is put to use.
const TURN: u32 = 512;

/// What older turns weigh against the newest.
const MEMORY: f64 = 0.93;

/// Locations that the assumption at the start (nothing comes back) counts for.
const PRIOR: f64 = 50.0;

/// Counts of one region.
#[derive(Clone, Debug)]
pub struct Comeback {
    reached: Vec<f64>,
    /// `further` for each count, as of the last turn.
    further: Vec<f64>,
    /// Accesses since the last turn.
    counted: u32,
}

impl Default for Comeback {
    fn default() -> Comeback {
        Comeback { reached: vec![0.0; COUNTS + 1], further: vec![0.0; COUNTS + 1], counted: 0 }
    }
}

impl Comeback {
    /// A location has been accessed `n` times within the window now.
    pub fn reach(&mut self, n: u32) {
        self.reached[(n as usize).min(COUNTS)] += 1.0;
        self.counted += 1;
        if self.counted == TURN {
            self.counted = 0;
            self.turn();
        }
    }

    fn turn(&mut self) {
        let mut above = 0.0;
        for n in (1..=COUNTS).rev() {
            self.further[n] = above / (self.reached[n] + PRIOR);
            above += self.reached[n];
        }
        // Those above the last count told apart go on as they did.
        self.further[COUNTS] = self.further[COUNTS - 1];
        self.reached.iter_mut().for_each(|count| *count *= MEMORY);
    }

    /// Further accesses to expect of a location that has been accessed `n` times within the window.
    pub fn further(&self, n: u32) -> f64 {
        self.further[(n as usize).min(COUNTS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_comes_back_never_and_a_hot_spot_as_often_as_others_did() {
        let (mut scan, mut spot) = (Comeback::default(), Comeback::default());
        assert_eq!(scan.further(1), 0.0, "nothing is known");
        (0..50_000).for_each(|_| scan.reach(1));
        (0..5_000).for_each(|_| (1..=16).for_each(|n| spot.reach(n)));
        assert_eq!(scan.further(1), 0.0);
        let (first, twelfth) = (spot.further(1), spot.further(12));
        assert!((first - 15.0).abs() < 3.0 && (twelfth - 4.0).abs() < 1.0, "{first} {twelfth}");
        assert_eq!(spot.further(16), 0.0);
        // The spot is gone: soon nothing is expected any more.
        (0..30_000).for_each(|_| spot.reach(1));
        assert!(spot.further(1) < 0.05, "{}", spot.further(1));
    }
}
