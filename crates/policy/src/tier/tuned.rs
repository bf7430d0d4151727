//! Our planner: a location moves if the expected saving of device time exceeds the cost of the move.
//!
//! ```text
//!   worth(location) = accesses expected * time that an access saves
//!   promote   worth > cost of the move, and it fits
//!   swap      worth(candidate) - loss(the location with the least loss on the fast tier) > cost of the promotion
//!   loss      worth + write back, unless clean
//! ```
//! Expected accesses follow from hit rates ([`super::hit_rate`]). [`Tuned::threshold`] returns the equivalent H.
//!
//! The fast tier is not overloaded: promotions stop when it would be nearly saturated and busier than the slow one. Two
//! tiers serve more than one.
//!
//! Ours, beyond the paper: it replaces H and L, weighs moves by bytes, and keeps scans from flushing the fast tier.

mod at_hand;

use super::cost::Costs;
use super::ghosts::{GhostList, Stay};
use super::hit_rate::HitRate;
use super::table::LocalityTable;
use super::{Location, Move, Reason, Region, Tier};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Utilisation of the fast tier above which promotions stop.
const SATURATED: f64 = 0.8;

/// Factor on the cost of writing a location back that new data must save to replace it.
const NEWCOMER_MARGIN: f64 = 1.5;

/// Measurements of a pane that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pane {
    /// Length of the pane, in nanoseconds.
    pub span_ns: f64,
    /// Device time of the accesses to the fast tier, summed over its devices.
    pub fast_busy_ns: f64,
    /// Device time of the accesses to the slow tier, in the same way.
    pub slow_busy_ns: f64,
    /// Mean bytes of a read.
    pub read_bytes: f64,
    /// Mean bytes of a write.
    pub write_bytes: f64,
    /// Free room of the fast tier, in locations.
    pub room: u64,
    /// Bytes of a location.
    pub block_bytes: f64,
    /// Locations that the fast tier holds beyond its share.
    pub excess: u64,
    /// Writes for each read.
    pub writes_per_read: f64,
    /// Locations that were written and had not been accessed within the window before.
    pub newcomers: u64,
}

/// The planner of one volume.
#[derive(Clone, Debug)]
pub struct Tuned {
    costs: Costs,
    hit_rate: HitRate,
    ghosts: GhostList,
    /// Capacity of the ghost list, in locations.
    list: usize,
    /// Price of each tier's device time: lower where devices are idle.
    prices: [f64; 2],
    /// Mean bytes of a read and of a write.
    bytes: [f64; 2],
    /// Writes for each read.
    writes: f64,
}

impl Tuned {
    /// Makes a planner for these devices.
    pub fn new(costs: Costs) -> Tuned {
        Tuned {
            costs,
            hit_rate: HitRate::default(),
            ghosts: GhostList::default(),
            list: 1,
            prices: [1.0; 2],
            bytes: [0.0; 2],
            writes: 0.0,
        }
    }

    /// Returns the least number of reads (a power of two) that pays for the move of a location; `None`: none does.
    pub fn threshold(&self, block_bytes: f64) -> Option<u32> {
        let (promote_ns, saved_ns) =
            (self.moving_ns(Tier::Fast, block_bytes), self.saved_ns(Region::Read, self.bytes[0]));
        (0..16).map(|log| 1 << log).find(|&hot| self.hit_rate.further(hot) * saved_ns > promote_ns)
    }

