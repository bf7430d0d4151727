//! Problems of a `volume.toml` or of things that it names: place, cause, consequence, advice.

use object::exit;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Consequence if no change was begun.
pub(super) const UNCHANGED: &str = "nothing was changed";

/// One problem of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// File, line and column (from 1), if the problem has a place in a file.
    pub place: Option<(PathBuf, usize, usize)>,
    /// Cause of the problem.
    pub cause: String,
    /// Consequence of the problem.
    pub consequence: String,
    /// Advice for the operator.
    pub mend: String,
    /// Exit code of the command, if it differs from that of a wrong input.
    pub exit_code: Option<u8>,
}

impl Problem {
    /// A problem without a place in a file.
    pub fn new(cause: impl Into<String>, consequence: impl Into<String>, mend: impl Into<String>) -> Problem {
        Problem {
            place: None,
            cause: cause.into(),
            consequence: consequence.into(),
            mend: mend.into(),
            exit_code: None,
        }
    }

    /// Sets the exit code of a failed operation.
    pub fn failed(self) -> Problem {
        Problem { exit_code: Some(exit::FAILED), ..self }
    }

    /// Takes the exit code from the error of a system call.
    pub fn of_io(self, error: &std::io::Error) -> Problem {
        Problem { exit_code: Some(exit::of_io(error)), ..self }
    }
}

impl Problems {
    /// A single problem.
    pub fn one(problem: Problem) -> Problems {
        Problems(vec![problem])
    }

    /// A single reason for a refused operation.
    pub fn refused(cause: impl ToString, mend: impl Into<String>) -> Problems {
        Problems::one(Problem::new(cause.to_string(), UNCHANGED, mend))
    }

    /// Sets the consequence of all problems to "nothing was changed".
    pub fn unchanged(Problems(all): Problems) -> Problems {
        Problems(all.into_iter().map(|problem| Problem { consequence: UNCHANGED.into(), ..problem }).collect())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line, column)) = &self.place {
            write!(f, "{}:{line}:{column}: ", file.display())?;
        }
        write!(f, "{}; {}. {}", self.cause, self.consequence, self.mend)
    }
}

/// Result of a check.
pub type Result<T, E = Problems> = std::result::Result<T, E>;

/// All problems; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
