//! A job of Slurm and a transfer, as they are remembered in memory and in the state store.

use crate::exec::now_ms;
use crate::plan::paths;
use crate::request::{Arrival, Caller, CheckReport, Early, PartKind, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A job of Slurm that has staging directives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Slurm's number.
    pub id: u64,
    /// Its owner, from Slurm.
    pub owner: Caller,
    /// Her name.
    pub user: String,
    /// Its plan, without the script.
    pub plan: Plan,
    /// Where it was submitted.
    pub cwd: PathBuf,
    /// Where the volume was mounted then.
    pub mount: Option<PathBuf>,
    /// Slurm's configuration, where it is not in the usual place.
    pub conf: Option<PathBuf>,
    /// Where it stands.
    pub phase: Phase,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why it failed, if it did.
    pub why: Option<Why>,
    /// What is worth knowing about its end.
    pub note: Option<String>,
    /// Slurm let go of it: it was cancelled, or slurmctld restarted. Which of them is looked up.
    pub let_go: bool,
    /// Transfers of its stage-in commands, in their order, as far as it came.
    pub brought: Vec<u64>,
    /// The same for stage-out.
    pub taken: Vec<u64>,
    /// What the look just before the start found.
    pub check: Option<CheckReport>,
    /// Results that left while the script ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub early: Vec<Early>,
    /// How its data came, as last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
    /// Phases that it was in, and when each began.
    pub timeline: Vec<(Phase, u64)>,
}

/// Where a job of Slurm stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Slurm named it; its data are not asked for yet, or not due.
    SetUp,
    /// Its stage-in commands run.
    StagingIn,
    /// What they brought is compared, size and checksums.
    Verifying,
    /// Its data are there.
    StagedIn,
    /// It was looked at just before its start, and all was there.
    Running,
    /// Its stage-out commands run.
    StagingOut,
    /// All is done.
    Completed,
    /// A step failed; the owner can retry it.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Phase {
    /// Whether nothing happens by itself any more.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Completed | Phase::Failed | Phase::Cancelled)
    }

    /// Whether its data are there.
    pub fn has_data(self) -> bool {
        matches!(self, Phase::StagedIn | Phase::Running | Phase::StagingOut)
    }

    /// As users see it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::SetUp => "set-up",
            Phase::StagingIn => "staging-in",
            Phase::Verifying => "verifying",
            Phase::StagedIn => "staged-in",
            Phase::Running => "running",
            Phase::StagingOut => "staging-out",
            Phase::Completed => "completed",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
        }
    }
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Which step: stage-in, or compute for the look before the start, or stage-out.
    pub part: PartKind,
    /// What happened, with the URI where there is one.
    pub cause: String,
    /// Whether it may pass by itself: a server that is down, against one that says no.
    pub passing: bool,
}

impl Job {
    /// Enters a phase.
    pub fn enter(&mut self, phase: Phase) {
        self.since_ms = now_ms();
        if self.phase != phase || self.timeline.is_empty() {
            self.timeline.push((phase, self.since_ms));
        }
        self.phase = phase;
    }

    /// What its stage-in brings into the volume.
    pub fn staged_paths(&self) -> Vec<PathBuf> {
        paths::staged(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// All that it names in the volume.
    pub fn needed_paths(&self) -> Vec<PathBuf> {
        paths::needed(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// Whether it runs or may yet run: also when its stage-in failed, for then Slurm holds it and its owner can go on.
    pub fn may_start(&self) -> bool {
        let held = self.phase == Phase::Failed && self.why.as_ref().is_some_and(|why| why.part == PartKind::StageIn);
        !self.phase.is_final() || held
    }

    /// Its transfers of one kind.
    pub fn transfers(&self, kind: PartKind) -> &Vec<u64> {
        if kind == PartKind::StageOut { &self.taken } else { &self.brought }
    }

    /// The same, to add to.
    pub fn transfers_mut(&mut self, kind: PartKind) -> &mut Vec<u64> {
        if kind == PartKind::StageOut { &mut self.taken } else { &mut self.brought }
    }
}

/// One staging command on its way, for one job or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its number, which names its directory.
    pub number: u64,
    /// In or out.
    pub kind: PartKind,
    /// The command as it stands in the script, and its line.
    pub argv: Vec<String>,
    /// Its line in the script of the job that began it.
    pub line: u32,
    /// Equal for transfers that do the same; none for those that cannot be shared.
    pub share: Option<String>,
    /// Who runs it.
    pub owner: Caller,
    /// Files and directories of the volume that it brings.
    pub brings: Vec<PathBuf>,
    /// Jobs that need it. Without any it is over.
    pub jobs: BTreeSet<u64>,
    /// Jobs that ever needed it: as long as one is remembered, so are its logs.
    pub seen_by: BTreeSet<u64>,
    /// How far it is.
    pub state: TransferState,
    /// How long it took, once it succeeded, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why it failed.
    pub why: Option<(String, bool)>,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferState {
    /// Others are before it.
    Waiting,
    /// Its command runs.
    Running,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
    /// Nobody needs it any more.
    Dropped,
}
