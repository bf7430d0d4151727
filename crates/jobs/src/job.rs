//! Record of a job, the same for all backends, in memory and in the state store.

use crate::plan::paths;
use crate::request::{Arrival, Caller, CheckReport, Early, JobId, JobState, JobSummary, Moment, PartKind, Plan};
use object::now_ms;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All data of one job, except script and environment, which are in the spool. `X` is the data of its backend.
///
/// Records of earlier versions can be read: in them the built-in runner named the phase `state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job<X> {
    /// The job's number: our own, or Slurm's if its hooks handed the job over.
    pub id: JobId,
    /// Caller that submitted it.
    pub owner: Caller,
    /// The owner's name.
    pub user: String,
    /// Plan of the job, without the script.
    pub plan: Plan,
    /// Directory in which it was submitted.
    pub cwd: PathBuf,
    /// Mount point of the volume at submission.
    pub mount: Option<PathBuf>,
    /// Current state of the job.
    #[serde(rename = "phase", alias = "state")]
    pub state: JobState,
    /// Activity or reason for waiting, in a few words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Past states of the job.
    pub timeline: Vec<Moment>,
    /// Result of the check just before the start.
    pub check: Option<CheckReport>,
    /// Results that were sent while the script ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub early: Vec<Early>,
    /// Last seen progress of its stage-in.
    pub arrival: Option<Arrival>,
    /// Data that its backend keeps of it.
    #[serde(flatten)]
    pub own: X,
}

/// Progress of a part of a job or of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Queued behind others.
    Waiting,
    /// Dispatched; its data are being checked.
    Checking,
    /// The part runs.
    #[serde(alias = "started")]
    Running,
    /// The part succeeded.
    #[serde(alias = "ended")]
    Done,
    /// The part failed.
    Failed,
    /// The part will never run, or is not needed any more.
    Dropped,
}

impl Progress {
    /// Whether the phase is final, unless the job is retried.
    pub fn is_over(self) -> bool {
        matches!(self, Progress::Done | Progress::Failed | Progress::Dropped)
    }
}

impl<X> Job<X> {
    /// Enters a state, which ends the previous one. The same state with the same detail changes nothing.
    pub fn enter(&mut self, state: JobState, detail: impl Into<String>) {
        let (at_ms, detail) = (now_ms(), detail.into());
        (self.state, self.detail) = (state, detail.clone());
        if let Some(last) = self.timeline.last_mut() {
            if last.state == state && last.detail == detail {
                return;
            }
            last.lasted_ms = Some(at_ms.saturating_sub(last.at_ms));
        }
        let lasted_ms = state.is_final().then_some(0);
        self.timeline.push(Moment { state, at_ms, detail, lasted_ms });
    }

    /// Time of the entry into the present state, in milliseconds since 1970.
    pub fn since_ms(&self) -> u64 {
        self.timeline.last().map_or(0, |moment| moment.at_ms)
    }

    /// Summary of what all backends keep of a job.
    pub fn outline(&self) -> JobSummary {
        let compute = self.plan.part(PartKind::Compute);
        JobSummary {
            id: self.id,
            name: self.plan.name.clone(),
            host: None,
            uid: self.owner.uid,
            user: self.user.clone(),
            state: self.state,
            detail: self.detail.clone(),
            why: None,
            cores: compute.map_or(0, |part| part.cores),
            walltime_s: compute.map_or(0, |part| part.walltime_s),
            submitted_ms: self.timeline.first().map_or(0, |moment| moment.at_ms),
            started_ms: None,
            ended_ms: self.state.is_final().then(|| self.since_ms()),
            staging: None,
        }
    }

    /// Whether that user may see it and act on it.
    pub fn is_open_to(&self, caller: Caller) -> bool {
        caller.uid == 0 || caller.uid == self.owner.uid
    }

    /// Paths in the volume that its stage-in creates.
    pub fn staged_paths(&self) -> Vec<PathBuf> {
        paths::staged(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// Results that our own client sends in its stage-out: index of the command, and path.
    pub fn results(&self) -> Vec<(usize, PathBuf)> {
        paths::results(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// All paths in the volume that the plan names.
    pub fn needed_paths(&self) -> Vec<PathBuf> {
        paths::needed(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// The paths whose bytes are transferred now.
    pub fn moving_paths(&self) -> Vec<PathBuf> {
        match self.state {
            JobState::StagingIn => self.staged_paths(),
            JobState::StagingOut => self.results().into_iter().map(|(_, path)| path).collect(),
            _ => Vec::new(),
        }
    }
}
