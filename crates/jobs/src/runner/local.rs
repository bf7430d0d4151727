//! The built-in runner as a backend. The parts of its jobs run here, or in another scheduler at the request of their
//! owner.

use super::external::Unseen;
use super::spool;
use crate::account;
use crate::arrivals::QueueKind;
use crate::backend::{self, Backend};
use crate::config::Config;
use crate::exec::{self, Spec};
use crate::job::{Job, Progress};
use crate::known::OF_RUNNER;
use crate::request::*;
use parking_lot::Mutex;
use policy::schedule::easy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// State that the runner's threads share.
pub(super) type Core = backend::Core<Local>;
pub(super) type JobTable = backend::JobTable<Local>;
pub(super) type Record = Job<RunnerJob>;

/// Data of the runner that need no lock.
#[derive(Default)]
pub struct Local {
    /// Schedulers that did not answer the last poll.
    pub(super) unseen: Mutex<BTreeMap<Kind, Unseen>>,
    /// Starts of scripts that other schedulers estimate, from the last poll, in milliseconds since 1970.
    pub starts: Mutex<BTreeMap<JobId, u64>>,
}

/// Data that the runner keeps of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunnerJob {
    pub submitted_ms: u64,
    pub why: Option<String>,
    /// Whether its owner or the operator cancelled it.
    pub cancelled: bool,
    pub(super) parts: Vec<PartRecord>,
    pub sources: Vec<RecordedSource>,
    pub recoveries: Vec<RecoveryEvent>,
    /// Parts that another scheduler runs, if there are any.
    pub external: Option<External>,
}

impl RunnerJob {
    /// Whether a part is to come, or was dropped by a cancel.
    pub fn is_unfinished(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.progress, Progress::Waiting | Progress::Dropped))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PartRecord {
    pub kind: PartKind,
    #[serde(rename = "phase")]
    pub progress: Progress,
    /// When it was dispatched.
    pub dispatched_ms: Option<u64>,
    pub report: Option<PartReport>,
}

impl Backend for Local {
    const NAME: &'static str = "job";
    const RECORDS: &'static str = OF_RUNNER;
    const EARLY: &'static str = "jobs";
    type JobData = RunnerJob;
    type Shelf = ();

    fn queue_of(job: &Record) -> QueueKind {
        if job.own.external.is_some() { QueueKind::Elsewhere } else { QueueKind::Local }
    }

    fn why(job: &Record) -> Option<String> {
        job.own.why.clone()
    }

    fn queued(job: &Record) -> Option<(Kind, String)> {
        job.own.external.as_ref().map(|external| (external.scheduler, job.name_in_queue()))
    }

    fn needs_files(job: &Record) -> bool {
        !job.state.is_final() || job.is_active()
    }

    fn runs(job: &Record) -> bool {
        job.is_at(PartKind::Compute, Progress::Running) && !job.own.cancelled
    }

    fn stage_out(config: &Config, job: &Record) -> Result<Spec, String> {
        if job.own.external.is_none() {
            let file = exec::file(&spool::dir(config, job.id), PartKind::StageOut, "spec");
            let bytes = std::fs::read(file).map_err(|e| e.to_string())?;
            return serde_json::from_slice(&bytes).map_err(|e| e.to_string());
        }
        let account = account::account(job.owner.uid, false).map_err(|e| e.to_string())?;
        let around = account::Surroundings { cwd: &job.cwd, umask: 0o022, environment: &BTreeMap::new(), mount: None };
        Ok(account::base(config, job.owner, &account, &around, job.id, &job.plan))
    }
}

impl Record {
    pub(super) fn part(&self, kind: PartKind) -> Option<&PartRecord> {
        self.own.parts.iter().find(|part| part.kind == kind)
    }

    pub(super) fn part_mut(&mut self, kind: PartKind) -> Option<&mut PartRecord> {
        self.own.parts.iter_mut().find(|part| part.kind == kind)
    }

    /// Whether one of its parts occupies cores or a slot.
    pub fn is_active(&self) -> bool {
        self.own.parts.iter().any(|part| matches!(part.progress, Progress::Checking | Progress::Running))
    }

    /// Whether a part has this progress.
    pub fn is_at(&self, kind: PartKind, progress: Progress) -> bool {
        self.part(kind).is_some_and(|part| part.progress == progress)
    }

    pub fn summary(&self) -> JobSummary {
        let started_ms = self.own.parts.iter().filter_map(|part| part.dispatched_ms).min();
        JobSummary { why: self.own.why.clone(), submitted_ms: self.own.submitted_ms, started_ms, ..self.outline() }
    }

    pub fn detail(&self, log_dir: PathBuf) -> JobDetail {
        JobDetail {
            summary: self.summary(),
            plan: self.plan.clone(),
            cwd: self.cwd.clone(),
            timeline: self.timeline.clone(),
            parts: self.own.parts.iter().filter_map(|part| part.report.clone()).collect(),
            sources: self.own.sources.clone(),
            check: self.check.clone(),
            recoveries: self.own.recoveries.clone(),
            early: self.early.clone(),
            arrival: self.arrival.clone(),
            protection: Vec::new(),
            log_dir,
            external: self.own.external.clone(),
        }
    }

    /// The number of its compute part in the queue that it waits in.
    pub fn name_in_queue(&self) -> String {
        let part = self.own.external.as_ref().and_then(|external| external.parts.get(&PartKind::Compute));
        part.map_or_else(|| self.id.to_string(), |part| part.id.clone())
    }
}

/// A part's number for the scheduler.
pub(super) fn number(id: JobId, kind: PartKind) -> easy::JobId {
    easy::JobId(id.0 * 4 + kind as u64)
}

pub(super) fn part_of(number: easy::JobId) -> (JobId, PartKind) {
    let kind = match number.0 % 4 {
        0 => PartKind::StageIn,
        1 => PartKind::Compute,
        _ => PartKind::StageOut,
    };
    (JobId(number.0 / 4), kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_numbers_of_their_own() {
        for kind in [PartKind::StageIn, PartKind::Compute, PartKind::StageOut] {
            assert_eq!(part_of(number(JobId(7), kind)), (JobId(7), kind));
        }
    }
}
