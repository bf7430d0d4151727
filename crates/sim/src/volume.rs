//! A whole volume: its targets, files, jobs and faults, with every mechanism that adapts it switched on at once.
//!
//! ```text
//!   load (jobs, readers), faults by seed --> world --> policy::volume --> changes --> copied step by step on the targets' devices
//!                                              ^------------------------ Done ------------------'
//! ```
//! The machine is the one that [`policy::volume`] describes; this world only carries out what it says. Targets are
//! devices of [`crate::storage`] with a queue each. Files are `policy::layout` layouts, so room is counted to the byte.
//! [`crate::burst`] is this world with [`Applications`] in place of the load, [`crate::stripe`] with one file, stripes
//! alone and the disks of their model.
//!
//! [`crate::tier`] is it with [`Blocks`], on the devices of that model.
//!
//! What is left out: the namespace, caches but for the kernel's below blocks, and the order of requests within a
//! device's queue.

mod access;
mod applications;
mod blocks;
mod carry;
mod checkpoints;
mod copies;
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
    play_logged,
};
pub use checkpoints::Checkpoint;
pub use load::{Answer, Job, Load, Request};
pub use world::{observe, run, run_logged};

use crate::storage::Device;
use policy::Time;
use policy::stripe::forks::Shape;
use policy::volume::Config;
use policy::volume::ownership::Mechanism;
use serde::Serialize;
use std::collections::BTreeMap;

/// A target to be.
#[derive(Debug)]
pub struct Target {
    /// 0: the fast tier, 1: the slow one.
    pub tier: u8,
    /// Its room.
    pub bytes: u64,
    /// Its device.
    pub device: Device,
}

/// Faults of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// How many.
    pub count: u32,
    /// How long it takes until an empty device is in the place of one that failed.
    pub replaced_after: Time,
    /// The seed.
    pub seed: u64,
}

/// Everything about a run.
#[derive(Debug, Default)]
pub struct Setup {
    /// The mechanisms.
    pub config: Config,
    /// The targets.
    pub targets: Vec<Target>,
    /// Segments that tiers move.
    pub segment_bytes: u64,
    /// Targets that a file is striped over unless stripes know better.
    pub stripe_count: u32,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// What a part of a request takes a target longer for each object that takes part.
    pub overhead: Time,
    /// Whether the targets are behind a network.
    pub far: bool,
    /// Copies are made at once and cost nothing.
    pub free_copies: bool,
    /// Percent of each slow target that slow copies of the fast tier leave free.
    pub copies_free_percent: u32,
    /// Bytes of all slow targets, as far as these copies may count on them; `None`: all that they have.
    pub copies_within: Option<u64>,
    /// Files that are read in parts, instead of those of the load: their bytes, and how each mirror is striped.
    pub files: Vec<(u64, Vec<Shape>)>,
    /// What jobs and readers do.
    pub load: Load,
    /// Requests of a trace, instead of the readers of the load.
    pub requests: Option<Vec<Request>>,
    /// Applications that write at given times into a buffer that is one device, beside or instead of the load.
    pub applications: Option<Applications>,
    /// Which targets fail when.
    pub faults: Faults,
    /// How long the world goes on after the load and the faults, so that what was begun can end.
    pub rest: Time,
    /// Check the promises after every event; slow. They are checked at the end in any case.
    pub check: bool,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Jobs that ended.
    pub jobs: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Checkpoints given up: refused for want of room, or lost with a target.
    pub refused: u64,
    /// Mean time from the wish to write a checkpoint to its end, in seconds.
    pub checkpoint_s: f64,
    /// Requests of readers.
    pub requests: u64,
    /// Their mean response, in milliseconds.
    pub request_ms: f64,
    /// Share of all bytes that the fast tier served.
    pub fast_share: f64,
    /// Changes of layouts, by mechanism.
    pub changes: BTreeMap<String, u64>,
    /// Bytes copied for them.
    pub copied_bytes: BTreeMap<String, u64>,
    /// Changes that failed.
    pub failed: u64,
    /// The most bytes that slow copies of the fast tier took at a time.
    pub copies_bytes: u64,
    /// Targets that failed.
    pub faults: u64,
    /// Files whose only copy was on them.
    pub lost_files: u64,
    /// Changes that took back what another mechanism had done to the file just before.
    pub undone: u64,
}

impl Figures {
    fn carried(&mut self, by: Mechanism, bytes: u64) {
        let name = format!("{by:?}").to_lowercase();
        *self.changes.entry(name.clone()).or_default() += 1;
        *self.copied_bytes.entry(name).or_default() += bytes;
    }
}