    /// Returns the moves after a pane, most valuable first. `fast` are the locations on the fast tier, `copies` those of
    /// them with a slow copy.
    pub fn plan(
        &mut self,
        read: &LocalityTable,
        write: &LocalityTable,
        fast: &BTreeSet<Location>,
        copies: &BTreeMap<Location, Time>,
        pane: &Pane,
    ) -> Vec<Move> {
        self.bytes = [pane.read_bytes, pane.write_bytes];
        self.writes = pane.writes_per_read;
        self.price(pane);
        let promote_ns = self.moving_ns(Tier::Fast, pane.block_bytes);
        let leaves_ns = |at| if copies.contains_key(&at) { 0.0 } else { self.write_back_ns(pane.block_bytes) };
        let load = |at| self.load(read, write, at, pane);
        let loss = |at| self.worth_ns(&self.ghosts.get(at)).max(0.0) + leaves_ns(at);
        let mut victims = self.least_first(fast, loss).into_iter().peekable();

        let mut moves = Vec::new();
        for (_, location) in victims.by_ref().take(usize::try_from(pane.excess).unwrap_or(usize::MAX)) {
            moves.push(Move { location, to: Tier::Slow, reason: Reason::OverShare });
        }
        let mut room = pane.room;
        let mut busy = Busy::new(pane, &self.costs);
        for (saves, location) in self.worth_more(fast, promote_ns) {
            let of = load(location);
            if busy.refuses(of) {
                continue;
            }
            if room > 0 {
                room -= 1;
            } else {
                // The victim must be worth so much less that both moves pay.
                let Some((loss, victim)) = victims.next_if(|(loss, _)| saves - loss > promote_ns) else { break };
                moves.push(Move { location: victim, to: Tier::Slow, reason: Reason::Room { worth_ns: loss as u64 } });
                busy.demote(load(victim));
            }
            busy.promote(of);
            let reason = Reason::Gain { saves_ns: saves as u64, costs_ns: promote_ns as u64 };
            moves.push(Move { location, to: Tier::Fast, reason });
        }
        // Room for data written next, if that is worth more than the locations with the least loss.
        let new_ns = (1.0 + self.hit_rate.further(1)) * self.saved_ns(Region::Write, pane.write_bytes);
        for (loss, location) in victims.take(pane.newcomers.saturating_sub(room) as usize) {
            if new_ns <= loss + (NEWCOMER_MARGIN - 1.0) * leaves_ns(location) {
                break;
            }
            moves.push(Move { location, to: Tier::Slow, reason: Reason::Room { worth_ns: loss as u64 } });
        }
        moves
    }

    /// Returns the locations off the fast tier that would save more than a limit there, most valuable first.
    fn worth_more(&self, fast: &BTreeSet<Location>, least_ns: f64) -> Vec<(f64, Location)> {
        let elsewhere = self.ghosts.iter().filter(|(at, _)| !fast.contains(at));
        let all = elsewhere.map(|(at, stay)| (self.worth_ns(stay), at));
        let mut all: Vec<(f64, Location)> = all.filter(|(saves, _)| *saves > least_ns).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        all
    }

    /// Returns the locations of the fast tier, least valuable first; of equal ones, the latest accessed stays longest.
    fn least_first(&self, fast: &BTreeSet<Location>, worth: impl Fn(Location) -> f64) -> Vec<(f64, Location)> {
        let mut all: Vec<(f64, u64, Location)> =
            fast.iter().map(|&at| (worth(at), self.ghosts.get(at).last, at)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        all.into_iter().map(|(worth, _, at)| (worth, at)).collect()
    }

    /// Returns the saving of an access on the fast tier, in device time at its price.
    fn saved_ns(&self, region: Region, bytes: f64) -> f64 {
        let on = |tier: Tier| self.prices[tier as usize] * self.costs.of(tier).access_ns(region, bytes);
        on(Tier::Slow) - on(Tier::Fast)
    }

    /// Returns the cost of moving `bytes`, in device time at its price.
    fn moving_ns(&self, to: Tier, bytes: f64) -> f64 {
        self.prices[to.other() as usize] * self.costs.of(to.other()).access_ns(Region::Read, bytes)
            + self.prices[to as usize] * self.costs.of(to).access_ns(Region::Write, bytes)
    }

    /// Returns the saving of the accesses that are expected of a location on the fast tier.
    fn worth_ns(&self, stay: &Stay) -> f64 {
        if stay.last == 0 {
            return 0.0;
        }
        let count = stay.accesses();
        let comes = self.hit_rate.comes(count, self.ghosts.accesses() - stay.last);
        comes * (1.0 + self.hit_rate.further(count.saturating_add(1))) * self.access_saves(stay)
    }

    /// Returns the device time that the accesses to a location take in a pane, by tier, as in the window.
    fn load(&self, read: &LocalityTable, write: &LocalityTable, at: Location, pane: &Pane) -> [f64; 2] {
        [Tier::Fast, Tier::Slow].map(|tier| {
            let device = self.costs.of(tier);
            read.per_pane(at) * device.access_ns(Region::Read, pane.read_bytes)
                + write.per_pane(at) * device.access_ns(Region::Write, pane.write_bytes)
        })
    }

    /// Sets prices: the time of a tier that is half as busy is worth half as much, once the other tier is saturated.
    fn price(&mut self, pane: &Pane) {
        let busy = Busy::new(pane, &self.costs);
        let share = [busy.fast / busy.fast_capacity, busy.slow / busy.slow_capacity];
        let most = share[0].max(share[1]);
        let short = ((most - 0.5) * 4.0).clamp(0.0, 1.0);
        self.prices = share.map(|share| 1.0 - short * (1.0 - share / most.max(1e-9)));
    }
}

/// Utilisation of both tiers, as changed by the plan.
struct Busy {
    fast: f64,
    slow: f64,
    fast_capacity: f64,
    slow_capacity: f64,
}

impl Busy {
    fn new(pane: &Pane, costs: &Costs) -> Busy {
        let capacity = |devices: u32| (pane.span_ns * f64::from(devices)).max(1.0);
        Busy {
            fast: pane.fast_busy_ns,
            slow: pane.slow_busy_ns,
            fast_capacity: capacity(costs.fast_devices),
            slow_capacity: capacity(costs.slow_devices),
        }
    }

