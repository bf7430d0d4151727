//! One volume on many nodes: their leases, the files that they write and move, and the load on the namespace, the store
//! and the leader.
//!
//! ```text
//!   node 1 .. node n ── renew, list, expel, fold ────> namespace: servers, each with one queue
//!      │      │  └───── steps of a file: records, sizes ─^
//!      │      ├── admissions, claims, recalls, sessions ─> store: one queue
//!      │      ├── orders read, space sent ────────────────^
//!      │      └── batches of events ──────────────────────> leader: one queue
//!      └── fail, come back under another number
//! ```
//! Leases follow `policy::cluster::lease`. Each node runs `policy::holders::node`, and the store serves
//! `policy::holders::table`. A call takes a round trip and its turn at a server; its effect occurs at its answer.
//!
//! Not modelled: bytes, calls that only the shared file system serves, the targets themselves, restarts of the store,
//! and the leader's reaction to events. The time that nodes take to start is only computed.

mod demand;
mod directory;
mod files;
mod holds;
mod queue;
#[cfg(test)]
mod tests;
mod world;

pub use demand::Demand;
pub use world::run;

use policy::Time;
use policy::cluster::lease;
use serde::Serialize;

/// Cost of each kind of call at its server.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Servers of the namespace that names are spread over.
    pub servers: u32,
    /// Round-trip time to a server.
    pub round_trip: Time,
    /// Renaming a lease file.
    pub rename: Time,
    /// Listing the lease files, on each server.
    pub list: Time,
    /// Each name of a listing.
    pub name: Time,
    /// Reading, setting or removing an attribute of a stub, or querying its size.
    pub attribute: Time,
    /// A call of the store.
    pub store: Time,
    /// A request to the table of holders.
    pub request: Time,
    /// The part of such a request for each holder of the file.
    pub holder: Time,
    /// Delivery of a notification to one node.
    pub delivery: Time,
    /// Each target record that a node reads from the store.
    pub record: Time,
    /// Each byte that a node receives.
    pub byte: f64,
    /// Processing one event at the leader.
    pub event: Time,
    /// A node's turn to open the volume.
    pub turn: Time,
    /// The part of this turn for each target.
    pub turn_target: Time,
}

impl Default for Costs {
    /// Processor time of the servers of GlusterFS and Redis, measured: `docs/results/cluster-scale.md`. The round
    /// trip is a guess: that of a machine room's network.
    fn default() -> Costs {
        Costs {
            servers: 3,
            round_trip: Time(150_000),
            rename: Time(7_500_000),
            list: Time(1_900_000),
            name: Time(16_000),
            attribute: Time(100_000),
            store: Time(18_000),
            request: Time(18_000),
            holder: Time(4_000),
            delivery: Time(7_000),
            record: Time(360),
            byte: BYTE_NS,
            event: Time(3_000),
            turn: TURN,
            turn_target: TURN_TARGET,
        }
    }
}

/// Load of the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Files opened for reading, per node and second.
    pub opens: f64,
    /// Files opened for writing, per node and second.
    pub writes: f64,
    /// Share of these files that all nodes use; each other file has one node.
    pub shared: f64,
    /// Mean time that a file is open.
    pub held: Time,
    /// Interval between operations on an open file.
    pub operate_every: Time,
    /// Moves that the leader begins, per second.
    pub moves: f64,
    /// Time to copy the bytes of a move.
    pub copy: Time,
    /// Batches of events that a node sends, per second.
    pub batches: f64,
    /// Events in a batch.
    pub events: u32,
    /// Interval between failures of nodes; `None`: none fails.
    pub fail_every: Option<Time>,
    /// Time that a failed node is away.
    pub away: Time,
    /// Interval between an operator's orders for a target; `None`: there is none.
    pub order_every: Option<Time>,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            opens: 2.0,
            writes: 0.5,
            shared: 0.1,
            held: Time::from_secs(2),
            operate_every: Time::from_millis(500),
            moves: 10.0,
            copy: Time::from_millis(200),
            batches: 1.0,
            events: 100,
            fail_every: Some(Time::from_secs(20)),
            away: Time::from_secs(15),
            order_every: Some(Time::from_secs(60)),
        }
    }
}

/// Calls at a stub's server to open a file by its name and to close it. A guess from the code, not counted on a mount.
const CALLS_OF_STUB: u32 = 4;
/// Calls for the view of a hold: source, checksums, mark of a truncation, size.
const CALLS_OF_VIEW: u32 = 4;

