//! Staging: data in from a source, results out to a destination.
//!
//! An incoming file is a stub in `staging/` until every byte is there, verified and synced; then it is linked into the
//! tree under its name in one step. A repeated staging continues an interrupted one if the source is unchanged. Paths
//! are relative to the mount's root and resolved beneath it, with the permissions of the requesting user.

mod already_staged;
mod checksum;
mod chosen;
mod counted;
mod error;
mod fetch;
mod incoming;
mod inherit;
mod leaving;
mod limit;
mod look;
mod manifest;
pub mod offloaded;
mod out;
mod paced;
pub(crate) mod place;
pub mod progress;
mod record;
mod shared;
mod sources;
pub mod sums;
#[cfg(test)]
mod tests;
mod transfer;
mod tree;
#[cfg(any(test, feature = "doubles"))]
pub mod world;

pub use checksum::{Algorithm, Checksum};
pub use chosen::{Chosen, Pattern};
pub use error::{BadLine, Result, StageError};
pub use leaving::StageOut;
pub use limit::Limit;
pub use look::{Looked, Row, There, Wanted};
pub use manifest::ManifestIn;
pub use object::stop::Stop;
pub use progress::{Progress, Report};
pub(crate) use shared::work_off_here;
pub use shared::{Others, Said, Share};
pub use transfer::Transfer;

use crate::file::FileTable;
use crate::source::Opener;
use crate::volume::Volume;
use limit::{Limiter, Pace};
use paced::PacedOpener;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Stages files in and out of one volume.
#[derive(Clone)]
pub struct Stager {
    volume: Arc<Volume>,
    files: Arc<FileTable>,
    opener: Arc<dyn Opener>,
    /// Running stagings by key, with path and stop flag: the same staging never runs twice at once.
    running: Arc<Mutex<BTreeMap<String, (String, Stop)>>>,
    /// Records of finished stage-outs.
    offloaded: Arc<offloaded::Registry>,
    /// Other nodes that can fetch shares.
    others: Arc<OnceLock<Arc<dyn Others>>>,
    /// Rate limiter for this node's part of `[stage] limit`.
    limiter: Option<Arc<Limiter>>,
    /// Pace of this transfer, if it has a limit.
    pace: Option<Arc<Pace>>,
}

/// A request to stage in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StageIn {
    /// URIs of the sources, the preferred one first; all hold the same bytes.
    pub uris: Vec<String>,
    /// Destination, relative to the mount's root. In an existing directory the file gets the last name of the source.
    pub path: String,
    /// Whether an existing file is replaced.
    #[serde(default)]
    pub replace: bool,
    /// Whether an existing file is kept if it came from the same source and the source is unchanged. An older version
    /// is replaced; any other file is an error.
    #[serde(default)]
    pub keep: bool,
    /// Checksums of the whole file from the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checksums: Vec<Checksum>,
}

/// Comparison of a copy at the destination before it gets its name there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Reads all bytes back and compares their checksum.
    #[default]
    Content,
    /// Compares only the size.
    Size,
}

/// Result of a staging.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Staged {
    /// Number of files.
    pub files: u64,
    /// Bytes in these files.
    pub bytes: u64,
    /// Bytes transferred over the network in this run.
    pub fetched_bytes: u64,
    /// Directories created by this staging.
    pub directories: u64,
    /// Symbolic links created.
    pub symlinks: u64,
    /// Notes for the user: sources without ranges, a restart because the source changed.
    pub notes: Vec<String>,
}

impl Staged {
    /// Adds the result of another staging.
    pub fn add(&mut self, other: Staged) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.fetched_bytes += other.fetched_bytes;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.notes.extend(other.notes);
    }
}

impl Stager {
    /// Creates a stager for a volume.
    pub fn new(volume: Arc<Volume>, files: Arc<FileTable>, opener: Arc<dyn Opener>) -> Stager {
        let offloaded = Arc::new(offloaded::Registry::new(volume.state().clone()));
        let limit = volume.config().stage.limit;
        let limiter = (limit > 0).then(|| Arc::new(Limiter::new(limit)));
        let (running, others) = (Arc::default(), Arc::default());
        Stager { volume, files, opener, running, offloaded, others, limiter, pace: None }
    }

    /// Returns a stager for one transfer of a user, limited to `limit` bytes per second and to this node's part of
    /// `[stage] limit`. The limit is on the sum of both directions, all connections and all nodes.
    pub fn paced(&self, limit: Option<u64>, user: u32, stop: &Stop) -> Stager {
        if let Some(limiter) = &self.limiter {
            limiter.set(self.volume_limit());
        }
        let (own, stats) = (limit.map(Limiter::new), self.volume.stats().clone());
        let pace = Arc::new(Pace { user, own, volume: self.limiter.clone(), stop: stop.clone(), stats });
        let opener = match pace.is_free() {
            true => self.opener.clone(),
            false => Arc::new(PacedOpener { inner: self.opener.clone(), pace: pace.clone() }),
        };
        Stager { opener, pace: Some(pace).filter(|pace| !pace.is_free()), ..self.clone() }
    }

    /// The limit in force for a transfer that was requested with `limit`, if there is one.
    pub fn limit_of(&self, limit: Option<u64>) -> Option<Limit> {
        let volume = self.limiter.is_some().then(|| self.volume_limit());
        match (limit, volume) {
            (Some(limit), volume) if volume.is_none_or(|volume| limit <= volume) => {
                Some(Limit { bytes_s: limit, by: "--limit".into() })
            }
            (_, volume) => volume.map(|bytes_s| Limit { bytes_s, by: "[stage] limit".into() }),
        }
    }

    /// Part of the volume's limit for each node.
    fn volume_limit(&self) -> u64 {
        let others = self.others.get().map_or(0, |others| others.names().len() as u64);
        self.volume.config().stage.limit / (others + 1)
    }

    /// Records of finished stage-outs.
    pub fn offloaded(&self) -> &offloaded::Registry {
        &self.offloaded
    }
}
