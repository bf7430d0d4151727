//! Slurm with its hooks as a backend: the data kept of a job that Slurm handed over.

use super::spool;
use super::transfer::Transfer;
use crate::arrivals::QueueKind;
use crate::backend::{self, Backend};
use crate::config::Config;
use crate::exec::Spec;
use crate::job;
use crate::request::{JobId, JobState, Kind, PartKind};
use crate::runner::Runner;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{OnceLock, Weak};
use std::time::Instant;

/// State that the threads share.
pub(super) type Core = backend::Core<Hooks>;
/// All jobs and transfers.
pub(super) type JobTable = backend::JobTable<Hooks>;
/// A job of Slurm that has staging directives.
pub type Job = job::Job<Hooked>;

/// Data that need no lock.
pub struct Hooks {
    /// Users that may call the hooks besides root and the user of the daemon.
    pub slurm_users: Vec<u32>,
    /// Whether Slurm's queue did not answer the last poll.
    pub is_unseen: AtomicBool,
    /// Runner that knows jobs whose parts Slurm runs.
    pub runner: OnceLock<Weak<Runner>>,
}

/// Data kept under the lock beside the jobs.
#[derive(Default)]
pub struct Shelf {
    pub transfers: BTreeMap<u64, Transfer>,
    /// Restarts of each transfer because its daemon had ended.
    pub begun_anew: BTreeMap<u64, u32>,
    /// Begin of the polling for the outcome of a script, for jobs whose state still changes.
    pub ending_since: BTreeMap<JobId, Instant>,
    /// Jobs whose data are being verified.
    pub verifying: BTreeSet<JobId>,
}

/// Record of a job of Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooked {
    /// Slurm's configuration, where it is not in the usual place.
    pub conf: Option<PathBuf>,
    /// Why it failed, if it did.
    pub why: Option<StepFailure>,
    /// Remark about its end for the owner.
    pub note: Option<String>,
    /// Whether Slurm did not report how the script ended: the results stay until the owner decides.
    #[serde(default)]
    pub ending_unknown: bool,
    /// Whether Slurm dropped the job: it was cancelled, or slurmctld restarted. The watcher finds out which.
    pub let_go: bool,
    /// Transfers of its stage-in commands so far, in order.
    pub brought: Vec<u64>,
    /// Transfers of its stage-out commands.
    pub taken: Vec<u64>,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    /// Step that failed: stage-in, compute for the check before the start, or stage-out.
    pub part: PartKind,
    /// Cause, with the URI where there is one.
    pub cause: String,
    /// Whether the failure may be temporary: a server that is down, not one that refuses.
    pub passing: bool,
}

impl Backend for Hooks {
    const NAME: &'static str = "slurm";
    const RECORDS: &'static str = "slurm-job";
    const EARLY: &'static str = "slurm";
    type JobData = Hooked;
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

    fn stage_out(config: &Config, job: &Job) -> Result<Spec, String> {
        spool::base(config, job.id).map_err(|e| format!("its environment is gone: {e}"))
    }
}

impl Job {
    /// Whether the job runs or may still run. After a failed stage-in it may: Slurm holds it, for a retry.
    pub fn may_start(&self) -> bool {
        !self.state.is_final() || (self.state == JobState::Failed && self.has_failed_in(PartKind::StageIn))
    }

    /// Whether this step failed.
    pub fn has_failed_in(&self, part: PartKind) -> bool {
        self.own.why.as_ref().is_some_and(|why| why.part == part)
    }

    /// Transfers of the job of one kind.
    pub fn transfers(&self, kind: PartKind) -> &Vec<u64> {
        if kind == PartKind::StageOut { &self.own.taken } else { &self.own.brought }
    }

    /// Transfers of that kind, mutable.
    pub fn transfers_mut(&mut self, kind: PartKind) -> &mut Vec<u64> {
        if kind == PartKind::StageOut { &mut self.own.taken } else { &mut self.own.brought }
    }
}
