//! Load of a number of nodes on the namespace, the store and the leader, and the maximum of nodes for each.

use super::{CALLS_OF_OPEN, Costs, Load, Setup};
use policy::cluster::idle::{self, Share};
use policy::cluster::past;
use policy::{TargetId, Time};

/// Upper limit of the search for a maximum.
const NODES_MAX: u64 = 1 << 24;
/// Calls of the store for a batch: one by its sender, one by the leader.
pub(super) const CALLS_OF_BATCH: u32 = 2;
/// Calls of a writer that enters a file and leaves it: set the mark, query the stub (names, source, size), remove the
/// mark.
pub(super) const CALLS_OF_WRITER: u32 = 5;
/// Calls of a move of a file without writers: a query, the claim, a query, the record, and the removal of old marks.
pub(super) const CALLS_OF_MOVE: u32 = 7;
/// Size of a message about the space of one target: its number, all its bytes and the free ones, in digits.
const BYTES_OF_SPACE: f64 = 36.0;

/// Returns the number of named nodes that are over at which folding starts.
fn to_fold_at() -> u32 {
    (0..).find(|named| past::to_fold(*named) > 0).unwrap_or_default() as u32
}

/// Load in seconds of work per second.
pub struct Demand<'a>(pub &'a Setup);

impl Demand<'_> {
    fn costs(&self) -> &Costs {
        &self.0.costs
    }

    fn load(&self) -> &Load {
        &self.0.load
    }

    /// Listings of the lease files per second.
    fn looks(&self, nodes: u64) -> f64 {
        let lease = &self.0.lease;
        // The other nodes list at the lowest rate.
        let most = nodes.min(1 << 16);
        let rare = (nodes - most) as f64 / lease.look_every_at(usize::MAX).as_secs_f64();
        (0..most as usize).map(|lower| 1.0 / lease.look_every_at(lower).as_secs_f64()).sum::<f64>() + rare
    }

    /// Load of the leases on all servers of the namespace.
    pub fn leases(&self, nodes: u64) -> f64 {
        let past = if self.0.plain { self.0.past } else { self.0.past.min(to_fold_at()) };
        let (costs, names) = (self.costs(), 2.0 * (nodes + u64::from(past)) as f64 + 1.0);
        let list = f64::from(costs.servers) * costs.list.as_secs_f64() + names * costs.name.as_secs_f64();
        let every = |others: u64| self.0.lease_beside(others as usize).renew_every.as_secs_f64();
        // The first nodes have few others beside them; from a thousand nodes on all renew at the same rate.
        let few = nodes.min(1000);
        let renewals = (0..few).map(|others| 1.0 / every(others)).sum::<f64>() + (nodes - few) as f64 / every(few);
        renewals * costs.rename.as_secs_f64() + self.looks(nodes) * list
    }

    /// Total load on all servers of the namespace.
    pub fn namespace(&self, nodes: u64) -> f64 {
        let load = self.load();
        let opens = (load.opens + load.writes) * f64::from(CALLS_OF_OPEN) + load.writes * f64::from(CALLS_OF_WRITER);
        let calls = nodes as f64 * opens + load.moves * f64::from(CALLS_OF_MOVE);
        self.leases(nodes) + calls * self.costs().attribute.as_secs_f64()
    }

    /// Load on the store.
    pub fn store(&self, nodes: u64) -> f64 {
        nodes as f64 * self.load().batches * f64::from(CALLS_OF_BATCH) * self.costs().store.as_secs_f64()
    }

    /// Load on the leader.
    pub fn leader(&self, nodes: u64) -> f64 {
        nodes as f64 * self.load().batches * f64::from(self.load().events) * self.costs().event.as_secs_f64()
    }

    /// Returns the maximum of nodes for which the load does not exceed `most`.
    pub fn most(&self, asked: impl Fn(&Self, u64) -> f64, most: f64) -> u64 {
        let (mut fits, mut exceeds) = (0, NODES_MAX);
        while exceeds - fits > 1 {
            let nodes = (fits + exceeds) / 2;
            if asked(self, nodes) <= most { fits = nodes } else { exceeds = nodes }
        }
        fits
    }

    /// Returns the queries of the space of each idle target per second.
    pub fn looks_at_target(&self) -> f64 {
        let looks =
            (0..self.0.nodes as usize).filter(|lower| self.share(*lower).looks_at(TargetId(0), Some(idle::EVERY)));
        looks.count() as f64 / idle::EVERY.as_secs_f64()
    }

    /// Returns the targets that a node of that rank queries.
    pub fn share(&self, lower: usize) -> Share {
        if self.0.plain { Share::All } else { Share::of(lower, self.0.nodes as usize) }
    }

    /// Returns the store's cost of a node's report about the targets that it queries for others; `None` if it queries
    /// none.
    pub fn tells(&self, lower: usize) -> Option<Time> {
        let told = (0..self.0.targets).filter(|target| self.share(lower).tells_of(TargetId(*target as u16))).count();
        let bytes = told as f64 * BYTES_OF_SPACE * self.costs().byte;
        let to_each = Time(self.costs().delivery.0 + bytes as u64);
        (told > 0).then(|| self.costs().store + Time(to_each.0 * u64::from(self.0.nodes)))
    }

    /// Returns the store's cost when a node follows an order.
    pub fn follows(&self) -> Time {
        let targets = if self.0.plain { self.0.targets } else { 1 };
        self.costs().store + Time(self.costs().record.0 * u64::from(targets))
    }

    /// Returns the store's cost when a node checks that it missed no order.
    pub fn asks(&self) -> Time {
        if self.0.plain { self.follows() } else { self.costs().store }
    }

    /// Returns the time of a node's turn to open the volume.
    pub fn turn(&self) -> Time {
        self.costs().turn + Time(self.costs().turn_target.0 * u64::from(self.0.targets))
    }
}
