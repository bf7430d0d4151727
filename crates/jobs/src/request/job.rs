//! A job as its owner sees it: its state, the outcome of its parts, and the treatment of its data.

use super::{Arrival, CheckReport, JobId, PartKind, Plan, Protected, RecoveryEvent};
use policy::named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// The job waits for its turn; [`JobSummary::detail`] names the reason.
    Queued,
    /// Slurm has set the job up; its data are not requested yet, or not due.
    SetUp,
    /// Its stage-in commands run.
    StagingIn,
    /// The staged data are compared with their source: size and checksums.
    Verifying,
    /// Its data are there; Slurm may start it.
    StagedIn,
    /// Its data are checked, and repaired where possible, before it is dispatched.
    Checking,
    /// Its script runs.
    Running,
    /// Its stage-out commands run.
    StagingOut,
    /// All parts succeeded.
    Completed,
    /// A part failed; [`JobSummary::why`] names the part and the cause.
    Failed,
    /// Its owner or the operator cancelled it.
    Cancelled,
}

impl JobState {
    /// Whether the state is final.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Completed | JobState::Failed | JobState::Cancelled)
    }

    /// Whether Slurm has received the notice that the job's data are there.
    pub fn has_data(self) -> bool {
        matches!(self, JobState::StagedIn | JobState::Running | JobState::StagingOut)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One line of `job list`. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The number that `entrepot job list` shows.
    pub id: JobId,
    /// Name of the job.
    pub name: String,
    /// The host that keeps the job, on a volume of several nodes.
    pub host: Option<String>,
    /// User id of the owner.
    pub uid: u32,
    /// Name of the owner, or the number if there is none.
    pub user: String,
    /// Current state of the job.
    pub state: JobState,
    /// Activity or reason for waiting, in a few words.
    #[serde(default)]
    pub detail: String,
    /// Cause of the failure, if it failed.
    pub why: Option<String>,
    /// Cores of its compute part.
    pub cores: u32,
    /// Longest run of its compute part, in seconds.
    pub walltime_s: u64,
    /// When it was submitted.
    pub submitted_ms: u64,
    /// When its first part started.
    pub started_ms: Option<u64>,
    /// When it reached its final state.
    pub ended_ms: Option<u64>,
    /// Progress of the running transfers.
    pub staging: Option<Staging>,
}

/// Progress of transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// Bytes that have arrived.
    pub done_bytes: u64,
    /// Total number of bytes of the running transfers.
    pub total_bytes: u64,
    /// Seconds left at the present rate; `None` without a rate.
    pub left_s: Option<u64>,
}

/// A running transfer of a file or directory into the volume, or out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Path in the volume.
    pub path: PathBuf,
    /// Bytes that have arrived.
    pub done_bytes: u64,
    /// Total number of bytes.
    pub total_bytes: u64,
    /// Bytes per second since its start.
    pub rate_bytes_s: u64,
    /// Seconds left at that rate; `None` without a rate.
    pub left_s: Option<u64>,
    /// Rate limit in bytes per second, and its origin: `--limit`, `[stage] limit`.
    pub limit: Option<(u64, String)>,
}

/// Answer to `job.watch`: sent as progress at each change, and as the answer when the job is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The line of `job list`.
    pub summary: JobSummary,
    /// Expected start of its script, in milliseconds since 1970; `None` without an estimate, or for a start right now.
    pub start_ms: Option<u64>,
    /// Progress of its stage-in, while it waits.
    pub arrival: Option<Arrival>,
    /// Transfers that run at this moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
}

