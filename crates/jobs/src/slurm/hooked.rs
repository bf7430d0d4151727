//! Slurm with its hooks as a backend: what is kept of a job that Slurm handed over.

use super::spool;
use super::transfer::Transfer;
use crate::arrivals::QueueKind;
use crate::backend::{self, Backend};
use crate::exec::Spec;
use crate::job;
use crate::request::{JobId, JobState, Kind, PartKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// What the threads share.
pub(super) type Core = backend::Core<Hooks>;
/// All jobs and transfers.
pub(super) type JobTable = backend::JobTable<Hooks>;
/// A job of Slurm that has staging directives.
pub type Job = job::Job<Hooked>;

/// What is needed without the lock.
pub(super) struct Hooks {
    /// Who may call the hooks besides root and whoever runs the daemon.
    pub slurm_users: Vec<u32>,
    /// Whether Slurm's queue could not be asked at the last look.
    pub is_unseen: AtomicBool,
}

/// What is kept under the lock beside the jobs.
#[derive(Default)]
pub(super) struct Shelf {
    pub transfers: BTreeMap<u64, Transfer>,
    /// How often transfers were begun anew because the daemon that they talked to had ended.
    pub begun_anew: BTreeMap<u64, u32>,
    /// Jobs whose data are being compared just now.
    pub verifying: BTreeSet<JobId>,
}

/// What is kept of a job of Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooked {
    /// Slurm's configuration, where it is not in the usual place.
    pub conf: Option<PathBuf>,
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

impl Backend for Hooks {
    const NAME: &'static str = "slurm";
    const RECORDS: &'static str = "slurm-job";
    const EARLY: &'static str = "slurm";
    type Own = Hooked;
    type Shelf = Shelf;

    fn queue_of(_: &Job) -> QueueKind {
        QueueKind::Slurm
    }

    fn why(job: &Job) -> Option<String> {
        job.own.why.as_ref().map(|why| format!("{} failed: {}", why.part, why.cause))
    }

    fn queued(job: &Job) -> Option<(Kind, String)> {
        job.state.has_data().then(|| (Kind::Slurm, job.id.to_string()))
    }

    fn needs_files(job: &Job) -> bool {
        job.may_start()
    }

    fn runs(job: &Job) -> bool {
        job.state == JobState::Running
    }

    fn stage_out(core: &Core, job: &Job) -> Result<Spec, String> {
        spool::base(&core.config, job.id).map_err(|e| format!("its environment is gone: {e}"))
    }
}

impl Job {
    /// Whether it runs or may yet run: also when its stage-in failed, for then Slurm holds it and its owner can go on.
    pub fn may_start(&self) -> bool {
        !self.state.is_final() || (self.state == JobState::Failed && self.has_failed_in(PartKind::StageIn))
    }

    /// Whether it was this step that failed.
    pub fn has_failed_in(&self, part: PartKind) -> bool {
        self.own.why.as_ref().is_some_and(|why| why.part == part)
    }

    /// Its transfers of one kind.
    pub fn transfers(&self, kind: PartKind) -> &Vec<u64> {
        if kind == PartKind::StageOut { &self.own.taken } else { &self.own.brought }
    }

    /// The same, to add to.
    pub fn transfers_mut(&mut self, kind: PartKind) -> &mut Vec<u64> {
        if kind == PartKind::StageOut { &mut self.own.taken } else { &mut self.own.brought }
    }
}
