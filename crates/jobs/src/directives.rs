//! The head of a job script: staging directives and resource lines.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is wrong in a script: where, what, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// Line of the script, from 1; 0 for the script as a whole.
    pub line: u32,
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub mend: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}; {}", self.cause, self.mend)
    }
}
