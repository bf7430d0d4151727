//! The offline optimum for a window: the best blocks for the fast tier, given the future requests.
//!
//! Blocks that save the most device time come first, until the fast tier is full. If clients keep the devices
//! saturated, two tiers serve more than one, so filling ends when both are equally busy. The world tries both and
//! keeps the better one.

use super::requests::Requests;
use policy::tier::cost::Costs;
use policy::tier::{Region, Tier};
use std::collections::BTreeMap;

/// Properties of the tiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tiers {
    /// Costs of the devices.
    pub costs: Costs,
    /// Capacity of the fast tier in blocks.
    pub blocks: u64,
}

/// Returns the blocks to hold for requests `from..to`.
pub(super) fn best(requests: &Requests, tiers: &Tiers, from: usize, to: usize, balanced: bool) -> Vec<u32> {
    let mut worth: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for n in from..to.min(requests.len()) {
        let region = if requests.get(n).write { Region::Write } else { Region::Read };
        for piece in requests.pieces(n) {
            let cost = |tier| tiers.costs.of(tier).access_ns(region, f64::from(piece.bytes));
            let sum = worth.entry(piece.at).or_default();
            sum.0 += cost(Tier::Fast);
            sum.1 += cost(Tier::Slow);
        }
    }
    let devices = |n: u32| f64::from(n.max(1));
    let mut slow: f64 = worth.values().map(|(_, slow)| slow).sum();
    let mut fast = 0.0;
    let mut order: Vec<_> = worth.into_iter().filter(|(_, (fast, slow))| slow > fast).collect();
    let saved = |of: &(u32, (f64, f64))| of.1.1 - of.1.0;
    order.sort_by(|a, b| saved(b).total_cmp(&saved(a)).then(a.0.cmp(&b.0)));
    let mut held = Vec::new();
    for (at, (on_fast, on_slow)) in order.into_iter().take(tiers.blocks as usize) {
        let after = (fast + on_fast) / devices(tiers.costs.fast_devices);
        if balanced && after > slow / devices(tiers.costs.slow_devices) {
            continue;
        }
        fast += on_fast;
        slow -= on_slow;
        held.push(at);
    }
    held
}
