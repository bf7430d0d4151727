//! Jobs whose parts another scheduler runs. They are numbered and saved here, and watched in the scheduler's queue.
//!
//! The owner submits and cancels the parts, never the daemon. The daemon only polls: one request for the whole queue
//! every few seconds, and one for each part that has left it.

use super::core::why;
use super::local::{Core, JobTable, Record};
use super::requests::new_record;
use super::{Runner, spool};
use crate::account;
use crate::arrivals::{self, Start};
use crate::backend;
use crate::directory::{self, Nodes};
use crate::error::{Error, Result};
use crate::job::Progress;
use crate::plan::{self, Limits, paths};
use crate::queue::{self, Snapshot, State};
use crate::request::*;
use crate::scheduler::{PartStatus, is_id};
use engine::source::JOB_VARIABLE;
use object::now_ms;
use object::workers::Periodic;
use policy::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Interval between two polls of a queue. Five seconds are no load for a scheduler, and soon enough for users.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Interval of log messages about a scheduler that does not answer.
const TOLD_EVERY: Duration = Duration::from_secs(600);

/// Most admissions of a part to the queue of data jobs before all parts are there. A guess: `sbatch` tries again when
/// slurmctld is busy.
const CLAIMS_MAX: u32 = 3;

/// Interval at which the connection of a waiting client is checked.
const WAIT_BEAT: Duration = Duration::from_secs(5);

impl Runner {
    /// Registers a job that is about to be submitted elsewhere, and gives it a number.
    pub fn register(&self, caller: Caller, asked: Register) -> Result<Registered> {
        let core = &self.core;
        spool::check_request(&asked.job.environment, &asked.job.cwd)?;
        let account = account::account(caller.uid, false)?;
        // Without access to the scheduler, the state of the job could never be observed.
        let answer = asked.scheduler.queue().snapshot();
        seen(core, asked.scheduler, answer.clone());
        if let Err(error) = answer {
            let mend = "the operator can mend it: start the daemon with the PATH and the SLURM_CONF of the scheduler's commands";
            return Err(Error::refused(format!("the daemon cannot query {}: {error}", asked.scheduler.name()), mend));
        }
        let limits = Limits { cores: u32::MAX, walltime_default_s: core.config.walltime_default_s, arrays: false };
        let (script, name) = (asked.job.script.as_bytes(), &asked.job.file_name);
        let planned = plan::plan(script, name, &asked.job.overrides, limits, &*core.recogniser);
        let mut plan = planned.map_err(Error::Script)?;
        self.check_share(caller)?;
        let id = self.new_id()?;
        let own = rustix::process::geteuid();
        if !plan.datawarp.is_empty() && !own.is_root() && own.as_raw() != caller.uid {
            let cause = format!("this volume is run by user {} and can make directories for no other", own.as_raw());
            return Err(Error::refused(cause, "use a volume that is run by root, or #STAGEIN and #STAGEOUT lines"));
        }
        core.make_ready(caller, id, Nodes::Any, &mut plan, &asked.job.cwd)?;
        let mut kept = plan.clone();
        kept.compute_script = Script::Text(String::new());
        let mut record = new_record(core, caller, account.name, id, kept, &asked.job);
        record.detail = "being submitted".into();
        record.own.external = Some(External {
            scheduler: asked.scheduler,
            parts: BTreeMap::new(),
            claims: BTreeMap::new(),
            admitted_ms: None,
            refused: None,
        });
        core.remember(&record).map_err(|e| {
            core.unmake(id, &plan);
            Error::World(format!("the job could not be saved: {e}"))
        })?;
        core.table.lock().jobs.insert(id, record);
        core.changed.notify_all();
        drop(watch(core));
        let delay_s = asked.start_ms.and_then(|start_ms| {
            let wanted = paths::wanted(&plan, &asked.job.cwd, core.volume.mount_point().as_deref())?;
            let due_ms = core.config.arrivals.as_ref()?.due_ms(caller, &wanted, start_ms)?;
            Some(due_ms.saturating_sub(now_ms()) / 1000)
        });
        let script_environment = directory::variables(&plan.datawarp);
        let mut environment = core.config.environment.clone();
        environment.push((JOB_VARIABLE.into(), Core::mark(id)));
        Ok(Registered { id, plan, environment, script_environment, delay_s })
    }

