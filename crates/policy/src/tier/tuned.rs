//! Our planner: a location moves if the expected saving of device time exceeds the cost of the move.
//!
//! ```text
//!   worth(location) = trust * horizon * (reads expected * time a read saves + writes expected * time a write saves)
//!   promote   worth > cost of the move, and it fits
//!   swap      worth(candidate) - worth(coldest on the fast tier) > cost of both moves
//! ```
//! Expected accesses are learned ([`super::gain`]). `trust` is learned from past moves, and from considered moves that
//! were not made: it compares their saving within the horizon with the expected one. When moves do not pay, trust falls
//! and only hotter locations move. Since considered moves cost nothing, it rises again as soon as moves would pay.
//! [`Tuned::threshold`] returns the equivalent H.
//!
//! The fast tier is not overloaded: once it would be busier than the slow one and nearly saturated, promotions stop,
//! because two tiers serve more than one.
//!
//! Ours, beyond the paper: it replaces H and L, weighs moves by bytes, and keeps scans from flushing the fast tier.

mod at_hand;

use super::cost::Costs;
use super::gain::{Expectation, Past};
use super::ghosts::GhostList;
use super::hit_rate::HitRate;
use super::table::LocalityTable;
use super::{Location, Move, Reason, Region, Tier};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Utilisation of the fast tier above which promotions stop.
const SATURATED: f64 = 0.8;

/// Limits of trust.
const TRUST: (f64, f64) = (0.05, 2.0);

/// Most past moves whose gain is measured at a time.
const MEASURED_MAX: usize = 1 << 16;

/// Factor on the cost of writing a location back that new data must save to replace it.
const NEWCOMER_MARGIN: f64 = 1.5;

/// Parameters of the planner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Panes for which a move must pay.
    pub horizon_panes: u32,
}

impl Default for Config {
    /// Eight panes: two windows of the default four.
    fn default() -> Config {
        Config { horizon_panes: 8 }
    }
}

/// Measurements of a pane that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pane {
    /// Length of the pane, in nanoseconds.
    pub span_ns: f64,
    /// Device time of the accesses to the fast tier, summed over its devices.
    pub fast_busy_ns: f64,
    /// Device time of the accesses to the slow tier, likewise.
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
    config: Config,
    costs: Costs,
    read: Expectation,
    write: Expectation,
    trust: f64,
    measured: BTreeMap<Location, Measured>,
    threshold: Option<u32>,
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

#[derive(Clone, Copy, Debug)]
struct Measured {
    expected_ns: f64,
    panes: u32,
    /// Whether it was promoted, or only considered.
    made: bool,
}

/// Value of a location on the fast tier, and its load on both tiers per pane.
#[derive(Clone, Copy, Debug)]
struct Worth {
    saves_ns: f64,
    fast_ns: f64,
    slow_ns: f64,
}

impl Tuned {
    /// Makes a planner for these devices and windows of `panes` panes.
    pub fn new(config: Config, costs: Costs, panes: usize) -> Tuned {
        let before = panes.saturating_sub(1);
        let (read, write) = (Expectation::new(before), Expectation::new(before));
        Tuned {
            config,
            costs,
            read,
            write,
            trust: 1.0,
            measured: BTreeMap::new(),
            threshold: None,
            hit_rate: HitRate::default(),
            ghosts: GhostList::default(),
            list: 1,
            prices: [1.0; 2],
            bytes: [0.0; 2],
            writes: 0.0,
        }
    }

    /// Returns the ratio of real to expected savings of past moves, from 0.05 to 2.
    pub fn trust(&self) -> f64 {
        self.trust
    }

    /// Returns the least number of reads within a pane (a power of two) that pays for the move of a new location;
    /// `None`: none does.
    pub fn threshold(&self) -> Option<u32> {
        self.threshold
    }

    /// Starts measuring the saving of a promotion.
    pub fn promoted(&mut self, location: Location, expected_ns: f64) {
        if self.measured.len() < MEASURED_MAX {
            self.measured.insert(location, Measured { expected_ns, panes: 0, made: true });
        }
    }

