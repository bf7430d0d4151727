//! Repair: lost objects come back from the source, under readers or offline.
//!
//! [`Repair`] drives the machine `policy::protect::recovery`; [`check`] looks through a volume and sets it right.

pub mod check;

pub use check::{CheckOptions, Checker, Report};

use crate::Result;
use crate::file::{File, Pool, Recover};
use crate::origin::Opener;
use crate::stats::Stats;
use crate::target::Targets;
use policy::layout::Position;
use policy::protect::recovery;
use policy::{FileId, ObjectId};
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::sync::Arc;

/// Brings lost objects back from their sources. Register it in `Pool::recovery`.
pub struct Repair {}

/// Something that repair did, for `status` and the summary of a job.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RepairEvent {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// What happened, for people.
    pub text: String,
}

#[allow(clippy::todo, unused_variables)]
impl Repair {
    /// Starts the workers. `side` is the namespace's directory of checksums.
    pub fn start(
        config: recovery::Config,
        pool: Arc<Pool>,
        targets: Arc<Targets>,
        opener: Arc<dyn Opener>,
        side: OwnedFd,
        stats: Arc<Stats>,
    ) -> Arc<Repair> {
        todo!()
    }

    /// Recovers one object with nobody waiting and returns when it is complete.
    pub fn repair(&self, file: &Arc<File>, at: Position) -> Result<()> {
        todo!()
    }

    /// Counts of the machine.
    pub fn counts(&self) -> recovery::Stats {
        todo!()
    }

    /// The last things it did, oldest first.
    pub fn events(&self) -> Vec<RepairEvent> {
        todo!()
    }

    /// Ends the workers; waiting readers get an error.
    pub fn stop(&self) {
        todo!()
    }
}

#[allow(clippy::todo, unused_variables)]
impl Recover for Repair {
    fn recover(&self, file: &Arc<File>, at: Position, rows: Range<u64>) -> Result<()> {
        todo!()
    }

    fn is_patched(&self, file: FileId, object: ObjectId, row: u64) -> bool {
        todo!()
    }
}