    /// Checks a data part that a user submits: it must belong to a job that was numbered for that user and is being
    /// submitted. Each part is expected once, but Slurm may repeat the request after a failure.
    pub fn claim(&self, uid: u32, id: JobId, kind: PartKind) -> Result<()> {
        let mut table = self.core.table.lock();
        let record = table.jobs.get_mut(&id).filter(|r| r.owner.uid == uid && !r.state.is_final());
        let record = record.filter(|r| kind != PartKind::Compute && r.part(kind).is_some()).ok_or(Error::NoJob(id))?;
        let external = record.own.external.as_mut().filter(|e| e.scheduler == Kind::Slurm && e.parts.is_empty());
        let claims = external.ok_or(Error::NoJob(id))?.claims.entry(kind).or_default();
        if *claims == CLAIMS_MAX {
            let cause = format!("the {kind} part of job {id} was submitted already");
            return Err(Error::refused(cause, "submit a new job"));
        }
        *claims += 1;
        self.core.keep(record);
        Ok(())
    }

    /// Records that the parts of a job are in the scheduler's queue.
    pub fn submitted(&self, caller: Caller, told: SubmittedParts) -> Result<JobSummary> {
        if let Some(part) = told.parts.values().find(|part| !is_id(&part.id)) {
            let cause = format!("{:?} is no number of a scheduler", part.id);
            return Err(Error::refused(cause, "submit with `entrepot job submit --scheduler ...`"));
        }
        let core = &self.core;
        let mut table = core.table.lock();
        let record = table.jobs.get_mut(&told.id).filter(|r| r.is_open_to(caller)).ok_or(Error::NoJob(told.id))?;
        let Some(external) = record.own.external.as_mut().filter(|external| external.parts.is_empty()) else {
            return Err(Error::refused(format!("job {} is submitted already", told.id), "submit it again"));
        };
        external.parts = told.parts;
        record.detail = format!("in the queue of {}", external.scheduler.name());
        core.keep(record);
        core.changed.notify_all();
        Ok(core.summary(record))
    }

    /// Removes a job that was not submitted after all.
    pub fn unregister(&self, caller: Caller, id: JobId) -> Result<()> {
        let core = &self.core;
        let mut table = core.table.lock();
        let unsubmitted =
            |r: &&Record| r.is_open_to(caller) && r.own.external.as_ref().is_some_and(|e| e.parts.is_empty());
        table.jobs.get(&id).filter(unsubmitted).ok_or(Error::NoJob(id))?;
        let gone = table.jobs.remove(&id);
        drop(table);
        gone.iter().for_each(|record| core.unmake(id, &record.plan));
        core.forget(id);
        Ok(())
    }

    /// Waits until space is promised to the commands of the job's stage-in part. Every few seconds `progress` receives
    /// the state; it returns `false` if the part is gone.
    pub fn admit(&self, caller: Caller, id: JobId, progress: &mut dyn FnMut(&JobSummary) -> bool) -> Result<()> {
        let core = &self.core;
        let record = self.look(caller, id, Record::clone)?;
        let admitted = |external: &External| external.admitted_ms.is_some();
        let (Some(arrivals), false) = (&core.config.arrivals, record.own.external.as_ref().is_none_or(admitted)) else {
            return Ok(());
        };
        let ticket = Core::ticket(&record);
        core.ask(&record);
        loop {
            let mut table = core.table.lock();
            if table.closed {
                return Err(Error::refused("the daemon is stopping", "the scheduler may run this part again"));
            }
            let record = table.jobs.get_mut(&id).ok_or(Error::NoJob(id))?;
            let external = record.own.external.as_mut().ok_or(Error::NoJob(id))?;
            if admitted(external) {
                return Ok(());
            }
            if let Some(cause) = external.refused.take() {
                arrivals.gone(ticket);
                return Err(Error::World(format!("its data are not brought: {cause}")));
            }
            if let Some(told) = arrivals.told(ticket) {
                record.detail = told.standing;
            }
            let summary = core.summary(record);
            let until = Instant::now() + WAIT_BEAT;
            core.changed.wait_until(&mut table, until);
            drop(table);
            if !progress(&summary) {
                arrivals.gone(ticket);
                return Err(Error::NoJob(id));
            }
        }
    }

    /// Handles the end of the stage-in part: records sources, and checks the data. An error fails the part.
    pub fn staged(&self, caller: Caller, id: JobId) -> Result<CheckReport> {
        let core = &self.core;
        let record = self.look(caller, id, Record::clone)?;
        let sources = core.record_sources(&record);
        let checked = core.check(&record).map(Option::unwrap_or_default);
        let mut table = core.table.lock();
        let record = table.jobs.get_mut(&id).ok_or(Error::NoJob(id))?;
        record.own.sources = sources;
        record.check = checked.clone().ok();
        if checked.is_ok() {
            let began = record.own.external.as_ref().and_then(|external| external.admitted_ms);
            let took_ms = now_ms().saturating_sub(began.unwrap_or_else(now_ms));
            core.tell(record, backend::Now::Arrived(Some(took_ms)));
        }
        core.keep(record);
        checked.map_err(|cause| Error::World(format!("its data are not all there: {cause}; the script does not run")))
    }
}

