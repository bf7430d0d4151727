//! One volume on many nodes: their leases, the files that they write and move, and what all of that costs the namespace,
//! the store and the leader.
//!
//! ```text
//!   node 1 .. node n ── renew, list, expel, fold ────> namespace: servers, each with one queue
//!      │      │  └───── marks of a file, layouts ────────^
//!      │      ├── batches of what users do, bells ─────> store: one queue ──> leader: one queue
//!      │      └── orders read, space told ───────────────^
//!      └── fail, come back under another number
//! ```
//! The leases are `policy::cluster::lease`, what is done to a file is asked of `policy::cluster::share`. A call takes
//! its way there and back, and its turn at a server; it has its effect when it is answered.
//!
//! What is left out: the bytes, the calls of applications that only the shared file system serves, the targets
//! themselves, and what the leader does with what it hears. How long nodes take to start is only computed. Nothing in the live volume sends batches yet: they are
//! two calls of the store each.

mod demand;
mod directory;
mod files;
mod queue;
#[cfg(test)]
mod tests;
mod world;

pub use demand::Demand;
pub use world::run;

use policy::Time;
use policy::cluster::lease;
use serde::Serialize;

/// What a call costs the one that serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Servers of the namespace that names are spread over.
    pub servers: u32,
    /// The way to a server and back.
    pub round_trip: Time,
    /// To rename a lease file.
    pub rename: Time,
    /// To list the lease files, on each server.
    pub list: Time,
    /// For each name of a listing.
    pub name: Time,
    /// To read, set or remove an attribute of a stub, or to look at its size.
    pub attribute: Time,
    /// A call of the store.
    pub store: Time,
    /// For each node that hears a bell.
    pub delivery: Time,
    /// For each target that a node reads from the store.
    pub record: Time,
    /// For each byte that a node hears.
    pub byte: f64,
    /// To take one event in, at the leader.
    pub event: Time,
    /// A node's turn to open the volume.
    pub turn: Time,
    /// The part of it for each target.
    pub turn_target: Time,
}

impl Default for Costs {
    /// Processor time of the servers of GlusterFS and Redis, measured: `docs/results/cluster-scale.md`. The way is a
    /// guess: that of a network of a machine room.
    fn default() -> Costs {
        Costs {
            servers: 3,
            round_trip: Time(150_000),
            rename: Time(7_500_000),
            list: Time(1_900_000),
            name: Time(16_000),
            attribute: Time(100_000),
            store: Time(18_000),
            delivery: Time(7_000),
            record: Time(360),
            byte: BYTE_NS,
            event: Time(3_000),
            turn: TURN,
            turn_target: TURN_TARGET,
        }
    }
}

/// What nodes do.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Files opened for reading, per node and second.
    pub opens: f64,
    /// Files opened for writing, per node and second.
    pub writes: f64,
    /// The share of these that any node may write.
    pub shared: f64,
    /// How long a writer has a file open, on average.
    pub held: Time,
    /// Moves that the leader begins, per second.
    pub moves: f64,
    /// How long the copying of one takes.
    pub copy: Time,
    /// Batches of events that a node sends, per second.
    pub batches: f64,
    /// Events in one.
    pub events: u32,
    /// From one failure of a node to the next; `None`: none fails.
    pub fail_every: Option<Time>,
    /// So long it is away.
    pub away: Time,
    /// From one order of an operator for a target to the next; `None`: there is none.
    pub order_every: Option<Time>,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            opens: 2.0,
            writes: 0.5,
            shared: 0.1,
            held: Time::from_secs(2),
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

/// Calls at a stub's server for a file that is opened for reading, and closed. A guess, by the
/// code: not counted on a mount.
pub const CALLS_OF_OPEN: u32 = 8;

/// Nanoseconds for each byte that a node hears.
const BYTE_NS: f64 = 0.5;
/// A node's turn to open the volume, and the part of it for each target.
const TURN: Time = Time(100_000_000);
/// See [`TURN`].
const TURN_TARGET: Time = Time(100_000);

/// Everything about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Nodes that are up.
    pub nodes: u32,
    /// Targets of the volume.
    pub targets: u32,
    /// Nodes that were up before, and are over.
    pub past: u32,
    /// Nothing is done for many nodes: leases do not grow with them, names of what is over stay, each looks at all
    /// idle targets, and reads all targets' states after an order.
    pub plain: bool,
    /// Leases.
    pub lease: lease::Config,
    /// What calls cost.
    pub costs: Costs,
    /// What nodes do.
    pub load: Load,
    /// So long everything is counted, after half as long in which nothing is.
    pub span: Time,
    /// At its end so many of the lowest nodes fail at once, the leader first.
    pub gone: u32,
    /// The seed.
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
            span: Time::from_secs(30),
            gone: 1,
            seed: 1,
        }
    }
}

impl Setup {
    /// The spans of a node that joins so many others.
    fn lease_beside(&self, others: usize) -> lease::Config {
        if self.plain { self.lease.clone() } else { self.lease.clone().beside(others) }
    }
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Nodes that were up at first.
    pub nodes: u32,
    /// Renewals of leases per second.
    pub renewals: f64,
    /// Listings of the lease files per second.
    pub looks: f64,
    /// Names in these per second.
    pub names: f64,
    /// Leases that ended before they were renewed.
    pub lapses: u64,
    /// Nodes that were expelled.
    pub expelled: u64,
    /// What the leases ask of the namespace, as a share of what its servers can do.
    pub lease_share: f64,
    /// What everything asks of it.
    pub namespace_share: f64,
    /// What the busiest server was busy, as a share of the time.
    pub namespace_busy: f64,
    /// Mean time of the calls for a file that is opened for reading, in milliseconds.
    pub open_ms: f64,
    /// Mean time from there until the file may be written, in milliseconds.
    pub enter_ms: f64,
    /// Moves that were made, and given up.
    pub moves: u64,
    /// See `moves`.
    pub moves_failed: u64,
    /// Mean time of one, without the copying, in milliseconds.
    pub move_ms: f64,
    /// Calls of the store per second.
    pub store_calls: f64,
    /// What is asked of the store, as a share of what it can do.
    pub store_share: f64,
    /// Events that the leader takes in per second.
    pub events: f64,
    /// What is asked of the leader.
    pub leader_share: f64,
    /// How far the leader is behind at the end, in seconds.
    pub leader_lag_s: f64,
    /// From the failure of the leader until another leads, in seconds; `None` if none did within two minutes.
    pub takeover_s: Option<f64>,
    /// The most nodes whose leases alone the namespace can serve.
    pub lease_nodes: u64,
    /// The most that it can serve with files.
    pub namespace_nodes: u64,
    /// The most that the store can serve.
    pub store_nodes: u64,
    /// The most whose events the leader can take in.
    pub leader_nodes: u64,
    /// Looks at the space of each idle target per second.
    pub space_looks: f64,
    /// The longest from an operator's order until all nodes have followed it, in seconds.
    pub order_s: f64,
    /// How long the store takes until every node knows that it missed no order while the store was away, in seconds.
    pub back_s: f64,
    /// Until all nodes that start at once have the volume open, in seconds: one after the other.
    pub start_s: f64,
}
