//! Two tiers of devices under one file system: speed of a workload, depending on the placement of its data.
//!
//! This is [`crate::volume`] with blocks as its load and tiers as its one mechanism, on the devices of the paper.
//! Their service time is latency plus bytes over bandwidth, first come first served; moves share the queues. Other
//! placements are schemes for comparison.
//!
//! Memory is linear in the trace: it is kept, so that every scheme gets the same requests and the offline optimum can
//! look ahead.

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

/// Capacity of a target without a limit.
const ENOUGH_BYTES: u64 = 1 << 60;

/// Devices and their load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Costs of the devices.
    pub costs: Costs,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// Percentage of the fast devices' room that these bytes are, for schemes that reorganise: below 100 the tier has a
    /// limit as a whole, as `[tiering] share_percent` sets it, and its devices have room to spare.
    pub fast_share_percent: u32,
    /// Size of a location: the stripe.
    pub block_bytes: u64,
    /// Times at which requests are issued.
    pub arrivals: Arrivals,
    /// First requests that are not counted, while hot data move and queues fill.
    pub warm_up: u64,
    /// Moves take no time and cost nothing: an upper limit of the value of a planner's choices.
    pub free_moves: bool,
    /// Idle time of the devices after this number of requests, repeated.
    pub rest: Option<(usize, Time)>,
    /// Idle time before the first request, during which data lie in place that the trace reads before it writes them.
    /// Zero: all data are placed at their first request.
    pub before: Time,
    /// Scheme that placed these data; `None`: that of the run.
    pub old: Option<Scheme>,
    /// Size of the slow tier, as a limit for slow copies.
    pub slow_bytes: Option<u64>,
    /// Percentage of it that copies leave free.
    pub copies_free_percent: u32,
    /// Page cache that answers reads before the devices, if any.
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

/// Runs all requests under a scheme that reorganises; returns the events and actions of its machine as well.
pub fn run_logged(setup: &Setup, scheme: &Scheme, requests: &Requests) -> (Figures, Vec<Logged>) {
    volume::play_logged(setup.volume(scheme), &setup.blocks(scheme, requests, true), requests)
}

/// Runs all requests under a scheme other than [`Scheme::Optimum`]; returns the response time of each.
pub fn responses(setup: &Setup, scheme: &Scheme, requests: &Requests) -> Vec<Time> {
    volume::responses(setup.volume(scheme), &setup.blocks(scheme, requests, true), requests)
}

impl Setup {
    /// Returns the volume that a scheme needs.
    fn volume(&self, scheme: &Scheme) -> volume::Setup {
        let target =
            |tier: Tier, bytes| Target { tier: tier as u8, bytes, device: Device::of_cost(self.costs.of(tier)) };
        // If the blocks do not divide evenly, some devices take one more than others.
        let (blocks, devices) = (self.fast_bytes / self.block_bytes, u64::from(self.costs.fast_devices.max(1)));
        let share = u64::from(self.fast_share_percent.clamp(1, 100));
        let room = |nth: u64| match scheme {
            Scheme::FastOnly => ENOUGH_BYTES,
            Scheme::Reorganized { .. } if share < 100 => self.fast_bytes.saturating_mul(100) / share / devices,
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

    /// Returns the requests as a load of the volume.
    fn blocks(&self, scheme: &Scheme, requests: &Requests, balanced: bool) -> Blocks {
        let baseline = match *scheme {
            Scheme::Lru { around } => Some(Baseline::Lru { fast_bytes: self.fast_bytes, around }),
            Scheme::Optimum { window } => {
                let tiers = Tiers { costs: self.costs, blocks: self.fast_bytes / self.block_bytes };
                Some(Baseline::Optimum { window, balanced, tiers })
            }
            _ => None,
        };
        Blocks {
            bytes: self.block_bytes,
            arrivals: self.arrivals,
            warm_up: self.warm_up,
            rest: self.rest,
            before: self.before,
            weights: self.weights(scheme, requests),
            old_weights: self.old.map(|old| self.weights(&old, requests)),
            baseline,
            page_cache: self.page_cache,
        }
    }

    /// Returns the share of the blocks that a scheme places on each device.
    fn weights(&self, scheme: &Scheme, requests: &Requests) -> Vec<f64> {
        let takes = match scheme {
            Scheme::SlowOnly | Scheme::Lru { .. } | Scheme::Optimum { .. } => [false, true],
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
        [of(Tier::Fast, self.costs.fast_devices), of(Tier::Slow, self.costs.slow_devices)].concat()
    }
}
