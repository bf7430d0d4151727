//! Value of a promotion at the access, when the bytes of the location are in memory.
//!
//! A location is promoted now if three conditions hold. It must be better than at the next access, worth more than the
//! location that leaves, and profitable at all:
//!
//! ```text
//!   next     saving of the next access on the fast tier: a read, or a write less the bytes to write back for it
//!   now      comes * next - (1 - comes) * write to the fast tier (done then as well) - reading the rest, twice
//!   saves    further * next  >  costs   write to the fast tier + reading the rest, twice
//!   loss     of the one that leaves: comes at its age * (next + write to the fast tier) + write back, unless clean
//!   promote  saves > costs  and  now > loss, or > 0 if there is room
//! ```
//! The probabilities are learned ([`crate::tier::hit_rate`]). Device time counts at its price: an idle device costs
//! less. Bytes of a block that are not in memory count twice, since reading them uses budget of the slow tier that
//! others need.

use super::Tuned;
use crate::tier::ghosts::Stay;
use crate::tier::{Location, Region, Tier};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Capacity of the ghost list, in multiples of the fast tier's locations.
const LIST: usize = 2;

/// Least price of the write to the fast tier, even if that is idle: a tiny gain causes no move.
const PRICE_MIN: f64 = 0.1;

/// Weight of reading bytes that are not in memory.
const REST: f64 = 2.0;

/// A promotion at the access, in device time at its price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Time that the following accesses save.
    pub saves_ns: f64,
    /// Cost of the promotion.
    pub costs_ns: f64,
    /// Gain over a promotion at the next access.
    pub now_ns: f64,
}

impl Tuned {
    /// Sets the number of locations in the fast tier; the ghost list has at most `most` entries.
    pub fn set_room(&mut self, fast: u64, most: usize) {
        let fast = usize::try_from(fast).unwrap_or(usize::MAX);
        self.list = fast.saturating_mul(LIST).min(most).max(1);
    }

    /// Records an access to a location.
    pub fn accessed(&mut self, location: Location, region: Region) {
        let before = self.ghosts.touch(location, region);
        self.hit_rate.accessed(before, &self.ghosts, self.list);
        while let Some(stay) = self.ghosts.end(self.list) {
            self.hit_rate.ended(stay, &self.ghosts);
        }
    }

    /// Forgets a removed location.
    pub fn gone(&mut self, location: Location) {
        if let Some(stay) = self.ghosts.forget(location) {
            self.hit_rate.leaves(stay);
        }
    }

    /// Forgets a removed file.
    pub fn removed(&mut self, file: u64) {
        self.ghosts.of_file(file).into_iter().for_each(|location| self.gone(location));
    }

    /// Returns the value of promoting a location that was just accessed; `rest_bytes` of it are not in memory.
    pub fn at_hand(&self, location: Location, rest_bytes: f64, block_bytes: f64) -> Offer {
        let stay = self.ghosts.get(location);
        let comes = self.hit_rate.comes(stay.accesses(), 0);
        let next_ns = self.next_saves(&stay, block_bytes);
        let rest = if rest_bytes > 0.0 { self.costs.slow.access_ns(Region::Read, rest_bytes) } else { 0.0 };
        let rest_ns = REST * self.prices[Tier::Slow as usize] * rest;
        let write_ns = self.fast_write_ns(block_bytes);
        Offer {
            saves_ns: self.hit_rate.further(stay.accesses()) * next_ns,
            costs_ns: write_ns + rest_ns,
            now_ns: comes * next_ns - (1.0 - comes) * write_ns - rest_ns,
        }
    }

    /// Returns the loss if a location leaves the fast tier now.
    pub fn loss(&self, location: Location, clean: bool, block_bytes: f64) -> f64 {
        let leaves = if clean { 0.0 } else { self.write_back_ns(block_bytes) };
        let stay = self.ghosts.get(location);
        if stay.last == 0 {
            return leaves;
        }
        let comes = self.hit_rate.comes(stay.accesses(), self.ghosts.accesses() - stay.last);
        comes * (self.next_saves(&stay, block_bytes).max(0.0) + self.fast_write_ns(block_bytes)) + leaves
    }

