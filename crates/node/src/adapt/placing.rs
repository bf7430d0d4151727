//! Placement of new segments: dealt to the devices in proportion to their speed, as in the paper's model, or in turn.

use object::target::Targets;
use parking_lot::Mutex;
use policy::TargetId;
use policy::tier::cost::Costs;
use policy::tier::split::Split;
use policy::tier::{Region, Tier};
use std::sync::Arc;

/// Deals new segments to tiers.
pub struct Placing {
    targets: Arc<Targets>,
    tiers: [u8; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    deal: Option<Deal>,
    /// Segments that the fast tier has room for.
    room: u64,
    /// Whether the devices write more than they read.
    writes: bool,
    /// Speeds of a fast and of a slow device, reading and writing; `None` if all devices count as equally fast.
    speeds: Option<[[f64; 2]; 2]>,
}

/// Distribution of segments over the targets that existed when it was made.
struct Deal {
    targets: Vec<(TargetId, Tier)>,
    weights: Vec<f64>,
    split: Split,
}

impl Placing {
    pub(super) fn new(targets: Arc<Targets>, fast: u8, slow: u8) -> Placing {
        Placing { targets, tiers: [fast, slow], state: Mutex::default() }
    }

    /// Sets the speeds of the devices. Without `proportional`, segments are dealt in turn.
    pub(super) fn set_costs(&self, costs: &Costs, proportional: bool, segment_bytes: u64) {
        let speed = |tier, region| 1.0 / costs.of(tier).access_ns(region, segment_bytes as f64).max(1e-9);
        let speeds =
            [Tier::Fast, Tier::Slow].map(|tier| [Region::Read, Region::Write].map(|region| speed(tier, region)));
        let mut state = self.state.lock();
        (state.speeds, state.deal) = (proportional.then_some(speeds), None);
    }

    /// Sets the number of segments that have room on the fast tier, and the prevailing kind of access.
    pub(super) fn publish(&self, room: u64, region: Region) {
        let mut state = self.state.lock();
        (state.room, state.writes) = (room, region == Region::Write);
    }

    /// Tier of the next segment, by its number in the volume; `None` if neither tier takes it.
    pub fn next(&self) -> Option<u8> {
        let views = self.targets.views();
        let of = |tier: u8| self.tiers.iter().position(|known| *known == tier);
        let now: Vec<(TargetId, Tier)> =
            views.iter().filter_map(|view| Some((view.id, [Tier::Fast, Tier::Slow][of(view.tier)?]))).collect();
        let State { deal, room, writes, speeds } = &mut *self.state.lock();
        let weight = |tier: Tier| speeds.map_or(1.0, |s| s[tier as usize][usize::from(*writes)]);
        let weights: Vec<f64> = now.iter().map(|(_, tier)| weight(*tier)).collect();
        if deal.as_ref().is_none_or(|deal| deal.targets != now || deal.weights != weights) {
            *deal = Some(Deal { split: Split::new(&weights), targets: now, weights });
        }
        let deal = deal.as_mut()?;
        let usable = |id: TargetId| views.iter().any(|view| view.id == id && view.usable);
        let may = |at: usize| usable(deal.targets[at].0) && (*room > 0 || deal.targets[at].1 == Tier::Slow);
        let tier = deal.targets[deal.split.next(may)?].1;
        if tier == Tier::Fast {
            *room = room.saturating_sub(1); // an estimate, which the next plan corrects
        }
        Some(self.tiers[tier as usize])
    }
}
