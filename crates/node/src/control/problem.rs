//! Errors in the form of the command line: cause, consequence, next step.

use object::exit;
use std::fmt;

/// Result of a request.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// Reason why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Problem {
    /// Cause of the error.
    pub cause: String,
    /// State of the volume after the error.
    pub consequence: String,
    /// Advice for the user.
    pub next_step: String,
    /// The exit code of the command, see [`exit`].
    pub exit_code: u8,
}

impl Problem {
    /// A problem with that exit code; add the consequence with [`Problem::so`] and the next step with
    /// [`Problem::try_this`].
    pub fn new(exit_code: u8, cause: impl Into<String>) -> Problem {
        Problem {
            cause: cause.into(),
            consequence: "nothing was changed".into(),
            next_step: "`entrepot status` shows how the volume is".into(),
            exit_code,
        }
    }

    /// An operation failed, through no fault of the request.
    pub fn failed(cause: impl Into<String>) -> Problem {
        Problem::new(exit::FAILED, cause).try_this("see `entrepot status` and the daemon's log")
    }

    /// The request is invalid.
    pub fn wrong(cause: impl Into<String>) -> Problem {
        Problem::new(exit::WRONG_INPUT, cause).try_this("see the `--help` of the command")
    }

    /// The caller lacks the permission.
    pub fn denied(cause: impl Into<String>) -> Problem {
        Problem::new(exit::DENIED, cause).try_this("ask the operator of the volume")
    }

    /// The named item does not exist.
    pub fn not_found(cause: impl Into<String>) -> Problem {
        Problem::new(exit::NOT_FOUND, cause).try_this("check the name")
    }

    /// The item is in use.
    pub fn busy(cause: impl Into<String>) -> Problem {
        Problem::new(exit::BUSY, cause).try_this("try again later")
    }

    /// Sets the consequence.
    pub fn so(mut self, consequence: impl Into<String>) -> Problem {
        self.consequence = consequence.into();
        self
    }

    /// Sets the next step.
    pub fn try_this(mut self, next_step: impl Into<String>) -> Problem {
        self.next_step = next_step.into();
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}. {}", self.cause, self.consequence, self.next_step)
    }
}

impl std::error::Error for Problem {}

impl From<crate::Error> for Problem {
    fn from(e: crate::Error) -> Problem {
        use crate::Error;
        let cause = e.to_string();
        match e {
            Error::Busy(_) => Problem::busy(cause),
            Error::Invalid(_) => {
                Problem::wrong(cause).try_this("`entrepot layout FILE` and `entrepot target list` list the choices")
            }
            Error::Namespace(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Problem::not_found(cause),
            Error::Namespace(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
                Problem::denied(cause).try_this("check the permissions of the path")
            }
            Error::NoTarget | Error::AllTargetsFailed => {
                Problem::failed(cause).try_this("`entrepot target list` shows their states; restore or add one")
            }
            _ => Problem::failed(cause),
        }
    }
}

impl From<engine::volume::Problems> for Problem {
    fn from(problems: engine::volume::Problems) -> Problem {
        let [first, rest @ ..] = problems.0.as_slice() else { return Problem::wrong("unknown problem") };
        let mut cause = first.cause.clone();
        for problem in rest {
            cause.push_str(&format!("; {}", problem.cause));
        }
        let code = problems.0.iter().find_map(|p| p.exit_code).unwrap_or(exit::WRONG_INPUT);
        Problem::new(code, cause).so(first.consequence.clone()).try_this(first.mend.clone())
    }
}
