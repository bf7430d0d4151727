//! Staging: data in from a source, results out to a destination.
//!
//! A file that comes in is a stub in `staging/` until every byte is there, verified and synced; then it is linked into the
//! tree under its name, in one step. What was fetched before an interruption is not fetched again, as long as the
//! source is still what it was. All paths are relative to the mount's root and resolved beneath it, with the rights of the user who asks.

mod error;
pub mod progress;
pub mod sums;

pub use error::StageError;
pub use progress::{Progress, Report, Stop};

use crate::file::FileTable;
use crate::origin::{Identity, Opener, Record};
use crate::volume::Volume;
use std::sync::Arc;

/// Stages files in and out of one volume.
pub struct Stager {
    volume: Arc<Volume>,
    files: Arc<FileTable>,
    opener: Arc<dyn Opener>,
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
    /// BLAKE3 of the whole file in hexadecimal digits, where the user knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
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

#[allow(clippy::todo, unused_variables)]
impl Stager {
    /// A stager for a volume.
    pub fn new(volume: Arc<Volume>, files: Arc<FileTable>, opener: Arc<dyn Opener>) -> Stager {
        Stager { volume, files, opener }
    }

    /// One file in.
    pub fn stage_in(&self, what: &StageIn, who: &Identity, report: Report, stop: &Stop) -> Result<Staged, StageError> {
        todo!()
    }

    /// A directory in, with its symbolic links where the source knows them.
    pub fn stage_in_tree(
        &self,
        what: &StageIn,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Staged, StageError> {
        todo!()
    }

    /// Many files in: lines `URI PATH`. Nothing is changed if a line is bad.
    pub fn stage_in_manifest(
        &self,
        manifest: &str,
        replace: bool,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Staged, StageError> {
        todo!()
    }

    /// A file or a directory out.
    pub fn stage_out(
        &self,
        path: &str,
        uri: &str,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Staged, StageError> {
        todo!()
    }

    /// What a file remembers of its sources.
    pub fn source_get(&self, path: &str, who: &Identity) -> Result<Option<Record>, StageError> {
        todo!()
    }

    /// Says where a file came from (no URIs: forgets it): its bytes are checksummed as they are here, and with `verify` compared with
    /// the sources.
    pub fn source_set(
        &self,
        path: &str,
        uris: &[String],
        verify: bool,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Option<Record>, StageError> {
        todo!()
    }
}