/// The answer to `job.show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDetail {
    /// The line of `job list`.
    pub summary: JobSummary,
    /// Plan made at submission.
    pub plan: Plan,
    /// Directory in which it was submitted.
    pub cwd: PathBuf,
    /// States of the job in order, each with the time spent in it.
    pub timeline: Vec<Moment>,
    /// Outcomes of the parts that have ended.
    pub parts: Vec<PartReport>,
    /// Sources recorded on the files that it staged in with ordinary commands.
    pub sources: Vec<RecordedSource>,
    /// Result of the check before dispatch.
    pub check: Option<CheckReport>,
    /// Recoveries that touched its files while it ran.
    #[serde(default)]
    pub recoveries: Vec<RecoveryEvent>,
    /// Results that were sent while the script ran.
    #[serde(default)]
    pub early: Vec<Early>,
    /// Present or last progress of its stage-in.
    pub arrival: Option<Arrival>,
    /// Protection of each of its input files, while it waits or runs.
    #[serde(default)]
    pub protection: Vec<Protected>,
    /// Directory of the logs.
    pub log_dir: PathBuf,
    /// Parts of the job in another scheduler, if one runs them.
    pub external: Option<External>,
}

/// A state in a job's history. The pair of state and time of earlier versions, for jobs of Slurm, can be read, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// State that was entered.
    pub state: JobState,
    /// Time of its entry, in milliseconds since 1970.
    pub at_ms: u64,
    /// Activity or reason for waiting in this state.
    #[serde(default)]
    pub detail: String,
    /// Duration in milliseconds; `None` for the present state.
    #[serde(default)]
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
    /// Outcome of the part.
    pub ending: Ending,
    /// Commands of the part that ran.
    pub steps: Vec<StepReport>,
}

/// How one command of a part ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// Number of attempts.
    pub attempts: u32,
    /// How the last attempt ended.
    pub ending: Ending,
    /// Duration of all attempts, in milliseconds.
    pub lasted_ms: u64,
    /// Last lines of its standard error, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Ending {
    /// The process ended by itself.
    Exited {
        /// Exit status; 0 is success.
        code: i32,
    },
    /// A signal killed it.
    Signalled {
        /// The number of the signal.
        signal: i32,
    },
    /// The process ran longer than its requested walltime and was stopped.
    OutOfTime {
        /// Walltime that it had requested, in seconds.
        walltime_s: u64,
    },
    /// Cancelled by a user or the operator.
    Cancelled,
    /// The process could not be started, or its supervisor vanished.
    Lost {
        /// Cause, as far as it could be determined.
        cause: String,
    },
}

impl Ending {
    /// Whether the process ended with status 0.
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

/// A result that was sent while the script ran, or the failed try to send it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// Path of the file.
    pub path: PathBuf,
    /// Start of the transfer, in milliseconds since 1970.
    pub at_ms: u64,
    /// Duration in milliseconds.
    pub lasted_ms: u64,
    /// Cause of the failure, if it failed; the stage-out part tries again.
    pub failed: Option<String>,
}

/// A source that was recorded on a file after a successful stage-in command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSource {
    /// Path of the file.
    pub path: PathBuf,
    /// URI that the file came from.
    pub uri: String,
    /// Error of the recording, if it failed. The job runs all the same: only recovery is lost.
    pub error: Option<String>,
}

named! {
    /// Kind of scheduler.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    Kind {
        /// Slurm of SchedMD.
        Slurm = "slurm",
        /// OpenPBS and its relatives.
        Pbs = "pbs",
    }
}

/// A job whose parts another scheduler runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// Slurm or PBS.
    pub scheduler: Kind,
    /// Parts of the job in that scheduler.
    pub parts: BTreeMap<PartKind, ExternalPart>,
    /// Time since which space is promised and its stage-in may begin, in milliseconds since 1970.
    pub admitted_ms: Option<u64>,
    /// Number of admissions of each data part to the queue of data jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<PartKind, u32>,
    /// Reason why its stage-in may not begin; reported once.
    pub refused: Option<String>,
}

/// A part in another scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalPart {
    /// Number of the part in that scheduler.
    pub id: String,
    /// File of its standard output, if known. The owner reads the file directly.
    pub out: Option<PathBuf>,
    /// File of its standard error.
    pub err: Option<PathBuf>,
}
