//! Two tiers of devices under one file system: how fast a workload is, depending on where its data lie.
//!
//! ```text
//!   trace -> pieces of locations -> device of each -> queue -> device     (the longest piece ends the request)
//!                 |                                     ^
//!                 +--> policy::tier::machine --> moves -+     read on one tier, written on the other
//! ```
//! Devices are those of the paper: a service time of latency plus bytes over bandwidth, first come first served; moves queue with everything else.
//! Requests come one after another from `depth` clients (closed), or at their times (open).
//!
//! Memory is linear in the trace: it is held, so that every scheme sees the same requests and the offline optimum can look ahead.

mod lru;
mod optimum;
mod requests;
mod scheme;
mod working_set;
mod world;

pub use requests::{Piece, Request, Requests};
pub use scheme::Scheme;
pub use working_set::working_sets;
pub use world::{Figures, run, run_logged};

use policy::tier::cost::Costs;
use policy::time::Time;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// So many clients, each waiting for its answer and then thinking.
    Closed {
        /// Clients.
        depth: usize,
        /// From an answer to the next request.
        think: Time,
    },
    /// At the times of the trace, made faster by a factor.
    Open {
        /// The factor.
        speed: f64,
    },
}

/// The kernel's page cache below the targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageCacheSetup {
    /// Bytes that it holds: the least recently used leave.
    pub bytes: u64,
    /// The largest read-ahead window; 0 reads nothing ahead.
    pub read_ahead_bytes: u64,
    /// Bytes of a segment of a file: its objects begin anew with each.
    pub segment_bytes: u64,
    /// Objects that a segment is striped over, a location at a time.
    pub width: u64,
}

/// The devices and the load on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The devices.
    pub costs: Costs,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// Bytes of a location: the stripe.
    pub block_bytes: u64,
    /// When requests are issued.
    pub arrivals: Arrivals,
    /// The first requests, which are not counted: what is hot moves meanwhile, and devices fill their queues.
    pub warm_up: u64,
    /// Moves are made at once and cost nothing: the limit of what a planner's choices are worth.
    pub free_moves: bool,
    /// After so many requests, each time, the devices rest for so long.
    pub rest: Option<(usize, Time)>,
    /// What the trace reads before it writes it has lain there for so long when the first request comes, and the devices had nothing to do; zero:
    /// everything is placed when it is first asked for.
    pub before: Time,
    /// Bytes of the slow tier, as far as slow copies must keep to them.
    pub slow_bytes: Option<u64>,
    /// Percent of these that copies leave free.
    pub copies_free_percent: u32,
    /// What answers reads before the devices do, if anything.
    pub page_cache: Option<PageCacheSetup>,
    /// Check the accounts after every event.
    pub check: bool,
}
