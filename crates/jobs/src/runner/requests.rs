//! Requests to the runner. Users see and act on their own jobs, root on all.

use super::external::Unseen;
use super::local::{Core, PartRecord, Record, RunnerJob};
use super::{Runner, gate, spool};
use crate::account::{self, Surroundings};
use crate::directory::{self, Nodes};
use crate::error::{Error, Result};
use crate::job::Progress;
use crate::logs;
use crate::plan::{self, Limits};
use crate::request::*;
use object::now_ms;
use policy::machine::Machine;
use policy::schedule::easy::Event;

impl Runner {
    /// Plans, spools and queues a job.
    pub fn submit(&self, caller: Caller, request: Submit) -> Result<Submitted> {
        let core = &self.core;
        let account = account::of_submitter(caller.uid)?;
        spool::check_request(&request.environment, &request.cwd)?;
        if rustix::process::geteuid().is_root() && caller.uid != 0 {
            spool::reachable(&core.config)?;
        }
        let limits =
            Limits { cores: core.config.cores, walltime_default_s: core.config.walltime_default_s, arrays: false };
        let planned =
            plan::plan(request.script.as_bytes(), &request.file_name, &request.overrides, limits, &*core.recogniser);
        let mut plan = planned.map_err(Error::Script)?;
        let script = std::mem::replace(&mut plan.compute_script, Script::Text(String::new()));
        self.check_share(caller)?;
        let id = self.new_id()?;
        core.make_ready(caller, id, Nodes::One, &mut plan, &request.cwd)?;
        let (mount, Submit { cwd, umask, environment, .. }) = (core.volume.mount_point(), &request);
        let around = Surroundings { cwd, umask: *umask, environment, mount: mount.as_deref() };
        let mut base = account::base(&core.config, caller, &account, &around, id, &plan);
        base.environment.extend(directory::variables(&plan.datawarp));
        let record = new_record(core, caller, account.name, id, plan, &request);
        let mut warnings: Vec<String> = record.plan.warnings.iter().map(ToString::to_string).collect();
        let notices = core.config.notices.as_ref().filter(|_| record.plan.mail.is_some());
        warnings.extend(notices.and_then(|notices| notices.no_mail()));
        if let Err(error) = spool::write(&core.config, &record, script.as_bytes(), &base) {
            let _ = std::fs::remove_dir_all(spool::dir(&core.config, id));
            core.unmake(id, &record.plan);
            return Err(Error::World(format!(
                "the job could not be written to {}: {error}; nothing was queued, make room there and submit again",
                core.config.jobs_dir.display()
            )));
        }
        self.enqueue(record)?;
        self.core.volume.count_job(JobState::Queued);
        Ok(Submitted { id, warnings })
    }

    /// Returns an unused number. After a loss of the state store, earlier jobs still have directories, and may run.
    pub(super) fn new_id(&self) -> Result<JobId> {
        loop {
            let id = JobId(self.core.state.next_number("job").map_err(|e| Error::World(e.to_string()))?);
            if !spool::dir(&self.core.config, id).exists() {
                return Ok(id);
            }
        }
    }

    fn enqueue(&self, record: Record) -> Result<()> {
        let core = &self.core;
        let mut table = core.table.lock();
        let refused = if table.closed {
            Some(Error::refused("the daemon is stopping", "submit again when it is back"))
        } else {
            core.remember(&record).err().map(|error| Error::World(format!("the job could not be saved: {error}")))
        };
        if let Some(error) = refused {
            let _ = std::fs::remove_dir_all(spool::dir(&core.config, record.id));
            core.volume.unmark_checkpoints(&Core::mark(record.id));
            core.clear(Vec::new(), Some(record.plan.datawarp), None);
            return Err(error);
        }
        gate::submit(core, &mut table, &record);
        for part in &record.own.parts {
            let job = core.request(&record, part.kind);
            table.machine.handle(core.now(), Event::Submitted(job));
        }
        table.jobs.insert(record.id, record);
        core.pump(&mut table);
        Ok(())
    }

    pub(super) fn check_share(&self, caller: Caller) -> Result<()> {
        let table = self.core.table.lock();
        let n_mine = table.jobs.values().filter(|r| r.owner.uid == caller.uid && !r.state.is_final()).count();
        if n_mine >= self.core.config.n_unfinished_per_user_max {
            let cause = format!("you have {n_mine} unfinished jobs, the limit of one user");
            return Err(Error::refused(cause, "submit again when some have ended"));
        }
        Ok(())
    }

