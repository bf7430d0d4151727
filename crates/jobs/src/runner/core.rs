//! Life of jobs: executes the scheduler's decisions, and reports the outcome of parts back to it.
//!
//! One lock holds the table of all jobs. Under it are only memory, the state store and the start of processes. Waiting
//! for processes and requests to the volume happen on separate threads, one for each part that holds a place.

use super::gate;
use super::local::{Core, JobTable, PartRecord, Record, number, part_of};
use super::{spool, watch};
use crate::backend::Now;
use crate::directory;
use crate::job::Progress;
use crate::request::*;
use object::now_ms;
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::{self, Action, DropReason, Event};
use std::sync::Arc;

const BATCH: easy::QueueId = easy::QueueId(0);
const DATAXFER: easy::QueueId = easy::QueueId(1);

/// Queues of the runner: cores of this machine, slots for transfers, and gates without a limit.
pub(super) fn queues(cores: u32, n_transfers_max: u32) -> [easy::Queue; 3] {
    [
        easy::Queue { capacity: cores, charge: easy::Charge::Cores },
        easy::Queue { capacity: n_transfers_max, charge: easy::Charge::Slot },
        easy::Queue { capacity: u32::MAX, charge: easy::Charge::Slot },
    ]
}

impl Core {
    /// A part, as a job of the policy's scheduler.
    pub fn request(&self, record: &Record, kind: PartKind) -> easy::Job {
        let part = record.plan.part(kind);
        let after = part.and_then(|part| part.after).filter(|after| !record.is_at(*after, Progress::Done));
        let gate = (kind == PartKind::StageIn && gate::is_before(record)).then(|| gate::number(record.id));
        easy::Job {
            id: number(record.id, kind),
            queue: if kind == PartKind::Compute { BATCH } else { DATAXFER },
            cores: part.map_or(1, |part| part.cores.max(1)),
            estimate: Time::from_secs(part.map_or(1, |part| part.walltime_s)),
            after_ok: after.map(|after| number(record.id, after)).or(gate).into_iter().collect(),
            after_any: Vec::new(),
        }
    }

    /// The line of `job list` of a job.
    pub fn summary(&self, record: &Record) -> JobSummary {
        JobSummary { host: self.config.host(), ..record.summary() }
    }

    /// Executes the decisions of the scheduler until there are no more.
    pub fn pump(self: &Arc<Self>, table: &mut JobTable) {
        while !table.closed {
            let Some(action) = table.machine.poll() else { break };
            match action {
                Action::Start { id, .. } if gate::is_gate(id) => gate::reached(self, table, id),
                Action::Stop(id) if gate::is_gate(id) => gate::cancelled(self, table, id),
                Action::Drop { id, .. } if gate::is_gate(id) => {}
                Action::Start { id, .. } => self.start(table, part_of(id)),
                Action::Stop(id) => self.stop(table, part_of(id)),
                Action::Drop { id, reason } => self.dropped(table, part_of(id), reason),
            }
        }
        self.changed.notify_all();
    }

    fn start(self: &Arc<Self>, table: &mut JobTable, (id, kind): (JobId, PartKind)) {
        let Some(record) = table.jobs.get_mut(&id) else { return };
        let Some(part) = record.part_mut(kind) else { return };
        part.dispatched_ms = Some(now_ms());
        if kind == PartKind::Compute {
            part.progress = Progress::Checking;
            self.tell(record, Now::Started);
            record.enter(JobState::Checking, "checking whether all its data are there");
            self.keep(record);
            watch::check(self, id);
        } else {
            self.launch(table, id, kind);
        }
    }

    /// Starts the supervisor of a part.
    pub fn launch(self: &Arc<Self>, table: &mut JobTable, id: JobId, kind: PartKind) {
        let Some(record) = table.jobs.get_mut(&id) else { return };
        let Some(part) = record.part_mut(kind) else { return };
        part.progress = Progress::Running;
        let (state, detail) = match kind {
            PartKind::StageIn => (JobState::StagingIn, "its data are being brought"),
            PartKind::Compute => (JobState::Running, "its script runs"),
            PartKind::StageOut => (JobState::StagingOut, "its results are being taken home"),
        };
        record.enter(state, detail);
        self.keep(record);
        if let Err(error) = watch::spawn(self, table, id, kind) {
            let cause = format!("its supervisor could not be started: {error}");
            self.ended(table, id, kind, watch::lost_report(kind, cause));
        }
    }

    /// Cancels all parts of a job.
    pub fn cancel(&self, table: &mut JobTable, id: JobId) {
        let parts = table.jobs.get(&id).into_iter().flat_map(|record| &record.own.parts);
        let parts = parts.map(|part| number(id, part.kind));
        for id in parts.chain([gate::number(id)]).collect::<Vec<_>>() {
            table.machine.handle(self.now(), Event::Cancelled(id));
        }
    }

    /// Signals the running processes of a part to end. A part in its check ends after the check.
    fn stop(self: &Arc<Self>, table: &mut JobTable, (id, kind): (JobId, PartKind)) {
        if let Some(process) = table.running.get(&number(id, kind)) {
            watch::stop(self, id, kind, process.clone());
        }
    }

    fn dropped(self: &Arc<Self>, table: &mut JobTable, (id, kind): (JobId, PartKind), reason: DropReason) {
        let Some(record) = table.jobs.get_mut(&id) else { return };
        if let Some(part) = record.part_mut(kind) {
            part.progress = Progress::Dropped;
        }
        if record.state.is_final() || record.is_active() {
            return self.keep(record);
        }
        if record.own.cancelled {
            self.finish(record, JobState::Cancelled, None);
        } else if !matches!(reason, DropReason::DependencyFailed(_)) {
            let why = format!("the scheduler refused its {kind} part: {reason:?}");
            self.finish(record, JobState::Failed, Some(why));
        }
    }

