//! Errors of staging, with the next step for the user.

use crate::source::{RecordError, SourceError};
use policy::units::show_bytes;
use rustix::io::Errno;

/// Result of a step of a staging.
pub type Result<T, E = StageError> = std::result::Result<T, E>;

/// Failure of a staging. Bytes that a repeated command can use are kept.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A source or destination failed.
    #[error("{uri}: {error}")]
    Source {
        /// URI of the source or destination; holds no secret.
        uri: String,
        /// Error of the source or destination.
        #[source]
        error: SourceError,
        /// Bytes that earlier work left durable; a repeated command does not fetch them again.
        kept_bytes: u64,
    },
    /// A path in the mount cannot be used.
    #[error("{path}: {why}")]
    Path {
        /// The path as the user gave it.
        path: String,
        /// The problem and the next step.
        why: String,
        /// Error number of the failed call, if a call failed.
        errno: Option<Errno>,
    },
    /// A manifest with bad lines.
    #[error("{}", shown(.0))]
    Manifest(Vec<BadLine>),
    /// Some files of a manifest failed; the others are in place.
    #[error("{failed} of {of} files are not in place:\n{}", shown_of(.first, *.failed))]
    Files {
        /// Number of files that failed.
        failed: usize,
        /// Number of files in the manifest.
        of: usize,
        /// The first failed files, each with its error.
        first: Vec<String>,
    },
    /// A malformed checksum from the user.
    #[error("{0}")]
    BadChecksum(String),
    /// A failure of the volume.
    #[error("{0}")]
    Store(#[from] crate::Error),
    /// The volume could not store bytes of a source.
    #[error("{uri}: the fetched bytes cannot be stored as {path}: {error}")]
    NotKept {
        /// URI of the source; holds no secret.
        uri: String,
        /// Destination in the mount.
        path: String,
        /// Error of the volume.
        #[source]
        error: crate::Error,
    },
    /// A malformed source record.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// There is not enough free space.
    #[error("{} are needed and {} are free; nothing was fetched", show_bytes(*needed_bytes), show_bytes(*free_bytes))]
    Space {
        /// Bytes that the staging needs.
        needed_bytes: u64,
        /// Bytes free in the volume.
        free_bytes: u64,
    },
    /// The fetched file has another checksum than the user expects.
    #[error(
        "the {name} checksum of the received bytes is {found}, {expected} was expected; the file was not put in place"
    )]
    Checksum {
        /// Name of the algorithm.
        name: &'static str,
        /// Checksum of the fetched bytes.
        found: String,
        /// Checksum from the user.
        expected: String,
    },
    /// The file was written to during the copy.
    #[error("{0} was written to while it was copied; wait for its writer and stage it out again")]
    Moving(String),
    /// The same staging is in progress.
    #[error("{0}: it is being staged in already")]
    Running(String),
    /// The staging was stopped.
    #[error("stopped; fetched parts are kept, run the same command again to go on")]
    Stopped,
}

/// A bad line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// The problem in that line.
    pub why: String,
}

/// Maximum number of bad lines in a message; in a file of another format every line is bad.
pub(super) const SHOWN_MAX: usize = 20;

fn shown_of(first: &[String], failed: usize) -> String {
    let more = failed.saturating_sub(first.len());
    let more = (more > 0).then(|| format!("and {more} files more"));
    first.iter().cloned().chain(more).collect::<Vec<_>>().join("\n")
}

fn shown(bad: &[BadLine]) -> String {
    let mut lines: Vec<_> =
        bad.iter().take(SHOWN_MAX).map(|bad| format!("manifest line {}: {}", bad.line, bad.why)).collect();
    if bad.len() > SHOWN_MAX {
        lines.push(format!("and {} lines more", bad.len() - SHOWN_MAX));
    }
    lines.join("\n")
}

impl From<Errno> for StageError {
    fn from(e: Errno) -> StageError {
        StageError::Store(crate::Error::Namespace(e))
    }
}

impl StageError {
    /// Creates an error about a path in the mount.
    pub(crate) fn path(path: &str, why: impl ToString) -> StageError {
        StageError::Path { path: path.to_string(), why: why.to_string(), errno: None }
    }

    /// Creates an error from a failed call on a path in the mount.
    pub(crate) fn refused(path: &str, errno: Errno) -> StageError {
        StageError::Path { path: path.to_string(), why: errno.to_string(), errno: Some(errno) }
    }

    /// Creates an error about a source or destination.
    pub(crate) fn of_source(uri: &str, error: SourceError) -> StageError {
        StageError::Source { uri: uri.to_string(), error, kept_bytes: 0 }
    }

    /// Adds the number of bytes that are kept.
    pub(crate) fn after(self, bytes: u64) -> StageError {
        match self {
            StageError::Source { uri, error, .. } => StageError::Source { uri, error, kept_bytes: bytes },
            other => other,
        }
    }
}
