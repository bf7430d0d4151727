//! A job as its owner sees it: where it stands, how its parts ended, what was done about its data.

use super::{Arrival, CheckReport, JobId, PartKind, Plan, Protected, RecoveryEvent};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waiting for its turn; [`JobSummary::detail`] says for what.
    Queued,
    /// Slurm named it; its data are not asked for yet, or not due.
    SetUp,
    /// Its stage-in commands run.
    StagingIn,
    /// What they brought is compared, size and checksums.
    Verifying,
    /// Its data are there; Slurm starts it.
    StagedIn,
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

    /// Whether Slurm has been told that its data are there.
    pub fn has_data(self) -> bool {
        matches!(self, JobState::StagedIn | JobState::Running | JobState::StagingOut)
    }

    /// Its name as the user sees it.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::SetUp => "set-up",
            JobState::StagingIn => "staging-in",
            JobState::Verifying => "verifying",
            JobState::StagedIn => "staged-in",
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
    /// The number that `entrepot job list` shows.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// The host that has it, on a volume of several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
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

/// A file or directory that comes to the volume, or leaves it, just now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Where in the volume.
    pub path: PathBuf,
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes per second since it began.
    pub rate_bytes_s: u64,
    /// Seconds left at that rate; none while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<u64>,
    /// Bytes per second that it is held to, and what holds it: `--limit`, `[stage] limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<(u64, String)>,
}

/// `job.watch`: at each change as progress, and as the answer when the job is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The line of `job list`.
    pub summary: JobSummary,
    /// When its script is expected to start, in milliseconds since 1970; nothing while its queue does not say, or now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
    /// How its data stand, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
    /// What comes or goes just now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
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
    pub check: Option<CheckReport>,
    /// Recoveries that touched its files while it ran.
    #[serde(default)]
    pub recoveries: Vec<RecoveryEvent>,
    /// Results that left while the script ran.
    #[serde(default)]
    pub early: Vec<Early>,
    /// How its data come, or came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
    /// What protects each of its input files, while it waits or runs.
    #[serde(default)]
    pub protection: Vec<Protected>,
    /// Where the logs lie.
    pub log_dir: PathBuf,
    /// Its parts in another scheduler, if one runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

/// A state that a job was in. A pair of state and time is read, too: so did earlier versions keep it for jobs of Slurm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The state.
    pub state: JobState,
    /// Since when, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it waited for or did.
    #[serde(default)]
    pub detail: String,
    /// How long, in milliseconds; nothing while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted_ms: Option<u64>,
}

/// How a part ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// Stage-in, compute or stage-out.
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
        /// The number of the signal.
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

/// Which scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Slurm.
    Slurm,
    /// OpenPBS and its relatives.
    Pbs,
}

/// A job whose parts another scheduler runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// Slurm or PBS.
    pub scheduler: Kind,
    /// Its parts there.
    pub parts: BTreeMap<PartKind, ExternalPart>,
    /// When its stage-in was let begin, in milliseconds since 1970: space is promised since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted_ms: Option<u64>,
    /// How often each of its data parts was let into the queue of data jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<PartKind, u32>,
    /// Why its stage-in is not let begin; told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A part in another scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalPart {
    /// Its number there.
    pub id: String,
    /// Where its output goes, as far as known. Its owner reads it themselves.
    #[serde(default)]
    pub out: Option<PathBuf>,
    /// Where its errors go.
    #[serde(default)]
    pub err: Option<PathBuf>,
}
