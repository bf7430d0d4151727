//! Schedulers that run the three dependent parts of a job elsewhere: submission commands and queries about a part.
//!
//! The paper's method, for schedulers without hooks: a stage-in in the queue of data jobs, then the script, then the
//! stage-out. Each part depends on the one before. The command line submits them as the user; the daemon only sends
//! queries.
//!
//! Source: the reference, section 6.1.

pub mod parts;
mod pbs;
mod slurm;

pub use pbs::Pbs;
pub use slurm::Slurm;
pub(crate) use slurm::ending;

use crate::queue;
use crate::request::{Ending, Kind, PartKind};
use std::path::{Path, PathBuf};

impl Kind {
    /// The scheduler of that kind that the commands on this machine reach.
    pub fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Kind::Slurm => Box::new(Slurm),
            Kind::Pbs => Box::new(Pbs),
        }
    }

    /// Queue of the scheduler, for snapshots.
    pub fn queue(self) -> Box<dyn queue::Queue> {
        match self {
            Kind::Slurm => Box::new(queue::slurm::Slurm(None)),
            Kind::Pbs => Box::new(queue::pbs::Pbs),
        }
    }
}

/// One scheduler: builds commands and parses their output. It runs no command that submits or cancels.
pub trait Scheduler: Send + Sync {
    /// Program and arguments that submit a part; the script goes to its standard input.
    fn submit(&self, part: &Submission<'_>) -> Vec<String>;

    /// Variables that the submission command needs in addition to the user's own.
    fn environment(&self, _part: &Submission<'_>) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Start of the script if it were submitted now with its data there, in milliseconds since 1970; `None` without an
    /// estimate. Blocks while the scheduler is queried.
    fn start_of(&self, script: &ScriptToEstimate<'_>) -> Option<u64>;

    /// Parses the number in the output of the submission command: the last line, up to a cluster's name.
    fn read_id(&self, said: &str) -> Option<String> {
        let id = said.lines().last()?.split(';').next()?.trim();
        is_id(id).then(|| id.to_string())
    }

    /// Program and arguments that cancel these parts.
    fn cancel(&self, ids: &[String]) -> Vec<String>;

    /// State of a part. Blocks while the scheduler is queried.
    fn look(&self, id: &str) -> Result<PartStatus, queue::Error>;
}

/// Status of a part from the scheduler's answer about it; without a record of it the part is lost.
fn status(
    answer: Result<String, queue::Error>,
    (unknown, lost): (&str, &str),
    parse: impl FnOnce(&str) -> Result<PartStatus, queue::Error>,
) -> Result<PartStatus, queue::Error> {
    match answer {
        Err(queue::Error::Command { cause, .. }) if cause.contains(unknown) => {
            Ok(PartStatus { ending: Some(Ending::Lost { cause: lost.into() }), ..PartStatus::default() })
        }
        answer => parse(&answer?),
    }
}

/// A part to be submitted.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    /// Name of the job.
    pub name: &'a str,
    /// Stage-in, compute or stage-out.
    pub kind: PartKind,
    /// Scheduler number of the part that must succeed before this one.
    pub after: Option<&'a str>,
    /// Queue of the data parts.
    pub data_queue: &'a str,
    /// Requested cores, if the user gave them to us and not to the scheduler.
    pub cores: Option<u32>,
    /// Longest run in seconds, if the user gave it to us and not to the scheduler.
    pub walltime_s: Option<u64>,
    /// Least delay in seconds of a data part that is not due yet.
    pub delay_s: Option<u64>,
    /// Log file of a data part; a compute part writes to the file that its script names.
    pub log: &'a Path,
    /// Parameters from directives, in the scheduler's own words.
    pub parameters: &'a [Vec<String>],
    /// Variables that the script needs. The submission command has them in its environment, too.
    pub variables: &'a [(String, String)],
}

/// A script, for an estimate of its start.
#[derive(Clone, Copy, Debug)]
pub struct ScriptToEstimate<'a> {
    /// Text of the script, with the scheduler's own lines.
    pub text: &'a [u8],
    /// Requested cores, if the user gave them to us and not to the scheduler.
    pub cores: Option<u32>,
    /// Longest run in seconds, if the user gave it to us and not to the scheduler.
    pub walltime_s: Option<u64>,
    /// Total of its cores, whether given to us or to the scheduler.
    pub cores_in_all: u32,
    /// Longest run in seconds, whether given to us or to the scheduler.
    pub walltime_in_all_s: u64,
}

/// State of a part in the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartStatus {
    /// Outcome, if it has ended; `None` if the scheduler has forgotten the part.
    pub ending: Option<Ending>,
    /// File of its standard output.
    pub out: Option<PathBuf>,
    /// File of its standard error.
    pub err: Option<PathBuf>,
}

/// Whether a text can be a job number of a scheduler: it is put on command lines.
pub fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-[]".contains(c);
    !id.is_empty() && id.len() <= 128 && id.starts_with(|c: char| c.is_ascii_digit()) && id.chars().all(plain)
}
