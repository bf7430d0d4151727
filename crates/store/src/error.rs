//! What can go wrong in the world, and the one place that says which errno an application sees for it.

use crate::quota::Refused;
use crate::target::TargetError;
use policy::TargetId;
use policy::layout::LayoutError;
use rustix::io::Errno;

/// The result of everything in the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong while serving a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The namespace's own file system refused; the application sees its errno.
    #[error("namespace: {0}")]
    Namespace(#[from] Errno),
    /// A target could not do its part and no mirror or source could stand in.
    #[error("target {target}: {error}")]
    Target {
        /// Which target.
        target: TargetId,
        /// What it said.
        #[source]
        error: TargetError,
    },
    /// No target can take new objects.
    #[error("no usable target: all are failed, draining or full")]
    NoTarget,
    /// A layout record that cannot be believed.
    #[error("bad layout record: {0}")]
    BadLayout(String),
    /// The embedded state store failed.
    #[error("state store: {0}")]
    State(String),
    /// It was written by a program that this one is too old for.
    #[error("{0}")]
    Newer(String),
    /// The bytes were lost and every source failed.
    #[error("lost bytes could not be recovered: {0}")]
    Unrecoverable(String),
    /// The file is in use in a way that excludes the operation.
    #[error("busy: {0}")]
    Busy(String),
    /// Another node, or what nodes share, kept a call waiting for too long.
    #[error("another node: {0}. Try again; `entrepot node list` shows the nodes")]
    Elsewhere(String),
    /// Somebody has as much as they may.
    #[error("{0}")]
    Quota(Refused),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Quota(refused)
    }
}

impl From<LayoutError> for Error {
    fn from(e: LayoutError) -> Error {
        Error::BadLayout(e.to_string())
    }
}

impl Error {
    /// What the application sees.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Namespace(errno) => *errno,
            Error::Target { error: TargetError::Io(errno), .. }
                if matches!(*errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::ROFS) =>
            {
                *errno
            }
            // As where the system lacks them: neither a descriptor of the application nor its target is at fault.
            Error::Target { error: TargetError::Io(Errno::MFILE | Errno::NFILE), .. } => Errno::NFILE,
            Error::Target { error, .. } if error.is_shortage() => Errno::NOMEM,
            Error::Target { .. }
            | Error::Unrecoverable(_)
            | Error::BadLayout(_)
            | Error::Newer(_)
            | Error::State(_) => Errno::IO,
            Error::NoTarget => Errno::NOSPC,
            Error::Busy(_) => Errno::BUSY,
            Error::Elsewhere(_) => Errno::TIMEDOUT,
            Error::Quota(_) => Errno::DQUOT,
            Error::Invalid(_) => Errno::INVAL,
        }
    }
}