    /// Stops measuring a location promoted at the access: its saving is no evidence for planned moves.
    pub fn promoted_at_hand(&mut self, location: Location) {
        self.measured.remove(&location);
    }

    /// Starts measuring a considered promotion that was not made: its saving is equal evidence, at no cost.
    fn left_alone(&mut self, location: Location, expected_ns: f64) {
        if self.measured.len() < MEASURED_MAX / 2 {
            self.measured.entry(location).or_insert(Measured { expected_ns, panes: 0, made: false });
        }
    }

    /// Ends the measurement of a location that left the fast tier.
    pub fn left(&mut self, location: Location) {
        if self.measured.get(&location).is_some_and(|of| of.made) {
            self.measured.remove(&location);
        }
    }

    /// Learns from the pane that ends, in both tables. Call before [`LocalityTable::turn`].
    pub fn learn(&mut self, read: &LocalityTable, write: &LocalityTable, pane: &Pane) {
        for (table, learned) in [(read, &mut self.read), (write, &mut self.write)] {
            for (_, entry) in table.iter() {
                let (now, recent, older) = table.by_age(entry);
                if recent + older > 0 {
                    learned.observe(Past { recent, older }, now);
                }
            }
            learned.turn();
        }
        self.bytes = [pane.read_bytes, pane.write_bytes];
        self.writes = pane.writes_per_read;
        self.price(pane);
        let now = |table: &LocalityTable, at| table.get(at).map_or(0, |entry| table.by_age(entry).0);
        let (read_saves, write_saves) =
            (self.saved_ns(Region::Read, pane.read_bytes), self.saved_ns(Region::Write, pane.write_bytes));
        let horizon = self.config.horizon_panes.max(1);
        let (mut expected, mut saved) = (0.0, 0.0);
        self.measured.retain(|&at, measured| {
            // Pane by pane, so that unprofitable moves are noticed at once.
            saved += f64::from(now(read, at)) * read_saves + f64::from(now(write, at)) * write_saves;
            expected += measured.expected_ns / f64::from(horizon);
            measured.panes += 1;
            measured.panes < horizon
        });
        self.settle(expected, saved);
    }

    /// Returns the moves, most valuable first. Call after [`LocalityTable::turn`]. `fast` are the locations on the fast
    /// tier.
    pub fn plan(
        &mut self,
        read: &LocalityTable,
        write: &LocalityTable,
        fast: &BTreeSet<Location>,
        copies: &BTreeMap<Location, Time>,
        pane: &Pane,
    ) -> Vec<Move> {
        let promote_ns = self.moving_ns(Tier::Fast, pane.block_bytes);
        let demote_ns = self.write_back_ns(pane.block_bytes);
        let worth_at = |recent| self.worth(Past { recent, older: 0 }, Past::default(), pane).saves_ns;
        self.threshold = (0..16).map(|log| 1 << log).find(|&hot| worth_at(hot) > promote_ns);
        let mut candidates = self.worth_more(read, write, fast, pane, promote_ns * self.trust.min(1.0));
        for &(saves, location) in &candidates {
            self.left_alone(location, saves);
        }
        candidates.retain(|(saves, _)| *saves > promote_ns);
        let worth = |at: Location| self.worth_of(read, write, at, pane);
        let victims = self.ranked(read, write, fast, pane);
        let mut victims = victims.into_iter().peekable();

        let mut moves = Vec::new();
        for (_, location) in victims.by_ref().take(usize::try_from(pane.excess).unwrap_or(usize::MAX)) {
            moves.push(Move { location, to: Tier::Slow, reason: Reason::OverShare });
        }
        let mut room = pane.room;
        let mut busy = Busy::new(pane, &self.costs);
        for (saves, location) in candidates {
            let of = worth(location);
            if busy.refuses(&of) {
                continue;
            }
            if room > 0 {
                room -= 1;
            } else {
                let Some(&(victim_worth, victim)) = victims.peek() else { break };
                // The coldest victim must be worth so much less that both moves pay.
                let leaves_ns = if copies.contains_key(&victim) { 0.0 } else { demote_ns };
                if saves - victim_worth.max(0.0) <= promote_ns + leaves_ns {
                    break;
                }
                victims.next();
                let reason = Reason::Room { worth_ns: victim_worth.max(0.0) as u64 };
                moves.push(Move { location: victim, to: Tier::Slow, reason });
                busy.demote(&worth(victim));
            }
            busy.promote(&of);
            let reason = Reason::Gain { saves_ns: saves as u64, costs_ns: promote_ns as u64 };
            moves.push(Move { location, to: Tier::Fast, reason });
        }
        // Room for data written next, if that is worth more than the coldest locations.
        let further = self.hit_rate.further(1);
        let saved = self.saved_ns(Region::Write, pane.write_bytes);
        let new_ns = (1.0 + further) * saved;
        for (victim_worth, victim) in victims.take(pane.newcomers.saturating_sub(room) as usize) {
            let leaves_ns = if copies.contains_key(&victim) { 0.0 } else { self.write_back_ns(pane.block_bytes) };
            if new_ns - victim_worth.max(0.0) <= NEWCOMER_MARGIN * leaves_ns {
                break;
            }
            moves.push(Move {
                location: victim,
                to: Tier::Slow,
                reason: Reason::Room { worth_ns: victim_worth.max(0.0) as u64 },
            });
        }
        moves
    }

