//! The head of a job script: staging directives, checkpoints and resource lines.
//!
//! The head ends with the first line that is neither blank nor a comment. Everything below is the user's program, and
//! runs unchanged. It is only searched for directives that are too late.

mod checkpoint;
pub mod datawarp;
mod lines;
mod mail;
mod resources;
pub mod words;

pub use lines::{parse, read};
pub use resources::Resources;

use crate::request::{Checkpoint, Complaint, DataWarp, PartKind};
use std::fmt;

/// Largest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 1024 * 1024;
/// Most staging commands of a script.
pub const COMMANDS_MAX: usize = 1000;
/// Most retries of a staging command.
pub const RETRIES_MAX: u32 = 100;

/// A staging directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// First line of the directive, from 1.
    pub line: u32,
    /// Stage-in or stage-out.
    pub kind: PartKind,
    /// Content of the directive.
    pub says: Says,
}

/// Content of a staging directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// `-retry N`: number of retries of a failed command.
    Retry(u32),
    /// Parameters for the scheduler of the data job.
    Parameters(Vec<String>),
    /// A command, as words.
    Command(Vec<String>),
}

impl fmt::Display for Directive {
    /// The command as a script has it, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.kind == PartKind::StageIn { "#STAGEIN" } else { "#STAGEOUT" };
        match &self.says {
            Says::Retry(n) => write!(f, "{word} -retry {n}"),
            Says::Parameters(words) | Says::Command(words) => {
                // The splitter refuses NUL, the only character that cannot be quoted.
                let quoted = shlex::try_join(words.iter().map(String::as_str)).map_err(|_| fmt::Error)?;
                write!(f, "{word} {quoted}")
            }
        }
    }
}

/// Directives in the head of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The interpreter and its argument, from the `#!` line.
    pub interpreter: Vec<String>,
    /// Staging directives in order.
    pub directives: Vec<Directive>,
    /// Files marked as checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// Resources requested in DataWarp directives, except staged data.
    pub datawarp: DataWarp,
    /// Resources that are requested.
    pub resources: Resources,
    /// Resources requested in `#ENTREPOT` lines, which no other scheduler reads.
    pub own_resources: Resources,
    /// Options that request an array of jobs, with their lines.
    pub arrays: Vec<(u32, String)>,
    /// The script with each line of a staging directive replaced by an empty comment.
    pub compute_script: Vec<u8>,
    /// Directives that are ignored or may surprise.
    pub warnings: Vec<Complaint>,
}
