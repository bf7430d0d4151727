//! Staging: data in from a source, results out to a destination.
//!
//! A file that comes in is a stub in `staging/` until every byte is there, verified and synced; then it is linked into
//! the tree under its name, in one step. What was fetched before an interruption is not fetched again, as long as the
//! source is still what it was. All paths are relative to the mount's root and resolved beneath it, with the rights of
//! the user who asks.

mod already_staged;
mod amount;
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
pub(crate) mod tests;
mod tree;

pub use crate::stop::Stop;
pub use checksum::{Algorithm, Checksum};
pub use chosen::{Chosen, Pattern};
pub use error::{BadLine, StageError};
pub use leaving::StageOut;
pub use limit::Limit;
pub use look::{Looked, Row, There, Wanted};
pub use manifest::ManifestIn;
pub use progress::{Progress, Report};
pub(crate) use shared::{Others, Said};

use crate::file::FileTable;
use crate::source::Opener;
use crate::volume::Volume;
use limit::{Limiter, Pace};
use paced::PacedOpener;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Stages files in and out of one volume.
pub struct Stager {
    volume: Arc<Volume>,
    files: Arc<FileTable>,
    opener: Arc<dyn Opener>,
    /// Stagings under way, by key, with the path that each is for and what stops it: the same one never runs twice at once.
    running: Arc<Mutex<BTreeMap<String, (String, Stop)>>>,
    /// What was taken home.
    offloaded: Arc<offloaded::Registry>,
    /// Other nodes that may help.
    others: Arc<OnceLock<Arc<dyn Others>>>,
    /// What `[stage] limit` leaves to this node.
    limiter: Option<Arc<Limiter>>,
    /// What holds this one back, where anything does.
    pace: Option<Arc<Pace>>,
}

/// One file to be staged in.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StageIn {
    /// The sources, the first preferred; all hold the same bytes.
    pub uris: Vec<String>,
    /// Where to, relative to the mount's root. A directory that exists takes the source's last name.
    pub path: String,
    /// Whether a file that is there already is replaced.
    #[serde(default)]
    pub replace: bool,
    /// Whether a file that is there already is taken as it is if it came from the same source and is still what the
    /// source has; an older version is replaced, anything else is in the way.
    #[serde(default)]
    pub keep: bool,
    /// Checksums of the whole file, where the user knows some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checksums: Vec<Checksum>,
}

/// How a copy at the other end is compared before it gets its name there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// All its bytes are read back and their checksum is compared.
    #[default]
    Content,
    /// Its size.
    Size,
}

/// What a staging did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Staged {
    /// Files staged.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Bytes that went over the network in this run.
    pub fetched_bytes: u64,
    /// Directories made.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// What the user should know: sources without ranges, a restart because the source changed.
    pub notes: Vec<String>,
}

impl Staged {
    fn add(&mut self, other: Staged) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.fetched_bytes += other.fetched_bytes;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.notes.extend(other.notes);
    }
}

impl Stager {
    /// A stager for a volume.
    pub fn new(volume: Arc<Volume>, files: Arc<FileTable>, opener: Arc<dyn Opener>) -> Stager {
        let offloaded = Arc::new(offloaded::Registry::new(volume.state().clone()));
        let limit = volume.config().stage.limit;
        let limiter = (limit > 0).then(|| Arc::new(Limiter::new(limit)));
        let (running, others) = (Arc::default(), Arc::default());
        Stager { volume, files, opener, running, offloaded, others, limiter, pace: None }
    }

    /// The same stager for one transfer of a user, no faster than `limit` bytes per second and what `[stage] limit` leaves.
    /// All that it moves counts together, in both directions, by all connections and nodes.
    pub fn paced(&self, limit: Option<u64>, user: u32, stop: &Stop) -> Stager {
        let Stager { volume, files, running, offloaded, others, limiter, .. } = self;
        if let Some(limiter) = limiter {
            limiter.set(self.volume_limit());
        }
        let (own, stats) = (limit.map(Limiter::new), volume.stats().clone());
        let pace = Arc::new(Pace { user, own, volume: limiter.clone(), stop: stop.clone(), stats });
        let opener = match pace.is_free() {
            true => self.opener.clone(),
            false => Arc::new(PacedOpener { inner: self.opener.clone(), pace: pace.clone() }),
        };
        Stager {
            volume: volume.clone(),
            files: files.clone(),
            opener,
            running: running.clone(),
            offloaded: offloaded.clone(),
            others: others.clone(),
            limiter: limiter.clone(),
            pace: Some(pace).filter(|pace| !pace.is_free()),
        }
    }

    /// What holds a transfer back that was asked to be no faster than `limit`, if anything does.
    pub fn limit_of(&self, limit: Option<u64>) -> Option<Limit> {
        let volume = self.limiter.is_some().then(|| self.volume_limit());
        match (limit, volume) {
            (Some(limit), volume) if volume.is_none_or(|volume| limit <= volume) => {
                Some(Limit { bytes_s: limit, by: "--limit".into() })
            }
            (_, volume) => volume.map(|bytes_s| Limit { bytes_s, by: "[stage] limit".into() }),
        }
    }

    /// Each of the nodes has the same part of the volume's limit.
    fn volume_limit(&self) -> u64 {
        let others = self.others.get().map_or(0, |others| others.names().len() as u64);
        self.volume.config().stage.limit / (others + 1)
    }

    /// What was taken home.
    pub fn offloaded(&self) -> &offloaded::Registry {
        &self.offloaded
    }
}