    /// Returns the locations off the fast tier that would save more than a limit there, most valuable first.
    fn worth_more(
        &self,
        read: &LocalityTable,
        write: &LocalityTable,
        fast: &BTreeSet<Location>,
        pane: &Pane,
        least_ns: f64,
    ) -> Vec<(f64, Location)> {
        let locations: BTreeSet<Location> = read.iter().chain(write.iter()).map(|(at, _)| at).collect();
        let elsewhere = locations.difference(fast);
        let all = elsewhere.map(|&at| (self.worth_of(read, write, at, pane).saves_ns, at));
        let mut all: Vec<(f64, Location)> = all.filter(|(saves, _)| *saves > least_ns).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        all
    }

    /// Ranks the locations of the fast tier by their value there.
    fn ranked(
        &self,
        read: &LocalityTable,
        write: &LocalityTable,
        fast: &BTreeSet<Location>,
        pane: &Pane,
    ) -> Vec<(f64, Location)> {
        self.least_first(fast, |at| self.worth_of(read, write, at, pane).saves_ns)
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

    fn worth_of(&self, read: &LocalityTable, write: &LocalityTable, at: Location, pane: &Pane) -> Worth {
        self.worth(seen(read, at), seen(write, at), pane)
    }

    fn worth(&self, reads: Past, writes: Past, pane: &Pane) -> Worth {
        let (reads, writes) = (self.read.expect(reads), self.write.expect(writes));
        let on = |tier: Tier| {
            let device = self.costs.of(tier);
            reads * device.access_ns(Region::Read, pane.read_bytes)
                + writes * device.access_ns(Region::Write, pane.write_bytes)
        };
        let (fast_ns, slow_ns) = (on(Tier::Fast), on(Tier::Slow));
        let [fast_price, slow_price] = self.prices;
        let saves_ns =
            self.trust * f64::from(self.config.horizon_panes) * (slow_ns * slow_price - fast_ns * fast_price);
        Worth { saves_ns, fast_ns, slow_ns }
    }

    /// Sets prices: the time of a tier that is half as busy is worth half as much, once the other tier is saturated.
    fn price(&mut self, pane: &Pane) {
        let busy = Busy::new(pane, &self.costs);
        let share = [busy.fast / busy.fast_capacity, busy.slow / busy.slow_capacity];
        let most = share[0].max(share[1]);
        let short = ((most - 0.5) * 4.0).clamp(0.0, 1.0);
        self.prices = share.map(|share| 1.0 - short * (1.0 - share / most.max(1e-9)));
    }

    /// Moves trust a quarter of the way to the saving ratio of the pane, once a pane.
    fn settle(&mut self, expected: f64, saved: f64) {
        if expected > 0.0 {
            // The expected value was scaled by the trust at that time.
            let kept = (saved / expected).clamp(0.0, 4.0);
            self.trust = (self.trust * (0.75 + 0.25 * kept)).clamp(TRUST.0, TRUST.1);
        }
    }
}

/// Returns the past of a location in a table. In the middle of a pane its accesses count as recent ones.
fn seen(table: &LocalityTable, at: Location) -> Past {
    let (now, recent, older) = table.get(at).map_or((0, 0, 0), |entry| table.by_age(entry));
    Past { recent: now.max(recent), older }
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

    fn refuses(&self, of: &Worth) -> bool {
        let fast = (self.fast + of.fast_ns) / self.fast_capacity;
        fast > SATURATED && fast > (self.slow - of.slow_ns) / self.slow_capacity
    }

    fn promote(&mut self, of: &Worth) {
        self.fast += of.fast_ns;
        self.slow = (self.slow - of.slow_ns).max(0.0);
    }

    fn demote(&mut self, of: &Worth) {
        self.slow += of.slow_ns;
        self.fast = (self.fast - of.fast_ns).max(0.0);
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

    /// Ten panes: in each, `hot` is read eight times and a new range is scanned once.
    fn trained(hot: std::ops::Range<u64>) -> (Tuned, LocalityTable, LocalityTable) {
        let mut tuned = Tuned::new(Config::default(), Costs::default(), 4);
        let (mut read, write) = (LocalityTable::new(4, 10_000), LocalityTable::new(4, 10_000));
        for n in 0..10u64 {
            (0..8).for_each(|_| hot.clone().for_each(|block| read.touch(Time(n), at(block))));
            (0..200).for_each(|block| read.touch(Time(n), at(1000 + n * 200 + block)));
            tuned.learn(&read, &write, &pane(0));
            read.turn();
        }
        (tuned, read, write)
    }

    #[test]
    fn hot_locations_move_and_a_scan_does_not() {
        let (mut tuned, read, write) = trained(0..16);
        let moves = tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &pane(100));
        let moved: BTreeSet<u64> = moves.iter().map(|of| of.location.segment).collect();
        assert_eq!(moved, (0..16).collect());
        assert!(moves.iter().all(|of| of.to == Tier::Fast && matches!(of.reason, Reason::Gain { .. })));
        assert!(tuned.threshold().is_some_and(|h| (2..=24).contains(&h)), "{:?}", tuned.threshold());
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
    fn moves_that_do_not_pay_cost_trust_and_raise_the_threshold() {
        let (mut tuned, read, write) = trained(0..16);
        tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &pane(100));
        let (before, trusted) = (tuned.threshold().unwrap(), tuned.trust());
        for n in 0..100 {
            tuned.promoted(at(9000 + n), 1e9);
        }
        let quiet = LocalityTable::new(4, 10);
        (0..9).for_each(|_| tuned.learn(&quiet, &quiet, &pane(0)));
        assert!(tuned.trust() < 0.6 * trusted, "{}", tuned.trust());
        tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &pane(100));
        assert!(tuned.threshold().is_none_or(|after| after >= before));
    }

    #[test]
    fn moves_that_were_only_thought_of_teach_as_much() {
        let (mut tuned, mut read, write) = trained(0..16);
        // Nothing may be moved, and the hot locations stay hot: moves would have paid.
        let full = Pane { span_ns: 1e9, fast_busy_ns: 3.9e9, slow_busy_ns: 2e9, ..pane(100) };
        for n in 10..30 {
            assert!(tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &full).is_empty());
            (0..8).for_each(|_| (0..16).for_each(|block| read.touch(Time(n), at(block))));
            tuned.learn(&read, &write, &pane(0));
            read.turn();
        }
        let paid = tuned.trust();
        for _ in 0..8 {
            tuned.plan(&read, &write, &BTreeSet::new(), &BTreeMap::new(), &full);
            tuned.learn(&read, &write, &pane(0));
            read.turn();
        }
        assert!(paid > 0.8 && tuned.trust() < 0.7 * paid, "{paid} {}", tuned.trust());
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