    /// The caller's jobs, or all for root.
    pub fn list(&self, caller: Caller, request: List) -> Vec<JobSummary> {
        let shown: Vec<Record> = {
            let table = self.core.table.lock();
            let shown = table.jobs.values().filter(|r| r.is_open_to(caller) && (request.all || !r.state.is_final()));
            shown.cloned().collect()
        };
        shown.iter().map(|record| self.summary(record)).collect()
    }

    /// Current state of a job. May call the volume.
    pub(super) fn summary(&self, record: &Record) -> JobSummary {
        let mut summary = JobSummary { staging: self.core.staging(record), ..self.core.summary(record) };
        let scheduler = record.own.external.as_ref().filter(|_| !record.state.is_final()).map(|e| e.scheduler);
        if let Some(unseen) = scheduler.and_then(|kind| self.core.own.unseen.lock().get(&kind).map(Unseen::text)) {
            summary.detail = unseen;
        }
        summary
    }

    /// All data about a job.
    pub fn show(&self, caller: Caller, id: JobId) -> Result<JobDetail> {
        let record = self.look(caller, id, Record::clone)?;
        let mut detail = record.detail(spool::dir(&self.core.config, id));
        detail.summary = self.summary(&record);
        if !record.state.is_final() {
            detail.arrival = self.core.told(&record);
            detail.protection = self.core.protection(&record, &record.name_in_queue());
        }
        let started_ms = record.part(PartKind::Compute).and_then(|part| part.dispatched_ms);
        if let (JobState::Running, Some(from_ms)) = (record.state, started_ms) {
            let paths = record.staged_paths();
            detail.recoveries = self.core.volume.recoveries(record.owner, &paths, from_ms, now_ms());
        }
        Ok(detail)
    }

    /// Cancels a job: its running parts are signalled to end, then killed. Returns at once.
    pub fn cancel(&self, caller: Caller, id: JobId) -> Result<JobSummary> {
        let core = &self.core;
        let mut table = core.table.lock();
        let record = table.jobs.get_mut(&id).filter(|r| r.is_open_to(caller)).ok_or(Error::NoJob(id))?;
        if record.state.is_final() {
            let cause = format!("job {id} has ended already: {}", record.state);
            return Err(Error::refused(cause, format!("`entrepot job show {id}` shows how")));
        }
        record.own.cancelled = true;
        record.detail = "being cancelled".into();
        core.keep(record);
        if record.own.external.is_some() {
            // The caller has cancelled the job at the scheduler under its own account; the next poll shows the result.
            let summary = core.summary(record);
            core.changed.notify_all();
            return Ok(summary);
        }
        core.cancel(&mut table, id);
        core.pump(&mut table);
        table.jobs.get(&id).map(|record| core.summary(record)).ok_or(Error::NoJob(id))
    }

    /// A piece of a log.
    pub fn log(&self, caller: Caller, request: &Log) -> Result<LogPiece> {
        let kind = request.part;
        let ended = self.look(caller, request.id, |record| {
            let part = record.part(kind);
            part.is_none_or(|part| part.progress.is_over()) || record.state.is_final()
        })?;
        let dir = spool::dir(&self.core.config, request.id);
        logs::piece(&dir, kind, request.stream, request.offset, ended)
    }
}

pub(super) fn new_record(core: &Core, owner: Caller, user: String, id: JobId, plan: Plan, request: &Submit) -> Record {
    let waiting = |kind| PartRecord { kind, progress: Progress::Waiting, dispatched_ms: None, report: None };
    let mut record = Record {
        id,
        owner,
        user,
        cwd: request.cwd.clone(),
        mount: core.volume.mount_point(),
        state: JobState::Queued,
        detail: String::new(),
        timeline: Vec::new(),
        check: None,
        early: Vec::new(),
        arrival: None,
        own: RunnerJob {
            submitted_ms: now_ms(),
            parts: plan.parts.iter().map(|part| waiting(part.kind)).collect(),
            ..RunnerJob::default()
        },
        plan,
    };
    record.enter(JobState::Queued, "waits for its turn");
    record
}
