//! Counters of the counted span, and the figures that they give.

use super::World;
use crate::cluster::Figures;
use crate::cluster::demand::Demand;
use crate::cluster::queue::Queue;
use crate::latency::Latencies;
use policy::Time;

/// Counters from some moment on.
#[derive(Default)]
pub(in crate::cluster) struct Counts {
    pub renewals: u64,
    pub looks: u64,
    pub names: u64,
    pub lapses: u64,
    pub expelled: u64,
    pub events: u64,
    pub lease_work: Time,
    pub open: Latencies,
    pub enter: Latencies,
    pub change: Latencies,
    pub order: Time,
    pub moves_failed: u64,
    /// Files opened, and those given up after a wait.
    pub uses: u64,
    pub refused: u64,
    /// Operations on files, and those under a mode that caches.
    pub operations: u64,
    pub cached: u64,
    /// Calls of the store for holds: all, requests for files, messages.
    pub sent: u64,
    pub requests: u64,
    pub recalls: u64,
    /// Calls at the namespace that steps of holds make.
    pub steps: u64,
    /// Sizes settled from objects after a node that is over.
    pub settlements: u64,
}

impl Counts {
    pub fn operated(&mut self, cached: bool) {
        self.operations += 1;
        self.cached += u64::from(cached);
    }
}

impl World {
    pub(super) fn figures(&self, span: Time) -> Figures {
        let (demand, counts, span) = (Demand(&self.setup), &self.counts, span.as_secs_f64());
        let servers = self.servers.len() as f64;
        let nodes = u64::from(self.setup.nodes);
        let per_second = |count: u64| count as f64 / span;
        let asked: f64 = self.servers.iter().map(|server| server.asked().as_secs_f64()).sum();
        let most = self.servers.iter().map(|server| server.asked().as_secs_f64()).fold(0.0, f64::max);
        Figures {
            nodes: self.setup.nodes,
            renewals: per_second(counts.renewals),
            looks: per_second(counts.looks),
            names: per_second(counts.names),
            lapses: counts.lapses,
            expelled: counts.expelled,
            lease_share: demand.leases(nodes) / servers,
            namespace_share: asked / span / servers,
            namespace_busy: (most / span).min(1.0),
            open_ms: counts.open.mean_ms(),
            enter_ms: counts.enter.mean_ms(),
            wait_ms: counts.open.quantile_ms(0.99).max(counts.enter.quantile_ms(0.99)),
            refused: counts.refused,
            cached: counts.cached as f64 / counts.operations.max(1) as f64,
            requests: (counts.requests + counts.recalls) as f64 / counts.uses.max(1) as f64,
            steps: counts.steps as f64 / counts.uses.max(1) as f64,
            recalls: per_second(counts.recalls),
            moves: counts.change.count(),
            moves_failed: counts.moves_failed,
            move_ms: counts.change.mean_ms(),
            store_calls: per_second(self.store.calls()),
            store_share: self.store.asked().as_secs_f64() / span,
            events: per_second(counts.events),
            leader_share: self.leader.asked().as_secs_f64() / span,
            leader_lag_s: self.leader.lag(self.now()).as_secs_f64(),
            takeover_s: None,
            lease_nodes: demand.most(Demand::leases, servers),
            namespace_nodes: demand.most(Demand::namespace, servers),
            store_nodes: demand.most(Demand::store, 1.0),
            leader_nodes: demand.most(Demand::leader, 1.0),
            space_looks: demand.looks_at_target(),
            order_s: counts.order.as_secs_f64(),
            back_s: demand.asks().as_secs_f64() * nodes as f64,
            start_s: demand.turn().as_secs_f64() * nodes as f64,
        }
    }

    pub(super) fn count_anew(&mut self) {
        self.counts = Counts::default();
        self.servers.iter_mut().chain([&mut self.store, &mut self.leader]).for_each(Queue::count_anew);
    }
}