    /// Returns the locations of the fast tier, smallest loss first.
    pub fn by_loss(
        &self,
        fast: &BTreeSet<Location>,
        copies: &BTreeMap<Location, Time>,
        block_bytes: f64,
    ) -> Vec<Location> {
        let all = self.least_first(fast, |at| self.loss(at, copies.contains_key(&at), block_bytes));
        all.into_iter().map(|(_, at)| at).collect()
    }

    /// Returns the expected number of further writes to a location.
    pub fn further_writes(&self, location: Location) -> f64 {
        let stay = self.ghosts.get(location);
        if stay.last == 0 { 0.0 } else { self.hit_rate.further(stay.accesses()) * self.writes_share(&stay) }
    }

    /// Returns the cost of writing a location back to the slow tier, in device time at its price.
    pub(super) fn write_back_ns(&self, block_bytes: f64) -> f64 {
        self.moving_ns(Tier::Slow, block_bytes)
    }

    fn fast_write_ns(&self, block_bytes: f64) -> f64 {
        self.prices[Tier::Fast as usize].max(PRICE_MIN) * self.costs.fast.access_ns(Region::Write, block_bytes)
    }

    /// Returns the time that the next access saves on the fast tier. The last write of a series has to be written back.
    fn next_saves(&self, stay: &Stay, block_bytes: f64) -> f64 {
        let writes = self.writes_share(stay);
        let last_write = (-self.hit_rate.further(stay.accesses().saturating_add(1)) * writes).exp();
        self.access_saves(stay) - writes * last_write * self.write_back_ns(block_bytes)
    }

    /// Returns the time that an access to a location saves on the fast tier.
    pub(super) fn access_saves(&self, stay: &Stay) -> f64 {
        let writes = self.writes_share(stay);
        let saved = |region: Region| self.saved_ns(region, self.bytes[region as usize]);
        (1.0 - writes) * saved(Region::Read) + writes * saved(Region::Write)
    }

    /// Returns the share of writes in a location's accesses: its own count, and one access of average kind.
    fn writes_share(&self, stay: &Stay) -> f64 {
        let all = self.writes / (1.0 + self.writes);
        (f64::from(stay.writes) + all) / (f64::from(stay.accesses()) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::cost::Costs;

    const BLOCK: f64 = 65536.0;

    fn at(segment: u64) -> Location {
        Location { file: 0, segment }
    }

    /// Three hundred whole blocks are read in turn, each followed by a block that is read once.
    fn trained() -> Tuned {
        let mut tuned = Tuned::new(Costs::default());
        tuned.set_room(1000, usize::MAX);
        tuned.bytes = [BLOCK, BLOCK];
        for n in 0..5_000 {
            tuned.accessed(at(n % 300), Region::Read);
            tuned.accessed(at(1_000 + n), Region::Read);
        }
        tuned
    }

    #[test]
    fn what_comes_back_is_worth_its_write_and_not_everything_is_worth_reading_the_rest() {
        let tuned = trained();
        let whole = tuned.at_hand(at(4_999 % 300), 0.0, BLOCK);
        assert!(whole.saves_ns > whole.costs_ns && whole.now_ns > 0.0, "{whole:?}");
        let part = tuned.at_hand(at(4_999 % 300), 61_440.0, BLOCK);
        assert!(part.now_ns < 0.0 && part.costs_ns > whole.costs_ns, "it would be read twice for one access: {part:?}");
        let once = tuned.at_hand(at(5_999), 0.0, BLOCK);
        assert!(once.saves_ns <= once.costs_ns || once.now_ns <= 0.0, "{once:?}");
    }

    #[test]
    fn who_leaves_is_clean_and_cold() {
        let tuned = trained();
        let fast: BTreeSet<Location> = [5_990, 5_900, 4_999 % 300, 5_991].map(at).into();
        let clean: BTreeMap<Location, Time> = [5_990, 5_900, 4_999 % 300].map(|block| (at(block), Time::ZERO)).into();
        let order: Vec<u64> = tuned.by_loss(&fast, &clean, BLOCK).iter().map(|at| at.segment).collect();
        assert_eq!(
            order[2..],
            [4_999 % 300, 5_991],
            "what comes back, and last what has to be written back: {order:?}"
        );
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut tuned = trained();
        tuned.gone(at(3));
        assert_eq!((tuned.ghosts.get(at(3)).last, tuned.loss(at(3), true, BLOCK)), (0, 0.0));
        tuned.removed(0);
        assert!(tuned.ghosts.is_empty() && tuned.further_writes(at(4)) == 0.0);
    }
}
