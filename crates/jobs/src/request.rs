//! What clients and the runner say to each other: the bodies of the `job.*` requests and of their answers.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A job. Numbers rise from 1 and are never given twice in one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Who asks, from the credentials of the socket's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Bytes of a script: text where they are UTF-8, so that JSON stays readable and small, numbers otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Script {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Script {
    /// The bytes as they were.
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

/// What the options of `job submit` say over the head of the script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// Name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Cores of the compute part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Longest run of the compute part, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_s: Option<u64>,
    /// Retries of the stage-in and stage-out commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

/// `job.submit`. The answer is a [`Submitted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    /// Name of the script's file, for display only.
    pub file_name: String,
    /// The script.
    pub script: Script,
    /// Where the job starts: the directory in which it was submitted, absolute.
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

/// `job.register`: the parts of a job will be run by another scheduler. The answer is a [`Registered`]; then follows
/// `job.submitted`, or `job.unregister` ([`OneJob`]) if a part could not be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The job; its environment and mask are the scheduler's affair and left out.
    pub job: Submit,
    /// Who runs it.
    pub scheduler: crate::scheduler::Kind,
    /// When that scheduler would start its script, if it can say: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
}

/// The answer to `job.register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The new job.
    pub id: JobId,
    /// Its parts and its script.
    pub plan: Plan,
    /// Variables that its data parts need to find the volume.
    pub environment: Vec<(String, String)>,
    /// The stage-in part is to start no sooner than in so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<u64>,
}

/// `job.submitted`: the parts are in the scheduler's queue. The answer is a [`JobSummary`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedParts {
    /// Which job.
    pub id: JobId,
    /// Its parts there.
    pub parts: BTreeMap<PartKind, crate::scheduler::ExternalPart>,
}

/// The answer to `job.submit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The new job.
    pub id: JobId,
    /// What the user should know: directives that are ignored, and the like.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// `job.list`. The answer is `Vec<JobSummary>`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Finished jobs too.
    #[serde(default)]
    pub all: bool,
}

/// `job.show` (answer: [`JobDetail`]), `job.cancel` (answer: [`JobSummary`]) and `job.wait` (progress: a
/// [`JobSummary`] at each change; answer: the last one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneJob {
    /// Which job.
    pub id: JobId,
}

/// `job.log`: what a part wrote. The answer is a [`LogPiece`]; ask again from `next_offset` for the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Which job.
    pub id: JobId,
    /// Which part.
    pub part: PartKind,
    /// Which of its two streams.
    #[serde(default)]
    pub stream: Stream,
    /// First byte wanted.
    #[serde(default)]
    pub offset: u64,
}

/// A piece of a log, at most 256 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPiece {
    /// The bytes.
    pub data: Script,
    /// Where the next piece starts.
    pub next_offset: u64,
    /// Whether there is nothing more now and nothing will come: the part has ended or never will start.
    pub ended: bool,
}

/// The output of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard output.
    #[default]
    Out,
    /// Standard error.
    Err,
}

/// A part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// Bring the data.
    StageIn,
    /// Run the script.
    Compute,
    /// Take the results home.
    StageOut,
}

impl PartKind {
    /// Its name in files, logs and answers.
    pub fn name(self) -> &'static str {
        match self {
            PartKind::StageIn => "stage-in",
            PartKind::Compute => "compute",
            PartKind::StageOut => "stage-out",
        }
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waiting for its turn; [`JobSummary::detail`] says for what.
    Queued,
    /// Its stage-in commands run.
    StagingIn,
    /// Its data are looked at, and mended where possible, before it is dispatched.
    Checking,
    /// Its script runs.
    Running,
    /// Its stage-out commands run.
    StagingOut,
    /// All parts succeeded.
    Completed,
    /// A part failed; [`JobSummary::why`] says which and why.
    Failed,
    /// Its owner or the operator cancelled it.
    Cancelled,
}

