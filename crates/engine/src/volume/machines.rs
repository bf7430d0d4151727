//! `[burst]`, `[tiering]` and `[replication]` as their machines' parameters.

use super::Burst;
use super::sections::{Replication, ReplicationPolicy, Tiering, TieringPolicy};
use policy::Time;
use policy::protect::failover;
use policy::protect::replica::{self, Removal, Strategy};
use policy::tier::cost::Costs;
use policy::tier::machine::{Config, Planner};
use policy::tier::reorganize::Thresholds;
use policy::volume::{BurstConfig, ReplicasConfig};

/// Interval of checks of the space on the buffer's devices, while a transfer is under way. A guess.
const LOOK_EVERY: Time = Time::from_millis(250);

impl Tiering {
    /// Parameters of the machine for devices with these costs, the bytes of the fast tier and of a segment, and the
    /// limit of concurrent moves.
    pub fn machine(&self, costs: Costs, fast_bytes: u64, segment_bytes: u64, moves_max: usize) -> Config {
        let thresholds = Thresholds {
            hot: self.hot,
            cold: self.cold,
            free_bytes: (u128::from(fast_bytes) * u128::from(self.free_percent) / 100) as u64,
            read_wins: self.read_wins,
        };
        let planner = match self.policy {
            TieringPolicy::WsRos => Planner::WsRos(thresholds),
            TieringPolicy::Lfu => Planner::Frequency,
            TieringPolicy::Off | TieringPolicy::Tuned => Planner::Tuned,
        };
        let tuned = self.policy == TieringPolicy::Tuned;
        Config {
            window: self.window,
            locations_max: self.locations,
            block_bytes: segment_bytes,
            fast_bytes,
            costs,
            planner,
            idle: Time(self.idle.as_nanos() as u64),
            idle_bytes_per_s: (self.idle_rate > 0).then_some(self.idle_rate),
            busy_bytes_per_s: self.busy_rate,
            moves_max,
            keep_copies: self.keeps_copies(),
            copy_after: Some(Time(self.copy_after.as_nanos() as u64)),
            on_access: self.on_access && tuned,
        }
    }

    /// Whether segments on the fast tier may have slow copies.
    pub fn keeps_copies(&self) -> bool {
        self.keep_copies && self.policy == TieringPolicy::Tuned
    }
}

impl Burst {
    /// Parameters of the burst buffer on a tier of this size.
    pub fn machine(&self, fast_bytes: u64) -> BurstConfig {
        let mut admission = self.admission();
        admission.buffer.device.capacity = if self.size > 0 { self.size } else { fast_bytes } as f64;
        BurstConfig { admission, look_every: LOOK_EVERY }
    }
}

impl Replication {
    /// Parameters of replicas for a system of this many nodes, and of failover to them.
    pub fn machine(&self, system_nodes: u32) -> ReplicasConfig {
        let replication = replica::Config {
            strategy: match self.policy {
                ReplicationPolicy::None => Strategy::None,
                ReplicationPolicy::Fcfs => Strategy::Window,
                ReplicationPolicy::Shortcut => Strategy::Shortcut(self.threshold),
                ReplicationPolicy::All => Strategy::All,
            },
            alpha: self.alpha,
            removal: if self.eager { Removal::Eager } else { Removal::JobEnd },
            ..replica::Config::new(system_nodes)
        };
        let rebuild_delay = Time(self.delay.as_nanos() as u64);
        ReplicasConfig { replication, failover: failover::Config { rebuild_delay, ..failover::Config::default() } }
    }
}
