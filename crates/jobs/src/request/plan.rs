//! The plan of a job: its dependent parts with their commands.

use super::{JobState, PartKind, Script};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The plan of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the job.
    pub name: String,
    /// Parts of the job in order. A part without commands is left out, except compute.
    pub parts: Vec<Part>,
    /// Files marked as checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// Resources requested in DataWarp directives.
    #[serde(default, skip_serializing_if = "DataWarp::is_empty")]
    pub datawarp: DataWarp,
    /// Events of which the owner gets mail.
    pub mail: Option<Mail>,
    /// The compute script: the script with each directive line replaced by an empty comment, so that line numbers stay.
    pub compute_script: Script,
    /// Directives that are ignored or may surprise.
    pub warnings: Vec<Complaint>,
}

impl Plan {
    /// The part of that kind, if there is one.
    pub fn part(&self, kind: PartKind) -> Option<&Part> {
        self.parts.iter().find(|part| part.kind == kind)
    }
}

/// Mail to the owner: address and events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// Address of the mail; the owner's name if the script sets none.
    pub to: Option<String>,
    /// Mail at the end of the job, whatever its outcome.
    #[serde(default)]
    pub end: bool,
    /// Mail when the job has failed.
    #[serde(default)]
    pub fail: bool,
    /// Mail when the results were sent, or cannot be sent.
    #[serde(default)]
    pub stage_out: bool,
    /// Whether only `#SBATCH` lines request the mail, which Slurm reads itself.
    #[serde(default)]
    pub theirs: bool,
}

impl Mail {
    /// Whether no mail is requested.
    pub fn is_none(&self) -> bool {
        !(self.end || self.fail || self.stage_out)
    }

    /// Whether mail is requested for the end of a job in that state.
    pub fn is_for(&self, state: JobState, has_stage_out: bool) -> bool {
        let failed = state == JobState::Failed;
        self.end || (self.fail && failed) || (self.stage_out && has_stage_out && state != JobState::Cancelled)
    }
}

/// A part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Stage-in, compute or stage-out.
    pub kind: PartKind,
    /// Queue in which the part waits.
    pub queue: Queue,
    /// The part that must succeed before this one.
    pub after: Option<PartKind>,
    /// Number of cores that the part occupies.
    pub cores: u32,
    /// Longest run in seconds.
    pub walltime_s: u64,
    /// Number of retries of each command after a failure.
    pub retries: u32,
    /// Commands of the part, in order.
    pub commands: Vec<Command>,
    /// Scheduler parameters from its directives, as words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Vec<String>>,
}

/// The two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Queue of compute parts.
    Batch,
    /// Staging parts: they occupy no cores.
    Dataxfer,
}

/// One command of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Line of the script where it stands; 0 for the compute script itself.
    pub line: u32,
    /// Words of the command, passed as they are: no shell sees them.
    pub argv: Vec<String>,
    /// Sources recognised in its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<NamedSource>,
}

/// A source in a staging command, and the file or directory of its destination, both as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSource {
    /// URI of the source.
    pub uri: String,
    /// Destination: a file or directory; may be relative to the job's directory.
    pub path: String,
}

/// Content of one checkpoint line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Line of the script.
    pub line: u32,
    /// The files, as written.
    pub path: String,
    /// Application that writes them; the name of the job if the line names none.
    pub app: Option<String>,
    /// Number of nodes of the application.
    pub nodes: Option<u64>,
    /// Seconds between two failures.
    pub mtbf_s: Option<u64>,
    /// Seconds from one checkpoint to the next.
    pub interval_s: Option<u64>,
}

/// Directories in the volume that the variables of a DataWarp script name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataWarp {
    /// The job's own directory.
    pub own: Option<JobDirectory>,
    /// Persistent directories, which outlive the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub persistent: Vec<Persistent>,
}

impl DataWarp {
    /// Whether the script requests no directory.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.persistent.is_empty()
    }
}

/// A directory that exists from before a job's stage-in until its results were sent: `#DW jobdw`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDirectory {
    /// Line of the script.
    pub line: u32,
    /// Bytes that it requests.
    pub capacity_bytes: u64,
    /// Whether all its nodes share one.
    pub striped: bool,
    /// Whether each of its nodes has one.
    pub private: bool,
    /// Whether the job is over, so that the directory is removed or about to be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves: bool,
    /// Absolute path; known once the job has a number.
    pub path: Option<PathBuf>,
}

/// A persistent directory, found by its name: `#DW persistentdw`, `#BB create_persistent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persistent {
    /// Line of the script.
    pub line: u32,
    /// Name of the directory, which also ends the name of its variable.
    pub name: String,
    /// Requested bytes, if a missing directory is to be created.
    pub create_bytes: Option<u64>,
    /// Absolute path; known once the job has a number.
    pub path: Option<PathBuf>,
}

/// Error in a script, with line, cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// Line of the script, from 1; 0 for the script as a whole.
    pub line: u32,
    /// Cause of the complaint.
    pub cause: String,
    /// Remedy for the user.
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