/// Wakes the callers that wait in [`Runner::admit`].
pub(super) struct Waiting(pub Weak<Core>);

impl Waiting {
    fn tell(&self, id: u64, change: impl FnOnce(&mut External)) {
        let Some(core) = self.0.upgrade() else { return };
        let mut table = core.table.lock();
        let Some(record) = table.jobs.get_mut(&JobId(id)).filter(|record| !record.state.is_final()) else { return };
        record.arrival = core.told(record);
        if let Some(external) = record.own.external.as_mut() {
            change(external);
            core.keep(record);
            core.changed.notify_all();
        }
    }
}

impl arrivals::WaitingJobs for Waiting {
    /// No estimates: their scheduler has chosen the time, so they are due at the request.
    fn starts(&self) -> Option<BTreeMap<u64, Start>> {
        None
    }

    fn begin(&self, job: u64) {
        self.tell(job, |external| external.admitted_ms = Some(now_ms()));
    }

    fn give_up(&self, job: u64, cause: String) {
        self.tell(job, |external| external.refused = Some(cause));
    }
}

/// After a restart of the daemon: jobs whose stage-in has begun keep their space.
pub(super) fn take_up(core: &Core) {
    let mut table = core.table.lock();
    for record in table.jobs.values_mut().filter(|record| !record.state.is_final()) {
        let admitted = record.own.external.as_ref().is_some_and(|external| external.admitted_ms.is_some());
        let comes = record.part(PartKind::StageIn).is_some_and(|part| part.report.is_none());
        if admitted && comes {
            core.tell(record, backend::Now::UnderWay);
        }
    }
}

/// Starts to poll, as long as another scheduler has jobs.
pub(super) fn watch(core: &Arc<Core>) -> std::io::Result<()> {
    let weak = Arc::downgrade(core);
    let work = move || look(&weak).map(|()| LOOK_EVERY);
    core.watcher.get_or_init(|| Periodic::new(&core.config.threads, work)).wake_in(LOOK_EVERY)
}

/// Polls once. `None` at shutdown, or if no other scheduler has jobs.
fn look(weak: &Weak<Core>) -> Option<()> {
    let core = weak.upgrade()?;
    let watched: Vec<Record> = {
        let mut table = core.table.lock();
        if table.closed || !table.jobs.values().any(|r| !r.state.is_final() && r.own.external.is_some()) {
            return None;
        }
        cut_off(&core, &mut table);
        let submitted = |r: &&Record| r.own.external.as_ref().is_some_and(|external| !external.parts.is_empty());
        table.jobs.values().filter(|r| !r.state.is_final()).filter(submitted).cloned().collect()
    };
    let is_watched = |id: &JobId| watched.iter().any(|record| record.id == *id);
    core.own.starts.lock().retain(|id, _| is_watched(id));
    let kinds: BTreeSet<Kind> = watched.iter().filter_map(|r| Some(r.own.external.as_ref()?.scheduler)).collect();
    for kind in kinds {
        let Some(snapshot) = seen(&core, kind, kind.queue().snapshot()) else { continue };
        for record in
            watched.iter().filter(|r| r.own.external.as_ref().is_some_and(|external| external.scheduler == kind))
        {
            let found = look_at(record, kind, &snapshot);
            let script = snapshot.job(&record.name_in_queue()).filter(|job| job.state == State::Pending);
            match script.and_then(|job| job.start_ms) {
                Some(at) => core.own.starts.lock().insert(record.id, at),
                None => core.own.starts.lock().remove(&record.id),
            };
            let mut table = core.table.lock();
            if table.closed {
                return None;
            }
            for (part, now) in found {
                apply(&core, &mut table, record.id, kind, part, now);
            }
        }
    }
    Some(())
}

/// A scheduler that does not answer.
pub(super) struct Unseen {
    kind: Kind,
    since: Instant,
    told: Instant,
    cause: String,
}

impl Unseen {
    /// Sentence for the operator.
    pub fn text(&self) -> String {
        let since = Time(self.since.elapsed().as_nanos() as u64);
        format!("{} has not answered since {}: {}", self.kind.name(), arrivals::span(since), self.cause)
    }
}

/// Returns the snapshot, if there is one. Logs a scheduler that does not answer, at intervals.
fn seen(core: &Core, kind: Kind, answer: Result<Snapshot, queue::Error>) -> Option<Snapshot> {
    let (mut unseen, now) = (core.own.unseen.lock(), Instant::now());
    match answer {
        Ok(snapshot) => {
            if let Some(before) = unseen.remove(&kind) {
                tracing::info!("{} answers again, after {:.0} s", kind.name(), before.since.elapsed().as_secs_f64());
            }
            Some(snapshot)
        }
        Err(error) => {
            let known = unseen.entry(kind).or_insert_with(|| {
                tracing::warn!("{error}; jobs handed to it are shown as they were last seen");
                Unseen { kind, since: now, told: now, cause: String::new() }
            });
            known.cause = error.to_string();
            if known.told.elapsed() >= TOLD_EVERY {
                known.told = now;
                tracing::warn!("{}", known.text());
            }
            None
        }
    }
}