    /// Handles the end of a part: decides whether the job goes on, and informs the scheduler.
    pub fn ended(self: &Arc<Self>, table: &mut JobTable, id: JobId, kind: PartKind, report: PartReport) {
        table.running.remove(&number(id, kind));
        let Some(record) = table.jobs.get_mut(&id) else { return };
        let ok = report.ending.is_success();
        let why = (!ok).then(|| why(record, kind, &report));
        if ok && kind == PartKind::StageIn {
            self.tell(record, Now::Arrived(Some(report.ended_ms.saturating_sub(report.started_ms))));
        }
        let cancelled = record.own.cancelled && (!ok || record.own.is_unfinished());
        self.part_over(record, report, cancelled, why);
        table.machine.handle(self.now(), Event::Ended { id: number(id, kind), ok });
        self.prune(table);
    }

    /// Saves the end of a part. The job waits for its next part, or is over.
    pub fn part_over(self: &Arc<Self>, record: &mut Record, report: PartReport, cancelled: bool, why: Option<String>) {
        let (kind, ok) = (report.kind, report.ending.is_success());
        if let Some(part) = record.part_mut(kind) {
            part.progress = if ok { Progress::Done } else { Progress::Failed };
            part.report = Some(report);
        }
        if !ok && kind == PartKind::StageIn {
            self.tell(record, Now::Failed);
        }
        if cancelled {
            self.finish(record, JobState::Cancelled, None);
        } else if !ok {
            self.finish(record, JobState::Failed, why);
        } else if record.own.is_unfinished() {
            record.enter(JobState::Queued, format!("its {kind} succeeded; waits for its turn"));
            self.keep(record);
        } else {
            self.finish(record, JobState::Completed, None);
        }
    }

    pub fn finish(self: &Arc<Self>, record: &mut Record, state: JobState, why: Option<String>) {
        let left = state != JobState::Completed && may_have_run(record);
        let kept = directory::kept(&record.plan.datawarp).filter(|_| left);
        record.own.why = match (why, &kept) {
            (Some(why), Some(kept)) => Some(format!("{why}; {kept}")),
            (why, _) => why,
        };
        if let Some(own) = &mut record.plan.datawarp.own {
            own.leaves = kept.is_none();
        }
        self.tell(record, Now::Gone);
        record.enter(state, kept.clone().unwrap_or_default());
        if !record.plan.checkpoints.is_empty() {
            self.volume.unmark_checkpoints(&Core::mark(record.id));
        }
        self.volume.count_job(state);
        self.keep(record);
        self.is_over(record, record.own.external.is_some());
        spool::forget_secrets(&self.config, record);
        self.forget_input(record);
    }

    /// Removes the partial data of a stage-in that did not succeed, and the job's own directory, unless that is kept.
    fn forget_input(self: &Arc<Self>, record: &Record) {
        let succeeded = |part: &PartRecord| part.report.as_ref().is_some_and(|report| report.ending.is_success());
        let brought = record.part(PartKind::StageIn).is_none_or(succeeded);
        let staged = (!brought).then(|| (record.owner, record.staged_paths())).into_iter().collect();
        let leaves = |datawarp: &&DataWarp| datawarp.own.as_ref().is_some_and(|own| own.leaves);
        let datawarp = Some(&record.plan.datawarp).filter(leaves).cloned();
        self.clear(staged, datawarp, Some(self.clearing.begin(record.id)));
    }

    /// Removes the finished jobs that exceed the retention limits.
    pub fn prune(&self, table: &mut JobTable) {
        let bytes_of = |id| spool::bytes(&self.config, id);
        for id in table.excess(&self.config.retention, |record| !record.is_active(), bytes_of) {
            table.jobs.remove(&id);
            self.forget(id);
        }
    }

    /// Removes all records of a job.
    pub fn forget(&self, id: JobId) {
        self.forget_job(id);
        let _ = std::fs::remove_dir_all(spool::dir(&self.config, id));
    }
}

/// Whether the script may have left output. Unknown for jobs of an external scheduler, unless it dropped the part.
fn may_have_run(record: &Record) -> bool {
    let compute = record.part(PartKind::Compute);
    match &record.own.external {
        Some(_) => compute.is_some_and(|part| part.progress != Progress::Dropped),
        None => compute.is_some_and(|part| part.dispatched_ms.is_some()),
    }
}

/// Reason for the user: the command and its line, its outcome, its last output.
pub(super) fn why(record: &Record, kind: PartKind, report: &PartReport) -> String {
    let command = report.steps.len().checked_sub(1).and_then(|last| record.plan.part(kind)?.commands.get(last));
    let (Some(command), Some(step)) = (command, report.steps.last()) else {
        return format!("{kind} {}", report.ending);
    };
    let mut text = if kind == PartKind::Compute {
        format!("the script {}", step.ending)
    } else {
        let words = shlex::try_join(command.argv.iter().map(String::as_str)).unwrap_or_default();
        format!("{kind} failed: line {}: {words} {}", command.line, step.ending)
    };
    if step.attempts > 1 {
        text += &format!(" in each of {} attempts", step.attempts);
    }
    if !step.stderr_tail.is_empty() {
        text += &format!("; its output: {}", step.stderr_tail);
    }
    text
}
