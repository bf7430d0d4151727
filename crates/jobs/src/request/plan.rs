//! The plan of a job: its dependent parts with their commands.

use super::{JobState, PartKind, Script};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A job as it would be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the job.
    pub name: String,
    /// Parts of the job in order; those without commands are left out, compute is always there.
    pub parts: Vec<Part>,
    /// Files marked as checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// Resources requested in DataWarp directives.
    #[serde(default, skip_serializing_if = "DataWarp::is_empty")]
    pub datawarp: DataWarp,
    /// When its owner gets mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Mail>,
    /// The compute script: the script with each directive line replaced by an empty comment, so that line numbers stay.
    pub compute_script: Script,
    /// Directives that are ignored or may surprise.
    pub warnings: Vec<Complaint>,
}

impl Plan {
    /// A part of it, if it has one of that kind.
    pub fn part(&self, kind: PartKind) -> Option<&Part> {
        self.parts.iter().find(|part| part.kind == kind)
    }
}

/// When the owner of a job gets mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// Address of the mail; the owner's name if the script sets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When it is over, however it ended.
    #[serde(default)]
    pub end: bool,
    /// When it failed.
    #[serde(default)]
    pub fail: bool,
    /// When its results are at home, or cannot go there.
    #[serde(default)]
    pub stage_out: bool,
    /// Whether only `#SBATCH` lines request it, which Slurm reads, too.
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
    /// The part that must have succeeded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PartKind>,
    /// Cores that it occupies.
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
    /// Sources recognised in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<NamedSource>,
}

/// A source that a staging command names, and the file or directory that it fetches it to, both as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSource {
    /// URI of the source.
    pub uri: String,
    /// Destination; may be relative to the job's directory, may be a directory.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Nodes that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Seconds between two failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtbf_s: Option<u64>,
    /// Seconds from one checkpoint to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u64>,
}

/// Directories in the volume that a script written for DataWarp finds by its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataWarp {
    /// The one that the job has for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// A directory from before a job's data come until its results are home: `#DW jobdw`.
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
    /// Whether its job is over and it is removed, or was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves: bool,
    /// Absolute path; known once the job has a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// A directory by its name: `#DW persistentdw`, `#BB create_persistent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persistent {
    /// Line of the script.
    pub line: u32,
    /// Name of the directory, which also ends the name of its variable.
    pub name: String,
    /// Bytes requested if it is to be created where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_bytes: Option<u64>,
    /// Absolute path; known once the job has a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// Error in a script, with its place, cause and remedy.
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