/// Time limit of a submission, which takes seconds: without a result after it, the submission was killed. A guess.
const SUBMITTED_WITHIN_MS: u64 = 600_000;

/// Fails the jobs whose submission was interrupted.
fn cut_off(core: &Arc<Core>, table: &mut JobTable) {
    let old = now_ms().saturating_sub(SUBMITTED_WITHIN_MS);
    for record in table.jobs.values_mut().filter(|r| !r.state.is_final() && r.own.submitted_ms < old) {
        if record.own.external.as_ref().is_some_and(|external| external.parts.is_empty()) {
            let cause = "its submission was cut off; look in the scheduler's queue for parts of it".to_string();
            core.finish(record, JobState::Failed, Some(cause));
        }
    }
}

/// State of a part in its scheduler.
enum Now {
    Waits(String),
    Runs(Option<u64>),
    Over(Ending),
}

/// The parts of a job that have not ended according to our record, in order, with their present states.
fn look_at(record: &Record, kind: Kind, snapshot: &Snapshot) -> Vec<(PartKind, Now)> {
    let Some(external) = &record.own.external else { return Vec::new() };
    let mut found = Vec::new();
    for part in record.own.parts.iter().filter(|part| !part.progress.is_over()) {
        let Some(there) = external.parts.get(&part.kind) else { continue };
        let now = match snapshot.job(&there.id).map(|job| (job.state, job)) {
            Some((State::Pending, job)) => Now::Waits(format!("{} as {}: {}", kind.name(), there.id, job.reason)),
            Some((State::Running | State::Ending, job)) => Now::Runs(job.start_ms),
            Some((State::Ended, _)) | None => match kind.scheduler().look(&there.id) {
                Ok(PartStatus { ending: Some(ending), .. }) => Now::Over(ending),
                // The part appeared between the two requests, or is requeued: the next poll decides.
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!("{error}");
                    break;
                }
            },
        };
        let over = matches!(now, Now::Over(_));
        found.push((part.kind, now));
        if !over {
            break;
        }
    }
    found
}

fn apply(core: &Arc<Core>, table: &mut JobTable, id: JobId, scheduler: Kind, kind: PartKind, now: Now) {
    let Some(record) = table.jobs.get_mut(&id).filter(|record| !record.state.is_final()) else { return };
    let Some(part) = record.part_mut(kind) else { return };
    match now {
        Now::Waits(detail) if part.progress == Progress::Waiting => {
            if record.detail != detail && !record.own.cancelled {
                record.detail = detail;
                core.changed.notify_all();
            }
        }
        Now::Waits(_) => {
            part.progress = Progress::Waiting;
            record.enter(JobState::Queued, format!("{} put its {kind} back", scheduler.name()));
            core.keep(record);
        }
        Now::Runs(start_ms) if part.progress != Progress::Running => {
            part.progress = Progress::Running;
            part.dispatched_ms = Some(start_ms.unwrap_or_else(now_ms));
            let state = match kind {
                PartKind::StageIn => JobState::StagingIn,
                PartKind::Compute => JobState::Running,
                PartKind::StageOut => JobState::StagingOut,
            };
            record.enter(state, format!("runs in {}", scheduler.name()));
            if kind == PartKind::Compute {
                core.tell(record, backend::Now::Started);
            }
            core.keep(record);
            core.changed.notify_all();
        }
        Now::Runs(_) => {}
        Now::Over(ending) => over(core, record, kind, ending),
    }
    if table.jobs.get(&id).is_some_and(|record| record.state.is_final()) {
        core.prune(table);
    }
}

fn over(core: &Arc<Core>, record: &mut Record, kind: PartKind, ending: Ending) {
    let started_ms = record.part(kind).and_then(|part| part.dispatched_ms).unwrap_or_else(now_ms);
    let report = PartReport { kind, started_ms, ended_ms: now_ms(), ending: ending.clone(), steps: Vec::new() };
    let ok = ending.is_success();
    let reason =
        (!ok).then(|| format!("{}; see `entrepot job log {} --part {kind}`", why(record, kind, &report), record.id));
    if !ok {
        // The scheduler drops the dependent parts itself, as requested at submission.
        let waiting = record.own.parts.iter_mut().filter(|part| part.progress == Progress::Waiting);
        waiting.for_each(|part| part.progress = Progress::Dropped);
    }
    let cancelled = !ok && (record.own.cancelled || ending == Ending::Cancelled);
    core.part_over(record, report, cancelled, reason);
    core.changed.notify_all();
}
