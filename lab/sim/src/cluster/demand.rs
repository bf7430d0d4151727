//! Load of a number of nodes on the namespace, the store and the leader, and the maximum of nodes for each.

use super::files::{COMMON, OWN};
use super::{CALLS_OF_STUB, CALLS_OF_VIEW, Costs, Load, Setup};
use policy::cluster::idle::{self, Share};
use policy::cluster::past;
use policy::holders::node::Config;
use policy::{TargetId, Time};

/// Upper limit of the search for a maximum.
const NODES_MAX: u64 = 1 << 24;
/// Calls of a move of a file that no node holds: stub, search, view, record, pointer, old record.
const CALLS_OF_MOVE: u32 = CALLS_OF_STUB + CALLS_OF_SEARCH + CALLS_OF_VIEW + 3;
/// Requests of such a move: admission, claim, its end, release.
const REQUESTS_OF_MOVE: f64 = 4.0;
/// Calls that find the newest layout of a file: pointer, record, next.
const CALLS_OF_SEARCH: u32 = 3;
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

    /// Files that a node opens per second, and those among them without a hold: its own, shared ones. A hold ends a
    /// minute after the last use.
    fn opens(&self) -> (f64, f64, f64) {
        let load = self.load();
        let (all, lasts) = (load.opens + load.writes, (load.held + Config::default().unused).as_secs_f64());
        let first = |rate: f64, files: u64| rate * (-rate / files as f64 * lasts).exp();
        (all, first(all * (1.0 - load.shared), OWN), first(all * load.shared, COMMON))
    }

    /// Nodes that hold a shared file.
    fn holders(&self, nodes: u64) -> f64 {
        let (all, _, common) = self.opens();
        let used = all * self.load().shared;
        if used > 0.0 { nodes as f64 * (1.0 - common / used) } else { 0.0 }
    }

    /// Total load on all servers of the namespace, while each shared file has a writer.
    pub fn namespace(&self, nodes: u64) -> f64 {
        let (load, (all, own, common)) = (self.load(), self.opens());
        // Ends of an interval within the time that a file is open, which is distributed exponentially.
        let within = |every: f64| 1.0 / ((every / load.held.as_secs_f64()).exp() - 1.0);
        // The size is set each second, and at the close. Beside other writers each later operation reads it.
        let sizes = load.writes * (within(1.0) + 1.0);
        let looks = all * load.shared * (within(load.operate_every.as_secs_f64()) + 1.0);
        let opens = all * f64::from(CALLS_OF_STUB + CALLS_OF_VIEW) + (own + common) * f64::from(CALLS_OF_SEARCH);
        let calls = nodes as f64 * (opens + sizes + looks) + load.moves * f64::from(CALLS_OF_MOVE);
        self.leases(nodes) + calls * self.costs().attribute.as_secs_f64()
    }

    /// Number of nodes that query idle targets for others.
    pub fn lookers(&self, nodes: u64) -> usize {
        let is_part = |lower: &usize| matches!(Share::of(*lower, nodes as usize), Share::Part(_));
        if self.0.plain { 0 } else { (0..nodes as usize).take_while(is_part).count() }
    }

    /// Load on the store by their reports to all nodes.
    fn reports(&self, nodes: u64) -> f64 {
        let (costs, lookers) = (self.costs(), self.lookers(nodes) as f64);
        let bytes = if lookers > 0.0 { f64::from(self.0.targets) * BYTES_OF_SPACE * costs.byte * 1e-9 } else { 0.0 };
        nodes as f64 * (lookers * costs.delivery.as_secs_f64() + bytes) / idle::EVERY.as_secs_f64()
    }

    /// Load on the store: sessions, reports, and an admission and a release for each hold.
    pub fn store(&self, nodes: u64) -> f64 {
        let (load, costs, (_, own, common)) = (self.load(), self.costs(), self.opens());
        let request = |holders: f64| costs.request.as_secs_f64() + holders * costs.holder.as_secs_f64();
        let sessions = costs.request.as_secs_f64() / Config::default().renew_every.as_secs_f64();
        let holds = 2.0 * (own * request(0.5) + common * request(self.holders(nodes)));
        nodes as f64 * (sessions + holds) + load.moves * REQUESTS_OF_MOVE * request(0.0) + self.reports(nodes)
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
