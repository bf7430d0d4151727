//! Transitions of jobs: a command that ended starts the next. `policy::schedule::easy` decides which transfers run, in
//! one queue with a slot for each that may run at once.

use super::hooked::{Core, Job, JobTable, StepFailure};
use super::transfer::{self, Transfer};
use super::{spool, verify};
use crate::backend::Now;
use crate::directory;
use crate::exec;
use crate::exec::outside::{self, Supervisor};
use crate::job::Progress;
use crate::request::{JobId, JobState, PartKind, PartReport};
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::{self, Action, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const TRANSFERS: &str = "slurm-transfer";

/// Most restarts of a transfer. Each follows an end of the daemon; after more of them the transfer itself is a likely
/// cause. A guess.
const BEGUN_ANEW_MAX: u32 = 3;

/// Whether the transfer may be restarted once more.
fn begin_anew(counts: &mut BTreeMap<u64, u32>, number: u64) -> bool {
    let count = counts.entry(number).or_default();
    *count += 1;
    *count <= BEGUN_ANEW_MAX
}

impl Core {
    /// Loads the records of the last daemon, adopts its transfers and continues.
    pub fn take_up(self: &Arc<Self>) -> object::Result<()> {
        let mut table = self.table.lock();
        let table = &mut *table;
        table.jobs = self.kept_jobs()?;
        self.remove_left(&table.jobs);
        let transfers = self.records(TRANSFERS)?.into_iter();
        table.own.transfers = transfers.map(|transfer: Transfer| (transfer.number, transfer)).collect();
        let coming = |job: &&mut Job| matches!(job.state, JobState::StagingIn | JobState::Verifying);
        table.jobs.values_mut().filter(coming).for_each(|job| self.tell(job, Now::UnderWay));
        // The last daemon ended before the recorded start took place. The transfer's lock prevents a second run.
        let not_begun = |t: &&mut Transfer| {
            t.state == Progress::Running && !outside::was_begun(&spool::dir(&self.config, t.number), t.kind)
        };
        table.own.transfers.values_mut().filter(not_begun).for_each(|transfer| transfer.state = Progress::Waiting);
        let of = |table: &JobTable, progress| -> Vec<(u64, PartKind)> {
            let such = table.own.transfers.values().filter(|t| t.state == progress);
            such.map(|t| (t.number, t.kind)).collect()
        };
        let ran = of(table, Progress::Running);
        for (number, _) in &ran {
            let (job, started) = (request(*number, Vec::new()), self.now());
            table.machine.handle(started, Event::Running { job, started });
        }
        for (number, _) in of(table, Progress::Waiting) {
            self.submit(table, number);
        }
        for (number, kind) in ran {
            let dir = spool::dir(&self.config, number);
            match outside::adopt(&dir, kind) {
                Some(supervisor) => self.supervise(table, number, kind, supervisor),
                None => self.ended(table, number, &outside::report(&dir, kind)),
            }
        }
        let unfinished: Vec<JobId> =
            table.jobs.values().filter(|job| !job.state.is_final()).map(|job| job.id).collect();
        for id in unfinished {
            self.advance(table, id);
        }
        self.pump(table);
        Ok(())
    }

    /// Saves a transfer in the state store.
    pub fn keep_transfer(&self, transfer: &Transfer) {
        self.keep_as(TRANSFERS, transfer.number, transfer);
    }

    /// Advances a job as far as possible without waiting.
    pub fn advance(self: &Arc<Self>, table: &mut JobTable, id: JobId) {
        let Some(job) = table.jobs.get(&id) else { return };
        let kind = match job.state {
            JobState::StagingIn => PartKind::StageIn,
            JobState::StagingOut => PartKind::StageOut,
            JobState::Verifying => return verify::start(self, table, id),
            _ => return,
        };
        if let Some(last) = job.transfers(kind).last().and_then(|number| table.own.transfers.get(number)) {
            match last.state {
                Progress::Waiting | Progress::Checking | Progress::Running => return,
                Progress::Failed | Progress::Dropped => {
                    let (cause, passing) = last.why.clone().unwrap_or_else(|| ("it was given up".into(), true));
                    return self.fail(table, id, StepFailure { part: kind, cause, passing });
                }
                Progress::Done => {}
            }
        }
        let part = job.plan.part(kind);
        let next = part.and_then(|part| part.commands.get(job.transfers(kind).len()));
        if next.is_some() {
            match transfer::join(self, table, id, kind) {
                Ok(()) => return self.pump(table),
                Err(cause) => return self.fail(table, id, StepFailure { part: kind, cause, passing: true }),
            }
        }
        let Some(job) = table.jobs.get_mut(&id) else { return };
        if kind == PartKind::StageIn {
            job.enter(JobState::Verifying, "");
            self.keep(job);
            verify::start(self, table, id);
        } else {
            self.finish(table, id, JobState::Completed, None);
        }
    }

    /// Submits a transfer to the scheduler. It waits for an earlier transfer to the same file, if there is one.
    pub fn submit(&self, table: &mut JobTable, number: u64) {
        let Some(transfer) = table.own.transfers.get(&number) else { return };
        let meets = |other: &&Transfer| other.brings.iter().any(|path| transfer.brings.contains(path));
        let others = table.own.transfers.values().filter(meets).map(|other| easy::JobId(other.number));
        let after_any = others.filter(|id| table.machine.standing(*id).is_some()).collect();
        table.machine.handle(self.now(), Event::Submitted(request(number, after_any)));
    }

    /// Executes the decisions of the scheduler until there are no more.
    pub fn pump(self: &Arc<Self>, table: &mut JobTable) {
        while !table.closed {
            let Some(action) = table.machine.poll() else { break };
            match action {
                Action::Start { id, .. } => self.launch(table, id.0),
                Action::Stop(id) => {
                    if let Some((transfer, process)) = table.own.transfers.get(&id.0).zip(table.running.get(&id)) {
                        let dir = spool::dir(&self.config, id.0);
                        let config = &self.config;
                        outside::stop(&config.threads, &dir, transfer.kind, process.clone(), config.grace_ms);
                    }
                }
                // The transfer was marked when it was cancelled.
                Action::Drop { .. } => {}
            }
        }
    }

    fn launch(self: &Arc<Self>, table: &mut JobTable, number: u64) {
        let Some(transfer) = table.own.transfers.get_mut(&number) else { return };
        transfer.state = Progress::Running;
        self.keep_transfer(transfer);
        let (kind, dir) = (transfer.kind, spool::dir(&self.config, number));
        match outside::start(&self.config.program, &self.config.supervisor_args, &dir, kind) {
            Ok(supervisor) => self.supervise(table, number, kind, supervisor),
            Err(error) => {
                let cause = format!("its supervisor could not be started: {error}");
                self.ended(table, number, &outside::lost_report(kind, cause));
            }
        }
    }

    fn supervise(self: &Arc<Self>, table: &mut JobTable, number: u64, kind: PartKind, supervisor: Supervisor) {
        self.watch(table, easy::JobId(number), supervisor, move |core| {
            let report = outside::report(&spool::dir(&core.config, number), kind);
            let mut table = core.table.lock();
            // No job waits for this transfer any more. Its data are removed before another gets its slot.
            if let Some(transfer) = table.own.transfers.get(&number).filter(|t| t.jobs.is_empty()).cloned() {
                drop(table);
                verify::forget(core, &transfer);
                table = core.table.lock();
            }
            if !table.closed {
                core.ended(&mut table, number, &report);
                core.pump(&mut table);
            }
        });
    }

    /// Handles the end of a transfer: its jobs go on.
    fn ended(self: &Arc<Self>, table: &mut JobTable, number: u64, report: &PartReport) {
        let id = easy::JobId(number);
        table.running.remove(&id);
        table.machine.handle(self.now(), Event::Ended { id, ok: report.ending.is_success() });
        let Some(transfer) = table.own.transfers.get_mut(&number) else { return };
        if transfer.jobs.is_empty() {
            transfer.state = Progress::Dropped;
        } else if report.ending.is_success() {
            transfer.state = Progress::Done;
            transfer.took_ms = Some(report.ended_ms.saturating_sub(report.started_ms));
        } else if transfer::lost_the_daemon(transfer, report) && begin_anew(&mut table.own.begun_anew, number) {
            // The command contacted a daemon that has ended; this daemon runs it again.
            let _ = std::fs::remove_file(exec::file(&spool::dir(&self.config, number), transfer.kind, "status"));
            transfer.state = Progress::Waiting;
        } else {
            transfer.state = Progress::Failed;
            transfer.why = Some(transfer::why(transfer, report));
        }
        self.keep_transfer(transfer);
        let (jobs, again) = (transfer.jobs.clone(), transfer.state == Progress::Waiting);
        if again {
            self.submit(table, number);
        }
        for id in jobs {
            self.advance(table, id);
        }
    }

    /// Fails a step of a job. Its transfers are released when Slurm tears the job down, or at a retry.
    pub fn fail(&self, table: &mut JobTable, id: JobId, mut why: StepFailure) {
        let Some(job) = table.jobs.get_mut(&id) else { return };
        if why.part == PartKind::StageOut {
            why.cause.extend(directory::kept(&job.plan.datawarp).map(|kept| format!("; {kept}")));
        }
        tracing::info!("{} of Slurm's job {id} failed: {}", why.part, why.cause);
        if why.part == PartKind::StageIn {
            self.tell(job, Now::Failed);
        }
        job.own.why = Some(why);
        job.enter(JobState::Failed, "");
        self.keep(job);
        self.is_over(job, true);
    }

    /// Finishes a job that is over.
    pub fn finish(self: &Arc<Self>, table: &mut JobTable, id: JobId, state: JobState, note: Option<String>) {
        let Some(job) = table.jobs.get_mut(&id) else { return };
        // If the script failed or its end is unknown, its results stay in the directory for the owner.
        let left = job.state == JobState::Running
            || note.is_some() && job.timeline.iter().any(|m| m.state == JobState::Running);
        let kept = directory::kept(&job.plan.datawarp).filter(|_| left);
        let note = note.or(job.own.note.take());
        if let Some(own) = job.plan.datawarp.own.as_mut().filter(|_| kept.is_none()) {
            own.leaves = true;
            self.clear(Vec::new(), Some(job.plan.datawarp.clone()), None);
        }
        job.own.note = [note, kept].into_iter().flatten().reduce(|note, kept| format!("{note}; {kept}"));
        job.own.let_go = false;
        self.tell(job, Now::Gone);
        // A job whose results could not be sent home has been reported already.
        let was_told = job.state == JobState::Failed;
        job.enter(state, "");
        self.keep(job);
        if !was_told {
            self.is_over(job, true);
        }
        self.volume.unmark_checkpoints(&Core::mark(id));
        self.release(table, id, PartKind::StageIn);
        self.release(table, id, PartKind::StageOut);
        self.give_up(table, id);
        spool::forget_base(&self.config, id);
        self.prune(table);
    }

    /// Removes the partial data of a job's failed transfers, unless another job stages the same.
    pub fn give_up(self: &Arc<Self>, table: &JobTable, id: JobId) {
        let alive = |t: &Transfer| !t.jobs.is_empty() || t.state == Progress::Running;
        let kept: BTreeSet<_> =
            table.own.transfers.values().filter(|t| alive(t)).flat_map(|t| t.brings.clone()).collect();
        let left = |t: &&Transfer| {
            let has_failed = t.kind == PartKind::StageIn && t.state == Progress::Failed;
            t.seen_by.contains(&id) && has_failed && !t.brings.iter().any(|p| kept.contains(p))
        };
        let left = table.own.transfers.values().filter(left);
        self.clear(left.map(|transfer| (transfer.owner, transfer.brings.clone())).collect(), None, None);
    }

    /// Releases the job's transfers of that kind. Transfers without other users end.
    pub fn release(self: &Arc<Self>, table: &mut JobTable, id: JobId, kind: PartKind) {
        let Some(job) = table.jobs.get_mut(&id) else { return };
        for number in std::mem::take(job.transfers_mut(kind)) {
            let Some(transfer) = table.own.transfers.get_mut(&number) else { continue };
            transfer.jobs.remove(&id);
            if transfer.jobs.is_empty() {
                if transfer.state == Progress::Waiting {
                    transfer.state = Progress::Dropped;
                }
                table.machine.handle(self.now(), Event::Cancelled(easy::JobId(number)));
            }
            self.keep_transfer(transfer);
        }
        if let Some(job) = table.jobs.get(&id) {
            self.keep(job);
        }
        self.pump(table);
    }

    /// Removes the jobs that exceed the retention limits, with their transfers' logs. Several jobs may share a
    /// transfer, so only their number counts.
    fn prune(self: &Arc<Self>, table: &mut JobTable) {
        for id in table.excess(&self.config.retention, |_| true, |_| 0) {
            self.forget(table, id);
        }
        self.remove_unused_transfers(table);
    }

    /// Removes the transfers, with their logs, that no kept job has used.
    pub fn remove_unused_transfers(&self, table: &mut JobTable) {
        let running = &table.running;
        let is_unused = |t: &&Transfer| t.seen_by.is_empty() && !running.contains_key(&easy::JobId(t.number));
        let unused: Vec<_> = table.own.transfers.values().filter(is_unused).map(|t| t.number).collect();
        for number in unused {
            table.own.transfers.remove(&number);
            self.forget_as(TRANSFERS, number);
            let _ = std::fs::remove_dir_all(spool::dir(&self.config, number));
        }
    }
}

/// A transfer as a job of the policy's scheduler. Its duration does not matter, since each has a slot.
fn request(number: u64, after_any: Vec<easy::JobId>) -> easy::Job {
    let (id, queue, estimate) = (easy::JobId(number), easy::QueueId(0), Time::from_secs(1));
    easy::Job { id, queue, cores: 1, estimate, after_ok: Vec::new(), after_any }
}
