//! Requests and answers between clients and the runner: the bodies of `job.*`.

mod data;
mod job;
mod plan;

pub use data::*;
pub use job::*;
pub use node::control::Caller;
pub use plan::*;

use policy::named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Number of a job. Numbers start at 1, rise, and are never reused in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bytes of a script: text where they are UTF-8, so that JSON stays readable and small, numbers otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Script {
    /// Text in UTF-8.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
}

impl Script {
    /// The bytes of the script.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Script::Text(text) => text.as_bytes(),
            Script::Bytes(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Script {
    fn from(bytes: Vec<u8>) -> Script {
        String::from_utf8(bytes).map_or_else(|e| Script::Bytes(e.into_bytes()), Script::Text)
    }
}

/// Options of `job submit` that override the head of the script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// Name of the job.
    pub name: Option<String>,
    /// Cores of the compute part.
    pub cores: Option<u32>,
    /// Longest run of the compute part, in seconds.
    pub walltime_s: Option<u64>,
    /// Retries of the stage-in and stage-out commands.
    pub retries: Option<u32>,
}

/// `job.submit`. The answer is a [`Submitted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    /// Name of the script's file, for display only.
    pub file_name: String,
    /// Text of the script.
    pub script: Script,
    /// Working directory of the job: the directory of its submission, absolute.
    pub cwd: PathBuf,
    /// The submitter's file creation mask.
    pub umask: u32,
    /// The submitter's environment; the runner filters it.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Options of the command.
    #[serde(default)]
    pub overrides: Overrides,
}

/// `job.register`: another scheduler will run the parts of a job. The answer is a [`Registered`]. Then follows
/// `job.submitted`, or `job.unregister` ([`OneJob`]) if a part could not be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The job; without environment and mask, which the scheduler keeps.
    pub job: Submit,
    /// Scheduler that runs the job.
    pub scheduler: Kind,
    /// Estimated start of the script at that scheduler, if it has an estimate: milliseconds since 1970.
    pub start_ms: Option<u64>,
}

/// The answer to `job.register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The new job.
    pub id: JobId,
    /// Parts and script of the job.
    pub plan: Plan,
    /// Variables that its data parts need to find the volume.
    pub environment: Vec<(String, String)>,
    /// Variables that name the directories for its script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub script_environment: Vec<(String, String)>,
    /// Least delay of the stage-in part, in seconds.
    pub delay_s: Option<u64>,
}

/// `job.submitted`: the parts are in the scheduler's queue. The answer is a [`JobSummary`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedParts {
    /// The number that `entrepot job list` shows.
    pub id: JobId,
    /// Parts of the job in the scheduler.
    pub parts: BTreeMap<PartKind, ExternalPart>,
}

/// The answer to `job.submit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The new job.
    pub id: JobId,
    /// Warnings for the user, such as ignored directives.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// `job.list`. The answer is `Vec<JobSummary>`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Whether finished jobs are listed, too.
    #[serde(default)]
    pub all: bool,
}

/// Progress of `job.list` and `slurm.list`: hosts that did not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentHosts {
    /// Names of the hosts.
    pub silent: Vec<String>,
}

/// `job.show` (answer: [`JobDetail`]), `job.cancel` (answer: [`JobSummary`]) and `job.watch` (progress: a [`Watched`] at
/// each change; answer: the last one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneJob {
    /// The number that `entrepot job list` or `entrepot slurm list` shows.
    #[serde(alias = "job")]
    pub id: JobId,
}

/// `job.retry`: continues a failed job at the part that failed. The answer is a [`JobSummary`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The number that `entrepot job list` shows.
    pub id: JobId,
    /// The caller's file creation mask.
    #[serde(default)]
    pub umask: u32,
    /// The caller's environment, which the runner filters. A stage-out gets that of its submission.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// `job.log`: output of a part. The answer is a [`LogPiece`]; repeat from `next_offset` for the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The number that `entrepot job list` or `entrepot slurm list` shows.
    #[serde(alias = "job")]
    pub id: JobId,
    /// Stage-in, compute or stage-out.
    pub part: PartKind,
    /// Standard output or standard error.
    #[serde(default)]
    pub stream: Stream,
    /// First byte requested.
    #[serde(default)]
    pub offset: u64,
}

/// A piece of a log, at most 256 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPiece {
    /// Bytes of the log.
    pub data: Script,
    /// Offset of the next piece.
    pub next_offset: u64,
    /// Whether the log is complete: the part has ended or will never start.
    pub ended: bool,
}

/// The output of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard output stream.
    #[default]
    Out,
    /// Standard error stream.
    Err,
}

named! {
    /// A part of a job.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    PartKind {
        /// Stages the data in.
        StageIn = "stage-in",
        /// Runs the script.
        Compute = "compute",
        /// Stages the results out.
        StageOut = "stage-out",
    }
}
