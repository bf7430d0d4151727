//! Errors of the outside world, and the one place that maps them to an application's errno.

use crate::target::TargetError;
use crate::users::user;
use policy::TargetId;
use policy::quota::{Resource, Subject};
use rustix::io::Errno;

/// Result of an operation that fails with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors while serving a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The namespace's own file system refused; the application sees its errno.
    #[error("namespace: {0}")]
    Namespace(#[from] Errno),
    /// A target could not do its part and no mirror or source could stand in.
    #[error("target {target}: {error}")]
    Target {
        /// Target that failed.
        target: TargetId,
        /// Error of the target.
        #[source]
        error: TargetError,
    },
    /// No target can take new objects.
    #[error("no usable target: all are failed, draining or full")]
    NoTarget,
    /// Every target is failed, so the error is not a lack of space.
    #[error("no usable target: all are failed")]
    AllTargetsFailed,
    /// The layout record is damaged.
    #[error("bad layout record: {0}")]
    BadLayout(String),
    /// The embedded state store failed.
    #[error("state store: {0}")]
    State(String),
    /// The record was written by a newer program.
    #[error("{0}")]
    Newer(String),
    /// The bytes were lost and every source failed.
    #[error("lost bytes could not be recovered: {0}")]
    Unrecoverable(String),
    /// The file is in use in a way that excludes the operation.
    #[error("busy: {0}")]
    Busy(String),
    /// A call waited for too long for another node or for shared state.
    #[error("another node: {0}. Try again; `entrepot node list` shows the nodes")]
    Elsewhere(String),
    /// A checkpoint is incomplete, because a write of it failed.
    #[error("{0}")]
    NotWhole(String),
    /// A user or group has reached its limit.
    #[error("{0}")]
    Quota(Refused),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
}

/// Limit of a quota that refuses a write or a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quota of {} is used up: {used} {resource} of at most {most}; `entrepot quota` shows it", name(.subject))]
pub struct Refused {
    /// Subject at its limit.
    pub subject: Subject,
    /// Resource that is used up.
    pub resource: Resource,
    /// Present usage of the subject.
    pub used: u64,
    /// Limit of the usage.
    pub most: u64,
}

fn name(subject: &Subject) -> String {
    match subject {
        Subject::User(uid) => user(*uid).map_or_else(|| format!("user {uid}"), |user| format!("user {}", user.name)),
        Subject::Group(gid) => format!("group {gid}"),
        Subject::Directory(_) => "the directory".into(),
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Quota(refused)
    }
}

impl Error {
    /// Whether another node removed the file, so that its stub answers no more requests for attributes.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Namespace(Errno::STALE | Errno::NOENT))
    }

    /// Returns the errno for the application.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Namespace(errno) => *errno,
            Error::Target { error: TargetError::Io(errno), .. }
                if matches!(*errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::ROFS) =>
            {
                *errno
            }
            // The errno is that of a system without descriptors, since neither the application's descriptor nor its
            // target is at fault.
            Error::Target { error: TargetError::Io(Errno::MFILE | Errno::NFILE), .. } => Errno::NFILE,
            Error::Target { error, .. } if error.is_shortage() => Errno::NOMEM,
            Error::Target { .. }
            | Error::Unrecoverable(_)
            | Error::BadLayout(_)
            | Error::Newer(_)
            | Error::AllTargetsFailed
            | Error::NotWhole(_)
            | Error::State(_) => Errno::IO,
            Error::NoTarget => Errno::NOSPC,
            Error::Busy(_) => Errno::BUSY,
            Error::Elsewhere(_) => Errno::TIMEDOUT,
            Error::Quota(_) => Errno::DQUOT,
            Error::Invalid(_) => Errno::INVAL,
        }
    }
}
