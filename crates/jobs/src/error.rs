//! Reasons to refuse requests about jobs, and their form on the control socket.

use crate::request::{Complaint, JobId};
use node::control::Problem;

/// Result of a request about jobs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The script cannot be planned.
    #[error("the script was not submitted: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Script(Vec<Complaint>),
    /// No such job, or one that the caller may not see: the message is the same on purpose.
    #[error("there is no job {0} of yours; `entrepot job list --all` shows those there are")]
    NoJob(JobId),
    /// The request cannot be granted.
    #[error("{cause}; {mend}")]
    Refused {
        /// Cause of the refusal.
        cause: String,
        /// Remedy for the user.
        mend: String,
    },
    /// An error of the machine: disk, state store, processes.
    #[error("{0}")]
    World(String),
}

impl Error {
    pub(crate) fn refused(cause: impl Into<String>, mend: impl Into<String>) -> Error {
        Error::Refused { cause: cause.into(), mend: mend.into() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let cause = error.to_string();
        match error {
            Error::Script(complaints) => {
                let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
                Problem::wrong(lines.join("\n"))
                    .so("the job was not submitted")
                    .try_this("mend the script; `entrepot job plan` checks it without submitting")
            }
            Error::NoJob(id) => Problem::not_found(format!("there is no job {id} of yours"))
                .try_this("`entrepot job list --all` shows those there are"),
            Error::Refused { cause, mend } => Problem::wrong(cause).try_this(mend),
            Error::World(_) => Problem::failed(cause),
        }
    }
}
