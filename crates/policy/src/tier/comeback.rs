//! How often a location that was just accessed for the n-th time will be accessed again: learned from all locations.
//!
//! A location's accesses are counted as long as none of its windows is empty (its stay). Every access that brings one to its n-th counts as
//! having reached `n`; those that reached `n + 1` of those that reached `n` are the chance of one more access. Chances are shared by counts of like
//! size (1, 2-3, 4-7, ..), and multiplied along the way:
//!
//! ```text
//!   comes(n)   = reached(n + 1) / reached(n)
//!   further(n) = comes(n) * (1 + further(n + 1))
//! ```
//! So what has been hot for long says nothing of what was accessed once: beside a hot spot that never moves, what else is touched now and then
//! does not come back, and is left alone. A scan teaches that nothing comes back, a hot spot that moves that who came twice comes many times. It
//! answers at the first access, when the bytes are at hand and a promotion costs no reading; [`super::gain`] answers at the end of a pane.
//!
//! Ours; it is the survival function of popularity, as admission policies of caches use it.

/// Counts that are told apart. What was accessed more than half as often is expected to go on like that half.
const COUNTS: usize = 256;

/// Accesses after which what was learned is put to use.
const TURN: u32 = 128;

/// What older turns weigh against the newest.
const MEMORY: f64 = 0.93;

/// Locations that the assumption at the start (nothing comes back) counts for.
const PRIOR: f64 = 8.0;

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
    /// A location has been accessed `n` times in its stay now.
    pub fn reach(&mut self, n: u32) {
        if let Some(reached) = self.reached.get_mut(n as usize) {
            *reached += 1.0;
        }
        self.counted += 1;
        if self.counted == TURN {
            self.counted = 0;
            self.turn();
        }
    }

    fn turn(&mut self) {
        // Counts of like size share one chance of another access.
        let mut from = COUNTS / 2;
        let mut above = 0.0;
        while from > 0 {
            let counts = from..2 * from;
            let came: f64 = counts.clone().map(|n| self.reached[n + 1].min(self.reached[n])).sum();
            let comes = came / (self.reached[counts.clone()].iter().sum::<f64>() + PRIOR);
            for n in counts.rev() {
                above = comes * (1.0 + above);
                self.further[n] = above;
            }
            from /= 2;
        }
        self.reached.iter_mut().for_each(|count| *count *= MEMORY);
    }

    /// Further accesses to expect of a location that has been accessed `n` times in its stay.
    pub fn further(&self, n: u32) -> f64 {
        self.further[(n as usize).min(COUNTS / 2)]
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
        assert!((10.0..16.0).contains(&first) && (3.0..8.0).contains(&twelfth), "{first} {twelfth}");
        // The spot is gone: soon nothing is expected any more.
        (0..30_000).for_each(|_| spot.reach(1));
        assert!(spot.further(1) < 0.05, "{}", spot.further(1));
    }

    #[test]
    fn what_has_been_hot_for_long_says_nothing_of_what_was_accessed_once() {
        let mut both = Comeback::default();
        // A hundred hot ones that came long ago, and ever others that come once or twice.
        (1..120).for_each(|n| {
            (0..100).for_each(|_| both.reach(n));
            (0..40).for_each(|k| (1..=1 + u32::from(k % 5 == 0)).for_each(|m| both.reach(m)));
        });
        assert!(both.further(1) < 0.6, "{}", both.further(1));
        assert!(both.further(100) > 10.0, "{}", both.further(100));
    }
}
