//! Monitoring data of the daemon: all metrics, and its health.

use super::Core;
use engine::file::Cluster;
use engine::mover::Phase;
use engine::stats::{Gauge, Level};
use object::host;
use object::target::{Space, State, Target};
use policy::quota::Resource;
use std::sync::Arc;

/// Source of further metrics.
pub type Gauges = Arc<dyn Fn() -> Vec<Gauge> + Send + Sync>;

/// Health of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Failures by which nothing can be changed or served: an operator must look, or restart the daemon.
    pub failing: Vec<String>,
    /// Problems that need an operator although the daemon serves.
    pub degraded: Vec<String>,
}

impl Core {
    /// Adds a source of metrics, which is called at each scrape and must not block.
    pub fn add_gauges(&self, gauges: Gauges) {
        self.gauges.lock().push(gauges);
    }

    /// All metrics, as OpenMetrics text.
    pub fn open_metrics(&self) -> String {
        let name = self.volume.config().name.clone();
        let labels = [("volume", name), ("node", host::name())];
        let others = self.gauges.lock().clone();
        let decided = if self.acts() { self.adapt.gauges() } else { Vec::new() };
        let own = self.gauges_of_the_volume().into_iter().chain(self.gauges_of_tiers()).chain(decided);
        let gauges = own.chain(others.iter().flat_map(|gauges| gauges()));
        self.volume.stats().snapshot().open_metrics(&labels, gauges.collect())
    }

    /// Checks the parts that can fail as a whole. This waits for the answer of the state store, which is one of them.
    pub fn health(&self) -> Health {
        let mut health = Health { failing: Vec::new(), degraded: Vec::new() };
        if let Err(error) = self.volume.state().garbage_count() {
            health.failing.push(format!("the state store does not answer: {error}"));
        }
        if self.nodes.as_ref().is_some_and(|nodes| !nodes.has_lease()) {
            health
                .failing
                .push("this node has no lease: the namespace does not answer, or the node stood still".into());
        }
        health.degraded = self.targets_in_trouble();
        health
    }

    /// Targets that are failed or do not answer. One that this node should not reach is failed only for this node.
    pub(super) fn targets_in_trouble(&self) -> Vec<String> {
        let trouble = |target: &Arc<Target>| match target.state() {
            State::Failed if target.is_given_up() => Some(format!("target {} is failed", target.name())),
            State::Suspect => Some(format!("target {} does not answer", target.name())),
            State::Failed | State::Ok | State::Draining | State::ReadOnly => None,
        };
        self.volume.targets().all().iter().filter_map(trouble).collect()
    }

    fn gauges_of_tiers(&self) -> [Gauge; 2] {
        let tiers = &self.volume.config().tiers;
        let spaces: Vec<_> = (0..).zip(tiers).map(|(at, tier)| (tier, self.volume.targets().space_on(at))).collect();
        let gauge = |of, value: fn(&Space) -> u64| {
            let values = spaces.iter().map(|(tier, space)| (vec![tier.to_string()], value(space) as f64));
            Gauge { of, values: values.collect() }
        };
        [gauge(Level::TierSize, |space| space.total_bytes), gauge(Level::TierFree, |space| space.free_bytes)]
    }

    fn gauges_of_the_volume(&self) -> Vec<Gauge> {
        let nodes = self.nodes.as_ref().map_or(1, |nodes| nodes.count());
        let moves = self.mover.progress().list().iter().filter(|entry| entry.phase == Phase::Copying).count();
        let repair = self.repair.counts();
        let (quotas, away) = (self.quotas.counts(), self.background.away());
        let fullest = Resource::ALL.map(|of| (vec![of.to_string()], *quotas.fullest.of(of)));
        vec![
            Gauge::new(Level::OrdersKept, self.volume.orders_kept() as f64),
            Gauge::new(Level::QuotaLimits, quotas.subjects.limits as f64),
            Gauge::new(Level::QuotaOver, quotas.subjects.over as f64),
            Gauge::new(Level::QuotaExpired, quotas.subjects.expired as f64),
            Gauge::new(Level::QuotaFull, quotas.subjects.full as f64),
            Gauge { of: Level::QuotaFullest, values: fullest.to_vec() },
            Gauge::new(Level::QuotaRefused, self.quotas.refused() as f64),
            Gauge::new(Level::Uptime, self.started.elapsed().as_secs_f64()),
            Gauge::new(Level::Nodes, nodes as f64),
            Gauge::new(Level::Leads, f64::from(u8::from(self.acts()))),
            Gauge::new(Level::FilesInUse, self.files.files().len() as f64),
            Gauge::new(Level::FilesAway, away.files as f64),
            Gauge::new(Level::FilesAwaySize, away.bytes as f64),
            Gauge::new(Level::MovesRunning, moves as f64),
            Gauge::new(Level::RecoveriesRunning, repair.keys as f64),
            Gauge::new(Level::FetchesRunning, repair.in_flight as f64),
            Gauge::new(Level::StagingsRunning, self.under_way.count() as f64),
        ]
    }
}
