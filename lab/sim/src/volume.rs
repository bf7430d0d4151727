//! A whole volume: its targets, files, jobs and faults, with all adaptive mechanisms on at once.
//!
//! ```text
//!   load (jobs, readers), faults by seed --> world --> policy::volume --> changes --> copied step by step on the targets' devices
//!                                              ^------------------------ Done ------------------'
//! ```
//! The state machine is that of [`policy::volume`]; this world only carries out its actions. Targets are devices of
//! [`crate::storage`] with a queue each. Files are `policy::layout` layouts, so space is counted to the byte.
//! [`crate::burst`] is this world with [`Applications`] in place of the load; [`crate::stripe`] has one file, stripes
//! alone and the disks of their model.
//!
//! [`crate::tier`] is this world with [`Blocks`], on the devices of that model.
//!
//! Not modelled: the namespace, caches except for the kernel's below blocks, and the order of requests within a
//! device's queue.

mod access;
mod applications;
mod blocks;
mod carry;
mod checkpoints;
mod copies;
mod figures;
mod files;
mod jobs;
mod load;
mod segments;
mod targets;
#[cfg(test)]
mod tests;
mod watch;
mod world;

pub use applications::{Applications, Look, Observed};
pub use blocks::{
    Arrivals, Baseline, Blocks, PageCacheSetup, Piece, Played, Request as BlockRequest, Requests, Tiers, play,
    play_logged, responses,
};
pub use checkpoints::Checkpoint;
pub use figures::{FaultFigures, Figures, HourFigures, JobTimes, TargetFigures};
pub use load::{Answer, Job, Load, Request};
pub use world::{observe, run, run_logged};

use crate::storage::Device;
use policy::Time;
use policy::stripe::forks::Shape;
use policy::volume::Config;

/// Description of a target.
#[derive(Debug)]
pub struct Target {
    /// 0: the fast tier, 1: the slow one.
    pub tier: u8,
    /// Capacity of the target.
    pub bytes: u64,
    /// Device of the target.
    pub device: Device,
}

/// Faults of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Number of faults.
    pub count: u32,
    /// Time until an empty device replaces a failed one.
    pub replaced_after: Time,
    /// Seed of the faults.
    pub seed: u64,
}

/// Parameters of a run.
#[derive(Debug, Default)]
pub struct Setup {
    /// Configuration of the mechanisms.
    pub config: Config,
    /// Targets of the volume.
    pub targets: Vec<Target>,
    /// Size of the segments that tiers move.
    pub segment_bytes: u64,
    /// Targets that a file is striped over unless the striper decides otherwise.
    pub stripe_count: u32,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Additional service time of a part of a request, for each object that takes part.
    pub overhead: Time,
    /// Whether the targets are behind a network.
    pub far: bool,
    /// Whether copies take no time and cost nothing.
    pub free_copies: bool,
    /// Percentage of each slow target that slow copies of the fast tier leave free.
    pub copies_free_percent: u32,
    /// Limit of these copies' space on all slow targets; `None`: their capacity.
    pub copies_within: Option<u64>,
    /// Files that are read in parts, instead of those of the load: size, and striping of each mirror.
    pub files: Vec<(u64, Vec<Shape>)>,
    /// Load of jobs and readers.
    pub load: Load,
    /// Requests of a trace, instead of the readers of the load.
    pub requests: Option<Vec<Request>>,
    /// Clients of the requests: each sends the next one when its last is answered. 0: requests come at their times.
    pub clients: u32,
    /// Pause of a client between an answer and its next request.
    pub pause: Time,
    /// Applications that write at given times into a buffer on one device, beside or instead of the load.
    pub applications: Option<Applications>,
    /// Faults of the targets.
    pub faults: Faults,
    /// Time that the world continues after load and faults, so that operations can end.
    pub rest: Time,
    /// Check the promises after every event; slow. They are always checked at the end.
    pub check: bool,
}
