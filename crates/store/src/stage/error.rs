//! Why a staging failed, with what to do next.

use crate::origin::{OriginError, RecordError};
use rustix::io::Errno;

/// Why a staging failed. What was fetched is kept where it can be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// A source or destination.
    #[error("{uri}: {error}")]
    Origin {
        /// Which; holds no secret.
        uri: String,
        /// What it said.
        #[source]
        error: OriginError,
    },
    /// The path in the mount.
    #[error("{path}: {why}")]
    Path {
        /// Which.
        path: String,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// A line of a manifest.
    #[error("manifest line {line}: {why}; nothing was changed")]
    Manifest {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
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
    #[error(
        "{needed_bytes} bytes are needed and {free_bytes} are free; nothing was fetched. Remove files or add a target"
    )]
    Space {
        /// What it takes.
        needed_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// What arrived is not what the user said.
    #[error("the checksum of what arrived is {found}, {expected} was expected; the file was not put in place")]
    Checksum {
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

impl From<Errno> for StageError {
    fn from(e: Errno) -> StageError {
        StageError::Store(crate::Error::Namespace(e))
    }
}

impl StageError {
    /// An error about a path in the mount.
    pub(crate) fn path(path: &str, why: impl ToString) -> StageError {
        StageError::Path { path: path.to_string(), why: why.to_string() }
    }

    /// An error about a source or destination.
    pub(crate) fn origin(uri: &str, error: OriginError) -> StageError {
        StageError::Origin { uri: uri.to_string(), error }
    }
}