/// Nanoseconds for each byte that a node receives.
const BYTE_NS: f64 = 0.5;
/// A node's turn to open the volume.
const TURN: Time = Time(100_000_000);
/// Part of [`TURN`] for each target.
const TURN_TARGET: Time = Time(100_000);

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Nodes that are up.
    pub nodes: u32,
    /// Targets of the volume.
    pub targets: u32,
    /// Number of earlier nodes that are over.
    pub past: u32,
    /// Without the measures for many nodes: leases do not grow, and names of nodes that are over stay. Each node
    /// checks all idle targets, and reads all targets' states after an order.
    pub plain: bool,
    /// Configuration of the leases.
    pub lease: lease::Config,
    /// Costs of the calls.
    pub costs: Costs,
    /// Load of the nodes.
    pub load: Load,
    /// Time before the counted span. Holds that are not used are released after a minute.
    pub warm_up: Time,
    /// Time that is counted.
    pub span: Time,
    /// Number of the lowest nodes that fail at once at the end, the leader first.
    pub gone: u32,
    /// Seed of the run.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            nodes: 1000,
            targets: 100_000,
            past: 0,
            plain: false,
            lease: lease::Config::default(),
            costs: Costs::default(),
            load: Load::default(),
            warm_up: Time::from_secs(70),
            span: Time::from_secs(30),
            gone: 1,
            seed: 1,
        }
    }
}

impl Setup {
    /// Returns the lease configuration of a node that joins `others` nodes.
    fn lease_beside(&self, others: usize) -> lease::Config {
        if self.plain { self.lease.clone() } else { self.lease.clone().beside(others) }
    }
}

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Nodes that were up at first.
    pub nodes: u32,
    /// Renewals of leases per second.
    pub renewals: f64,
    /// Listings of the lease files per second.
    pub looks: f64,
    /// Names in these listings per second.
    pub names: f64,
    /// Leases that ended before they were renewed.
    pub lapses: u64,
    /// Nodes that were expelled.
    pub expelled: u64,
    /// Load of the leases on the namespace, as a share of its servers' capacity.
    pub lease_share: f64,
    /// Total load on the namespace, as a share of its servers' capacity.
    pub namespace_share: f64,
    /// Utilisation of the busiest server.
    pub namespace_busy: f64,
    /// Mean time until an opened file is read, in milliseconds.
    pub open_ms: f64,
    /// Mean time until an opened file is written, in milliseconds.
    pub enter_ms: f64,
    /// The 99th percentile of these times, the longer of both, in milliseconds.
    pub wait_ms: f64,
    /// Files that were given up after a wait of 30 s.
    pub refused: u64,
    /// Share of operations under a mode that caches.
    pub cached: f64,
    /// Requests and messages for holds per opened file.
    pub requests: f64,
    /// Calls for holds at the namespace per opened file.
    pub steps: f64,
    /// Recalls per second.
    pub recalls: f64,
    /// Number of successful moves.
    pub moves: u64,
    /// Number of moves that were given up.
    pub moves_failed: u64,
    /// Mean time of a move without the copying, in milliseconds.
    pub move_ms: f64,
    /// Calls of the store per second.
    pub store_calls: f64,
    /// Load on the store, as a share of its capacity.
    pub store_share: f64,
    /// Events that the leader processes per second.
    pub events: f64,
    /// Load on the leader, as a share of its capacity.
    pub leader_share: f64,
    /// Lag of the leader at the end, in seconds.
    pub leader_lag_s: f64,
    /// Time from the failure of the leader until another leads, in seconds; `None` if none did within two minutes.
    pub takeover_s: Option<f64>,
    /// Maximum of nodes whose leases alone the namespace can serve.
    pub lease_nodes: u64,
    /// Maximum of nodes that the namespace can serve with their calls for files.
    pub namespace_nodes: u64,
    /// Maximum of nodes that the store can serve.
    pub store_nodes: u64,
    /// Maximum of nodes whose events the leader can process.
    pub leader_nodes: u64,
    /// Queries of the space of each idle target per second.
    pub space_looks: f64,
    /// Longest time from an operator's order until all nodes have followed it, in seconds.
    pub order_s: f64,
    /// Time of the store to confirm to every node that it missed no order during an outage, in seconds.
    pub back_s: f64,
    /// Time until all nodes that start at once have opened the volume, one after the other, in seconds.
    pub start_s: f64,
}
