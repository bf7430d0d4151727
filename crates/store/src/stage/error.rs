//! Why a staging failed, with what to do next.

use crate::source::{RecordError, SourceError};
use policy::units::show_bytes;
use rustix::io::Errno;

/// Why a staging failed. What was fetched is kept where it can be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// A source or destination.
    #[error("{uri}: {error}")]
    Source {
        /// Which; holds no secret.
        uri: String,
        /// What it said.
        #[source]
        error: SourceError,
        /// What came before and need not come again.
        kept_bytes: u64,
    },
    /// The path in the mount.
    #[error("{path}: {why}")]
    Path {
        /// The path as it was given.
        path: String,
        /// What is wrong with it and what to do.
        why: String,
        /// What the system said of it, if that is what is wrong.
        errno: Option<Errno>,
    },
    /// Lines of a manifest.
    #[error("{}", shown(.0))]
    Manifest(Vec<BadLine>),
    /// Some files of a manifest; the others are in place.
    #[error("{failed} of {of} files are not in place:\n{}", shown_of(.first, *.failed))]
    Files {
        /// How many.
        failed: usize,
        /// Of how many.
        of: usize,
        /// The first of them, and why.
        first: Vec<String>,
    },
    /// What the user said is no checksum.
    #[error("{0}")]
    BadChecksum(String),
    /// The volume itself.
    #[error("{0}")]
    Store(#[from] crate::Error),
    /// The volume could not take what came from a source.
    #[error("{uri}: what came cannot be kept as {path}: {error}")]
    NotKept {
        /// From where; holds no secret.
        uri: String,
        /// Where it should go.
        path: String,
        /// Why.
        #[source]
        error: crate::Error,
    },
    /// A source record that is none.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// Not enough room.
    #[error("{} are needed and {} are free; nothing was fetched", show_bytes(*needed_bytes), show_bytes(*free_bytes))]
    Space {
        /// What it takes.
        needed_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// What arrived is not what the user said.
    #[error("the {name} checksum of what arrived is {found}, {expected} was expected; the file was not put in place")]
    Checksum {
        /// The kind of checksum.
        name: &'static str,
        /// Of what arrived.
        found: String,
        /// What the user said.
        expected: String,
    },
    /// The file was written while it was copied.
    #[error("{0} was written to while it was copied; wait for its writer and stage it out again")]
    Moving(String),
    /// The same is under way.
    #[error("{0}: it is being staged in already")]
    Running(String),
    /// Told to stop.
    #[error("stopped; what was fetched is kept, run the same command again to go on")]
    Stopped,
}

/// A line of a manifest that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// So many bad lines are shown; a manifest of another format has only bad ones.
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
    /// An error about a path in the mount.
    pub(crate) fn path(path: &str, why: impl ToString) -> StageError {
        StageError::Path { path: path.to_string(), why: why.to_string(), errno: None }
    }

    /// What the system said about a path in the mount.
    pub(crate) fn refused(path: &str, errno: Errno) -> StageError {
        StageError::Path { path: path.to_string(), why: errno.to_string(), errno: Some(errno) }
    }

    /// An error about a source or destination.
    pub(crate) fn of_source(uri: &str, error: SourceError) -> StageError {
        StageError::Source { uri: uri.to_string(), error, kept_bytes: 0 }
    }

    /// The same, after so many bytes came that are kept.
    pub(crate) fn after(self, bytes: u64) -> StageError {
        match self {
            StageError::Source { uri, error, .. } => StageError::Source { uri, error, kept_bytes: bytes },
            other => other,
        }
    }
}