impl JobState {
    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Completed | JobState::Failed | JobState::Cancelled)
    }

    /// Its name as the user sees it.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::StagingIn => "staging-in",
            JobState::Checking => "checking",
            JobState::Running => "running",
            JobState::StagingOut => "staging-out",
            JobState::Completed => "completed",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of `job list`. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Which job.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its owner's user id.
    pub uid: u32,
    /// Its owner's name, or the number where there is none.
    pub user: String,
    /// Where it stands.
    pub state: JobState,
    /// What it waits for or does, in a few words.
    #[serde(default)]
    pub detail: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Cores of its compute part.
    pub cores: u32,
    /// Longest run of its compute part, in seconds.
    pub walltime_s: u64,
    /// When it was submitted.
    pub submitted_ms: u64,
    /// When its first part started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// When it reached its final state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// How far the data are that come or go now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<Staging>,
}

/// How far data are on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes in all, of what is on its way now.
    pub total_bytes: u64,
    /// Seconds left at the present rate; none while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<u64>,
}

/// The answer to `job.show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDetail {
    /// The line of `job list`.
    pub summary: JobSummary,
    /// What was planned at submission.
    pub plan: Plan,
    /// Where it was submitted.
    pub cwd: PathBuf,
    /// Its states in order, each with the time spent in it.
    pub timeline: Vec<Moment>,
    /// How its parts ended, those that did.
    pub parts: Vec<PartReport>,
    /// Sources recorded on the files that it staged in with ordinary commands.
    pub sources: Vec<RecordedSource>,
    /// What the check before dispatch found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<crate::volume::CheckReport>,
    /// Recoveries that touched its files while it ran.
    #[serde(default)]
    pub recoveries: Vec<crate::volume::RecoveryEvent>,
    /// Results that left while the script ran.
    #[serde(default)]
    pub early: Vec<Early>,
    /// How its data come, or came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<crate::arrivals::Arrival>,
    /// What protects each of its input files, while it waits or runs.
    #[serde(default)]
    pub protection: Vec<crate::volume::Protected>,
    /// Where the logs lie.
    pub log_dir: PathBuf,
    /// Its parts in another scheduler, if one runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<crate::scheduler::External>,
}

/// A state that a job was in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The state.
    pub state: JobState,
    /// What it waited for or did.
    #[serde(default)]
    pub detail: String,
    /// Since when, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long, in milliseconds; nothing while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted_ms: Option<u64>,
}

/// How a part ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// Which part.
    pub kind: PartKind,
    /// When its process started, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// What became of it.
    pub ending: Ending,
    /// Its commands, as far as they ran.
    pub steps: Vec<StepReport>,
}

/// How one command of a part ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// How often it was tried.
    pub attempts: u32,
    /// How the last attempt ended.
    pub ending: Ending,
    /// How long all attempts took, in milliseconds.
    pub lasted_ms: u64,
    /// The last lines that it wrote to standard error, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Ending {
    /// It ended by itself.
    Exited {
        /// 0 is success.
        code: i32,
    },
    /// A signal killed it.
    Signalled {
        /// Which.
        signal: i32,
    },
    /// It ran longer than it had asked for and was stopped.
    OutOfTime {
        /// What it had asked for, in seconds.
        walltime_s: u64,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// It could not be started, or its supervisor vanished.
    Lost {
        /// What is known.
        cause: String,
    },
}

impl Ending {
    /// Whether it did what it should.
    pub fn is_success(&self) -> bool {
        matches!(self, Ending::Exited { code: 0 })
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited { code: 0 } => f.write_str("succeeded"),
            Ending::Exited { code } => write!(f, "exited with status {code}"),
            Ending::Signalled { signal } => write!(f, "was killed by signal {signal}"),
            Ending::OutOfTime { walltime_s } => write!(f, "ran longer than its {walltime_s} s and was stopped"),
            Ending::Cancelled => f.write_str("was cancelled"),
            Ending::Lost { cause } => write!(f, "was lost: {cause}"),
        }
    }
}

/// A result that left, or tried to, while the script ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// The file.
    pub path: PathBuf,
    /// When that began, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took, in milliseconds.
    pub lasted_ms: u64,
    /// Why it failed, if it did; the stage-out part tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A source that a stage-in command's success put on a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSource {
    /// The file.
    pub path: PathBuf,
    /// Where it came from.
    pub uri: String,
    /// Why it could not be recorded, if so. The job runs all the same: only recovery is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
