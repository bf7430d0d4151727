//! Two tiers of devices under one file system: how fast a workload is, depending on where its data lie.
//!
//! This is [`crate::volume`] with blocks as its load and tiers as its one mechanism, on the devices of the paper: a service
//! time of latency plus bytes over bandwidth, first come first served; moves queue with everything else. Where blocks
//! lie or are served otherwise, that is a scheme to compare with.
//!
//! Memory is linear in the trace: it is held, so that every scheme sees the same requests and the offline optimum can look ahead.

mod scheme;
#[cfg(test)]
mod tests;
mod working_set;

pub use crate::volume::{Arrivals, PageCacheSetup, Piece, Played as Figures, Requests};
pub use scheme::Scheme;
pub use working_set::working_sets;

use crate::storage::Device;
use crate::volume::{self, Baseline, Blocks, Target, Tiers};
use policy::tier::cost::Costs;
use policy::tier::machine::Logged;
use policy::tier::{Region, Tier};
use policy::time::Time;

/// Room on a target that has room for everything.
const ENOUGH_BYTES: u64 = 1 << 60;

/// The devices and the load on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The devices.
    pub costs: Costs,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// Bytes of a location: the stripe.
    pub block_bytes: u64,
    /// When requests are issued.
    pub arrivals: Arrivals,
    /// The first requests, which are not counted: what is hot moves meanwhile, and devices fill their queues.
    pub warm_up: u64,
    /// Moves are made at once and cost nothing: the limit of what a planner's choices are worth.
    pub free_moves: bool,
    /// After so many requests, each time, the devices rest for so long.
    pub rest: Option<(usize, Time)>,
    /// What the trace reads before it writes it has lain there for so long when the first request comes, and the devices had nothing to do; zero:
    /// everything is placed when it is first asked for.
    pub before: Time,
    /// Bytes of the slow tier, as far as slow copies must keep to them.
    pub slow_bytes: Option<u64>,
    /// Percent of these that copies leave free.
    pub copies_free_percent: u32,
    /// What answers reads before the devices do, if anything.
    pub page_cache: Option<PageCacheSetup>,
    /// Check the accounts after every event.
    pub check: bool,
}

/// Runs all requests under a scheme.
pub fn run(setup: &Setup, scheme: &Scheme, requests: &Requests) -> Figures {
    let with = |balanced| volume::play(setup.volume(scheme), &setup.blocks(scheme, requests, balanced), requests);
    let one = with(true);
    if !matches!(scheme, Scheme::Optimum { .. }) {
        return one;
    }
    let other = with(false);
    let better = one.span_s < other.span_s || one.span_s <= other.span_s && one.mean_ms <= other.mean_ms;
    if better { one } else { other }
}

/// Runs all requests under a scheme that reorganises, and gives what went into its machine and came out.
pub fn run_logged(setup: &Setup, scheme: &Scheme, requests: &Requests) -> (Figures, Vec<Logged>) {
    volume::play_logged(setup.volume(scheme), &setup.blocks(scheme, requests, true), requests)
}

impl Setup {
    /// The volume that a scheme needs.
    fn volume(&self, scheme: &Scheme) -> volume::Setup {
        let target =
            |tier: Tier, bytes| Target { tier: tier as u8, bytes, device: Device::of_cost(self.costs.of(tier)) };
        // Of the blocks that there is room for, some devices take one more than others.
        let (blocks, devices) = (self.fast_bytes / self.block_bytes, u64::from(self.costs.fast_devices.max(1)));
        let room = |nth: u64| match scheme {
            Scheme::FastOnly => ENOUGH_BYTES,
            _ => (blocks / devices + u64::from(nth < blocks % devices)).saturating_mul(self.block_bytes),
        };
        let fast = (0..u64::from(self.costs.fast_devices)).map(|nth| target(Tier::Fast, room(nth)));
        let slow = (0..self.costs.slow_devices).map(|_| target(Tier::Slow, ENOUGH_BYTES));
        let tiers = match scheme {
            Scheme::Reorganized { config, .. } => Some(*config),
            _ => None,
        };
        volume::Setup {
            config: policy::volume::Config { tiers, ..policy::volume::Config::default() },
            targets: fast.chain(slow).collect(),
            segment_bytes: self.block_bytes,
            stripe_count: 1,
            stripe_bytes: self.block_bytes,
            free_copies: self.free_moves,
            copies_free_percent: self.copies_free_percent,
            copies_within: self.slow_bytes,
            check: self.check,
            ..volume::Setup::default()
        }
    }

    /// The requests as a load of it.
    fn blocks(&self, scheme: &Scheme, requests: &Requests, balanced: bool) -> Blocks {
        let baseline = match *scheme {
            Scheme::Lru => Some(Baseline::Lru { fast_bytes: self.fast_bytes }),
            Scheme::Optimum { window } => {
                let tiers = Tiers { costs: self.costs, blocks: self.fast_bytes / self.block_bytes };
                Some(Baseline::Optimum { window, balanced, tiers })
            }
            _ => None,
        };
        let takes = match scheme {
            Scheme::SlowOnly | Scheme::Lru | Scheme::Optimum { .. } => [false, true],
            Scheme::FastOnly => [true, false],
            _ => [true, true],
        };
        let by_speed = matches!(scheme, Scheme::Proportional | Scheme::Reorganized { proportional: true, .. });
        let reads = (0..requests.len()).filter(|&n| !requests.get(n).write).count() * 2 >= requests.len();
        let region = if reads { Region::Read } else { Region::Write };
        let speed = |tier| 1.0 / self.costs.of(tier).access_ns(region, self.block_bytes as f64).max(1e-9);
        let weight = |tier: Tier| match takes[tier as usize] {
            true if by_speed => speed(tier),
            takes => f64::from(u8::from(takes)),
        };
        let of = |tier: Tier, devices: u32| vec![weight(tier); devices as usize];
        Blocks {
            bytes: self.block_bytes,
            arrivals: self.arrivals,
            warm_up: self.warm_up,
            rest: self.rest,
            before: self.before,
            weights: [of(Tier::Fast, self.costs.fast_devices), of(Tier::Slow, self.costs.slow_devices)].concat(),
            baseline,
            page_cache: self.page_cache,
        }
    }
}