    fn refuses(&self, [fast_ns, slow_ns]: [f64; 2]) -> bool {
        let fast = (self.fast + fast_ns) / self.fast_capacity;
        fast > SATURATED && fast > (self.slow - slow_ns) / self.slow_capacity
    }

    fn promote(&mut self, [fast_ns, slow_ns]: [f64; 2]) {
        self.fast += fast_ns;
        self.slow = (self.slow - slow_ns).max(0.0);
    }

    fn demote(&mut self, [fast_ns, slow_ns]: [f64; 2]) {
        self.slow += slow_ns;
        self.fast = (self.fast - fast_ns).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    const BLOCK: f64 = 65536.0;

    fn at(segment: u64) -> Location {
        Location { file: 0, segment }
    }

    fn pane(room: u64) -> Pane {
        Pane {
            span_ns: 1e12,
            fast_busy_ns: 0.0,
            slow_busy_ns: 0.0,
            read_bytes: BLOCK,
            write_bytes: BLOCK,
            room,
            block_bytes: BLOCK,
            excess: 0,
            writes_per_read: 0.0,
            newcomers: 0,
        }
    }

    /// Ten rounds: in each, `hot` is read eight times and a new range is scanned once.
    fn trained(hot: std::ops::Range<u64>) -> (Tuned, LocalityTable, LocalityTable) {
        let mut tuned = Tuned::new(Costs::default());
        tuned.set_room(1000, usize::MAX);
        let (mut read, write) = (LocalityTable::new(4, 10_000), LocalityTable::new(4, 10_000));
        for n in 0..10u64 {
            let hot = (0..8).flat_map(|_| hot.clone());
            for block in hot.chain((0..200).map(|block| 1000 + n * 200 + block)) {
                read.touch(Time(n), at(block));
                tuned.accessed(at(block), Region::Read);
            }
            read.turn();
        }
        (tuned, read, write)
    }

    #[test]
    fn hot_locations_move_and_a_scan_does_not() {
        let (mut tuned, read, write) = trained(0..16);
        assert_eq!(tuned.threshold(BLOCK), None, "no pane has ended");
        let moves = tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &pane(100));
        let moved: BTreeSet<u64> = moves.iter().map(|of| of.location.segment).collect();
        assert_eq!(moved, (0..16).collect());
        assert!(moves.iter().all(|of| of.to == Tier::Fast && matches!(of.reason, Reason::Gain { .. })));
        assert!(tuned.threshold(BLOCK).is_some_and(|h| (2..=24).contains(&h)), "{:?}", tuned.threshold(BLOCK));
    }

    #[test]
    fn a_full_fast_tier_swaps_only_what_is_worth_both_moves() {
        let (mut tuned, read, write) = trained(0..16);
        let cold: BTreeSet<Location> = (5000..5004).map(at).collect();
        let moves = tuned.plan(&read, &write, &cold, &BTreeMap::new(), &pane(0));
        assert_eq!(moves.len(), 8, "four out, four in");
        assert!(moves.chunks(2).all(|pair| pair[0].to == Tier::Slow && pair[1].to == Tier::Fast));
        let as_hot: BTreeSet<Location> = (0..4).map(at).collect();
        assert!(tuned.plan(&read, &write, &as_hot, &BTreeMap::new(), &pane(0)).is_empty(), "equals are not exchanged");
    }

    #[test]
    fn a_saturated_fast_tier_is_spared() {
        let (mut tuned, read, write) = trained(0..16);
        let busy = Pane { span_ns: 1e9, fast_busy_ns: 3.9e9, slow_busy_ns: 2e9, ..pane(100) };
        assert!(tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &busy).is_empty());
    }

    #[test]
    fn more_than_the_share_is_given_back_the_coldest_first() {
        let (mut tuned, read, write) = trained(0..4);
        let fast: BTreeSet<Location> = (0..8).map(at).collect();
        let moves = tuned.plan(&read, &write, &fast, &BTreeMap::new(), &Pane { excess: 3, ..pane(0) });
        let gone: Vec<_> = moves.iter().map(|of| (of.location.segment, of.to, of.reason)).collect();
        assert_eq!(gone, [4, 5, 6].map(|block| (block, Tier::Slow, Reason::OverShare)));
    }
}
