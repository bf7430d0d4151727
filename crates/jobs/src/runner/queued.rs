//! Snapshot of the runner's queue: its compute parts, their cores, and the estimated starts of waiting ones.

use super::Runner;
use super::local::{Core, Record};
use crate::job::Progress;
use crate::queue::{self, InputsOf, Queue, QueuedJob, Snapshot, State, WaitsFor, WithInputs, forecast};
use crate::request::{Kind, PartKind};
use object::now_ms;
use std::path::PathBuf;
use std::sync::Arc;

impl Runner {
    /// Inputs of the jobs that another scheduler runs, by that scheduler's numbers.
    pub fn inputs_of(&self) -> InputsOf {
        let core = Arc::downgrade(&self.core);
        Arc::new(move |id: &str| -> Vec<PathBuf> {
            let Some(core) = core.upgrade() else { return Vec::new() };
            let table = core.table.lock();
            let is_it = |r: &&Record| r.own.external.is_some() && r.name_in_queue() == id;
            table.jobs.values().find(is_it).map(Record::staged_paths).unwrap_or_default()
        })
    }

    /// Queue of another scheduler, polled only while jobs were submitted there from here.
    pub fn queue_elsewhere(&self, kind: Kind) -> Arc<dyn Queue> {
        let core = Arc::downgrade(&self.core);
        let is_there =
            move |r: &Record| !r.state.is_final() && r.own.external.as_ref().is_some_and(|e| e.scheduler == kind);
        let is_needed = move || core.upgrade().is_some_and(|core| core.table.lock().jobs.values().any(is_there));
        Arc::new(WithInputs { kind, inputs_of: self.inputs_of(), is_needed: Box::new(is_needed) })
    }
}

/// The queue of its own compute parts. Nodes are cores here.
impl Queue for Runner {
    fn snapshot(&self) -> Result<Snapshot, queue::Error> {
        Ok(picture(&self.core))
    }
}

/// Snapshot of the runner's own parts.
pub(super) fn picture(core: &Core) -> Snapshot {
    let records: Vec<Record> =
        core.table.lock().jobs.values().filter(|r| !r.state.is_final() && r.own.external.is_none()).cloned().collect();
    let mut jobs: Vec<QueuedJob> = records.iter().map(queued).collect();
    jobs.sort_by_key(|job| job.state == State::Pending);
    let now = now_ms();
    let length_ms = |job: &QueuedJob| job.time_limit_s.unwrap_or(core.config.walltime_default_s).saturating_mul(1000);
    let ends = jobs.iter().filter(|job| job.state == State::Running);
    let ends: Vec<_> = ends.map(|job| (job.start_ms.unwrap_or(now) + length_ms(job), job.nodes)).collect();
    let waiting: Vec<_> =
        jobs.iter().filter(|job| job.state == State::Pending).map(|job| (job.nodes, length_ms(job))).collect();
    let starts = forecast(now, core.config.cores, &ends, &waiting);
    for (job, start) in jobs.iter_mut().filter(|job| job.state == State::Pending).zip(starts) {
        job.start_ms = start;
    }
    Snapshot { taken_ms: now, nodes: core.config.cores, jobs }
}

fn queued(record: &Record) -> QueuedJob {
    let summary = record.summary();
    let compute = record.part(PartKind::Compute);
    let state = match compute.map(|part| part.progress) {
        Some(Progress::Waiting) => State::Pending,
        Some(Progress::Checking | Progress::Running) => State::Running,
        _ => State::Ending,
    };
    let brought = record.part(PartKind::StageIn).is_none_or(|part| part.progress == Progress::Done);
    let waits_for = match state {
        State::Pending if !brought => WaitsFor::Data,
        State::Pending => WaitsFor::Nodes,
        _ => WaitsFor::Nothing,
    };
    QueuedJob {
        id: summary.id.to_string(),
        user: summary.user,
        queue: "batch".into(),
        nodes: summary.cores,
        state,
        waits_for,
        reason: summary.detail,
        start_ms: compute.and_then(|part| part.dispatched_ms),
        time_limit_s: Some(summary.walltime_s),
        submitted_ms: Some(summary.submitted_ms),
        inputs: record.staged_paths(),
    }
}
