//! What a number of nodes asks of the namespace, the store and the leader per second, and how many each can serve.

use super::{CALLS_OF_OPEN, Costs, Load, Setup};
use policy::Time;

/// More nodes are not looked for.
const NODES_MAX: u64 = 1 << 24;
/// Calls of the store for a batch: one by its sender, one by the leader.
pub(super) const CALLS_OF_BATCH: u32 = 2;
/// Calls of one that enters a file as a writer, and leaves it: its mark is set, the stub looked at (names, source,
/// size), the mark removed.
pub(super) const CALLS_OF_WRITER: u32 = 5;
/// Of one that moves a file that nobody writes: a look, its claim, a look, the record, and what is over is removed.
pub(super) const CALLS_OF_MOVE: u32 = 7;
/// From one look of a node at the space of a target that it does not use to the next: `store::target`, `watch`.
const SPACE_EVERY: Time = Time::from_secs(60);

/// Seconds of work per second.
pub struct Demand<'a>(pub &'a Setup);

impl Demand<'_> {
    fn costs(&self) -> &Costs {
        &self.0.costs
    }

    fn load(&self) -> &Load {
        &self.0.load
    }

    /// Listings of the lease files.
    fn looks(&self, nodes: u64) -> f64 {
        let lease = &self.0.lease;
        // The others look as rarely as nodes ever do.
        let most = nodes.min(1 << 16);
        let rare = (nodes - most) as f64 / lease.look_every_at(usize::MAX).as_secs_f64();
        (0..most as usize).map(|lower| 1.0 / lease.look_every_at(lower).as_secs_f64()).sum::<f64>() + rare
    }

    /// Of all servers of the namespace, for leases.
    pub fn leases(&self, nodes: u64) -> f64 {
        let (costs, names) = (self.costs(), 2.0 * (nodes + u64::from(self.0.past)) as f64 + 1.0);
        let list = f64::from(costs.servers) * costs.list.as_secs_f64() + names * costs.name.as_secs_f64();
        let renewals = nodes as f64 / self.0.lease.renew_every.as_secs_f64();
        renewals * costs.rename.as_secs_f64() + self.looks(nodes) * list
    }

    /// Of all servers of the namespace.
    pub fn namespace(&self, nodes: u64) -> f64 {
        let load = self.load();
        let opens = (load.opens + load.writes) * f64::from(CALLS_OF_OPEN) + load.writes * f64::from(CALLS_OF_WRITER);
        let calls = nodes as f64 * opens + load.moves * f64::from(CALLS_OF_MOVE);
        self.leases(nodes) + calls * self.costs().attribute.as_secs_f64()
    }

    /// Of the store.
    pub fn store(&self, nodes: u64) -> f64 {
        nodes as f64 * self.load().batches * f64::from(CALLS_OF_BATCH) * self.costs().store.as_secs_f64()
    }

    /// Of the leader.
    pub fn leader(&self, nodes: u64) -> f64 {
        nodes as f64 * self.load().batches * f64::from(self.load().events) * self.costs().event.as_secs_f64()
    }

    /// The most nodes for which what is asked does not exceed so much.
    pub fn most(&self, asked: impl Fn(&Self, u64) -> f64, most: f64) -> u64 {
        let (mut fits, mut exceeds) = (0, NODES_MAX);
        while exceeds - fits > 1 {
            let nodes = (fits + exceeds) / 2;
            if asked(self, nodes) <= most { fits = nodes } else { exceeds = nodes }
        }
        fits
    }

    /// Looks at the space of targets per second, and the seconds until all have read the states of all targets.
    pub fn targets(&self) -> (f64, f64) {
        let all = f64::from(self.0.nodes) * f64::from(self.0.targets);
        (all / SPACE_EVERY.as_secs_f64(), all * self.costs().record.as_secs_f64())
    }
}
