//! Requests of Slurm's plug-in. Slurm may repeat every step, in any order.

use super::ending::{self, Ending};
use super::hooked::{Core, Hooked, Job, JobTable, StepFailure};
use super::stage_in;
use super::wire::{SetUp, Standing, original};
use super::{Slurm, scontrol, spool, watch};
use crate::account::{Surroundings, base, of_submitter};
use crate::backend::Now;
use crate::directory::{self, Nodes};
use crate::error::{Error, Result};
use crate::marks;
use crate::plan::{self, Limits};
use crate::request::{Caller, JobId, JobState, Overrides, PartKind, Script};
use engine::source::JOB_VARIABLE;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Slurm {
    /// Sets up a job that Slurm names. A known job goes on from its state; a failed one starts from the beginning.
    pub fn set_up(&self, asked: SetUp) -> Result<()> {
        let core = &self.core;
        let owner = Caller { uid: asked.uid, gid: asked.gid };
        let account = of_submitter(asked.uid)?;
        let script = original(asked.script.as_bytes());
        let limits = Limits { cores: u32::MAX, walltime_default_s: core.config.walltime_default_s, arrays: true };
        let planned = plan::plan(&script, "job", &Overrides::default(), limits, &*core.recogniser);
        let mut plan = planned.map_err(Error::Script)?;
        plan.compute_script = Script::Text(String::new());
        let cwd = asked.environment.get("SLURM_SUBMIT_DIR").or(asked.environment.get("PWD"));
        let cwd = cwd.map(PathBuf::from).filter(|dir| dir.is_absolute()).unwrap_or_else(|| "/".into());
        directory::give(&*core.volume, owner, &Core::mark(asked.job), Nodes::Any, &mut plan)?;
        plan.warnings.extend(marks::mark(&*core.volume, owner, &Core::mark(asked.job), &plan, &cwd)?);
        let umask = asked.environment.get("SLURM_UMASK").and_then(|mask| u32::from_str_radix(mask, 8).ok());
        let mount = core.volume.mount_point();
        let around = Surroundings {
            cwd: &cwd,
            umask: umask.unwrap_or(0o022),
            environment: &asked.environment,
            mount: mount.as_deref(),
        };
        let mut base = base(&core.config, owner, &account, &around, asked.job, &plan);
        base.environment.insert("SLURM_JOB_ID".into(), asked.job.to_string());
        base.environment.insert(JOB_VARIABLE.into(), Core::mark(asked.job));
        spool::put_base(&core.config, asked.job, &base).map_err(|e| {
            Error::World(format!("the job cannot be written down: {e}; make room in the state directory"))
        })?;
        let mut table = core.table.lock();
        let under_way = |job: &Job| {
            let going = matches!(job.state, JobState::StagingIn | JobState::Verifying | JobState::StagedIn);
            going && job.plan == plan && job.owner == owner
        };
        if let Some(job) = table.jobs.get_mut(&asked.job).filter(|job| under_way(job)) {
            job.own.let_go = false;
            core.keep(job);
            return Ok(());
        }
        table.own.ending_since.remove(&asked.job);
        core.release(&mut table, asked.job, PartKind::StageIn);
        core.release(&mut table, asked.job, PartKind::StageOut);
        let mut earlier = table.jobs.remove(&asked.job).filter(|job| job.owner == owner);
        earlier.iter_mut().for_each(|job| core.tell(job, Now::Gone));
        let mut job = Job {
            id: asked.job,
            owner,
            user: account.name,
            plan,
            cwd,
            mount,
            state: JobState::SetUp,
            detail: String::new(),
            timeline: earlier.map(|job| job.timeline).unwrap_or_default(),
            check: None,
            early: Vec::new(),
            arrival: None,
            own: Hooked { conf: asked.conf, ..Hooked::default() },
        };
        job.enter(JobState::SetUp, "");
        core.keep(&job);
        table.jobs.insert(asked.job, job);
        core.changed.notify_all();
        drop(watch::start(core));
        Ok(())
    }

    /// The variables that name the directories for a job's script.
    pub fn variables(&self, id: JobId) -> Result<Vec<(String, String)>> {
        let table = self.core.table.lock();
        table.jobs.get(&id).map(|job| directory::variables(&job.plan.datawarp)).ok_or_else(|| unknown(id))
    }

    /// Starts the stage-in of a job, or reports its progress.
    pub fn data_in(&self, id: JobId) -> Result<Standing> {
        let core = &self.core;
        let mut table = core.table.lock();
        // A hook may request data for a job that Slurm has dropped since; only a new set-up revives the job.
        let job = table.jobs.get(&id).ok_or_else(|| unknown(id))?;
        if job.state == JobState::SetUp {
            stage_in::ask_for(core, &mut table, id);
        }
        let job = table.jobs.get(&id).ok_or_else(|| unknown(id))?;
        Ok(standing(job, !matches!(job.state, JobState::StagingIn | JobState::Verifying | JobState::SetUp)))
    }

    /// Checks whether all data of a job are there, and repairs them if possible. Slurm starts the job only then.
    pub fn pre_run(&self, id: JobId) -> Result<Standing> {
        let core = &self.core;
        let job = core.table.lock().jobs.get(&id).cloned().ok_or_else(|| unknown(id))?;
        let checked = core.check(&job);
        let mut table = core.table.lock();
        match checked {
            Ok(report) => {
                if let Some(job) = table.jobs.get_mut(&id) {
                    job.check = report;
                    core.tell(job, Now::Started);
                    job.enter(JobState::Running, "");
                    core.keep(job);
                }
                Ok(Standing::Done { note: String::new() })
            }
            Err(cause) => {
                let cause = format!("its data are not all there: {cause}");
                core.fail(&mut table, id, StepFailure { part: PartKind::Compute, cause, passing: true });
                let cause = table.jobs.get(&id).map(reason).unwrap_or_default();
                Ok(Standing::Failed { cause })
            }
        }
    }

    /// Starts the stage-out of a job, or reports its progress. Results stay in place if the script failed.
    pub fn data_out(&self, id: JobId) -> Result<Standing> {
        let core = &self.core;
        let state = core.table.lock().jobs.get(&id).map(|job| job.state).ok_or_else(|| unknown(id))?;
        if !state.is_final() && state != JobState::StagingOut {
            match self.ending_in_the_end(id)? {
                Ending::Moving => return Ok(Standing::UnderWay),
                Ending::Again => return self.runs_again(id),
                Ending::Well => {
                    let mut table = core.table.lock();
                    if let Some(job) = table.jobs.get_mut(&id) {
                        job.enter(JobState::StagingOut, "");
                        core.keep(job);
                    }
                    core.advance(&mut table, id);
                    core.pump(&mut table);
                }
                Ending::Badly(why) => {
                    let note = format!("{why}; its results stay where they are");
                    core.finish(&mut core.table.lock(), id, JobState::Completed, Some(note));
                }
                Ending::Unknown(why) => {
                    let cause = format!(
                        "{why}, so nothing shows that the script ended well; its results stay where they are \
                         (to drop the job: entrepot slurm forget {id})"
                    );
                    let mut table = core.table.lock();
                    if let Some(job) = table.jobs.get_mut(&id) {
                        job.own.ending_unknown = true;
                    }
                    core.fail(&mut table, id, StepFailure { part: PartKind::StageOut, cause, passing: true });
                }
            }
        }
        let standing = {
            let table = core.table.lock();
            let job = table.jobs.get(&id).ok_or_else(|| unknown(id))?;
            standing(job, job.state == JobState::Completed)
        };
        // A job may be requeued during its stage-out. A failure would then keep the job in the queue for ever.
        if matches!(standing, Standing::Failed { .. }) && self.ending(id, Duration::ZERO)? == Ending::Again {
            return self.runs_again(id);
        }
        Ok(standing)
    }

    /// The end of a job's script, for a hook that polls until the end is known or the time limit passes.
    fn ending_in_the_end(&self, id: JobId) -> Result<Ending> {
        let since = *self.core.table.lock().own.ending_since.entry(id).or_insert_with(Instant::now);
        let ending = self.ending(id, since.elapsed())?;
        if ending != Ending::Moving {
            self.core.table.lock().own.ending_since.remove(&id);
        }
        Ok(ending)
    }

    /// The end of a job's script, as far as Slurm reports it.
    pub(super) fn ending(&self, id: JobId, waited: Duration) -> Result<Ending> {
        let conf = self.core.table.lock().jobs.get(&id).map(|job| job.own.conf.clone()).ok_or_else(|| unknown(id))?;
        let found = scontrol::look(id, conf.as_deref());
        let found = found.inspect_err(|error| tracing::info!("the end of Slurm's job {id} is unknown yet: {error}"));
        Ok(ending::ending(found.as_ref().ok(), waited))
    }

    /// Slurm runs the job again: this run stages nothing out, and the next one is set up like the first.
    fn runs_again(&self, id: JobId) -> Result<Standing> {
        let core = &self.core;
        let mut table = core.table.lock();
        core.release(&mut table, id, PartKind::StageOut);
        let job = table.jobs.get_mut(&id).ok_or_else(|| unknown(id))?;
        let note = "Slurm runs it again; the results of this run stay where they are";
        (job.own.note, job.own.why) = (Some(note.into()), None);
        job.enter(JobState::SetUp, "");
        core.keep(job);
        core.changed.notify_all();
        Ok(Standing::Done { note: note.into() })
    }

    /// Slurm has finished or dropped the job. The watcher finds out which; nothing is removed before.
    pub fn tear_down(&self, id: JobId) {
        let core = &self.core;
        let mut table = core.table.lock();
        let Some(job) = table.jobs.get_mut(&id) else { return };
        match job.state {
            JobState::Completed | JobState::Cancelled => {}
            JobState::Failed => {
                core.release(&mut table, id, PartKind::StageIn);
                core.volume.unmark_checkpoints(&Core::mark(id));
            }
            _ => {
                job.own.let_go = true;
                core.keep(job);
                core.changed.notify_all();
            }
        }
    }
}

/// Answer to a hook that waits for a step. `done`: whether the job is past it.
fn standing(job: &Job, done: bool) -> Standing {
    match job.state {
        JobState::Failed => Standing::Failed { cause: reason(job) },
        JobState::Cancelled => Standing::Failed { cause: "the job was cancelled".into() },
        _ if done => Standing::Done { note: job.own.note.clone().unwrap_or_default() },
        _ => Standing::UnderWay,
    }
}

fn unknown(id: JobId) -> Error {
    Error::refused(
        format!("job {id} was never set up here"),
        "it may belong to another volume; requeue it, or cancel it and submit it again",
    )
}

/// The reason as `squeue` shows it: the cause, whether waiting helps, and what the owner can do.
pub(super) fn reason(job: &Job) -> String {
    let Some(why) = &job.own.why else { return "its data could not be brought".into() };
    let prospect = if why.passing { "this may pass" } else { "this will not pass by itself" };
    format!("{}: {} ({prospect}; then: entrepot slurm retry {})", why.part, why.cause, job.id)
}

/// Retries a failed step for its owner. `ending` is the end of its script as Slurm reports it. Returns the outcome.
pub(super) fn retry(core: &Arc<Core>, table: &mut JobTable, id: JobId, ending: &Ending) -> Result<Retried> {
    let job = table.jobs.get_mut(&id).ok_or(Error::NoJob(id))?;
    // Slurm holds the job, or will run it later; in both cases Slurm itself requests the job's data.
    if *ending == Ending::Again {
        return Ok(Retried::NeedsRelease(job.own.conf.clone()));
    }
    let Some(why) = job.own.why.clone().filter(|_| job.state == JobState::Failed) else {
        let cause = format!("nothing of job {id} has failed: it is {}", job.state);
        return Err(Error::refused(cause, format!("`entrepot slurm show {id}` shows where it stands")));
    };
    if why.part != PartKind::StageOut {
        return Ok(Retried::NeedsRelease(job.own.conf.clone()));
    }
    if job.own.ending_unknown {
        match ending {
            Ending::Badly(why) => {
                let cause = format!("{why}: the script of job {id} did not end well, so its results stay in place");
                let mend = format!("copy what you need, then: entrepot slurm forget {id}");
                return Err(Error::refused(cause, mend));
            }
            // If Slurm cannot report the ending, the owner's request decides.
            _ => job.own.ending_unknown = false,
        }
    }
    // Commands that succeeded are not repeated.
    let failed = job.own.taken.pop();
    job.own.why = None;
    job.enter(JobState::StagingOut, "");
    core.keep(job);
    if let Some(transfer) = failed.and_then(|number| table.own.transfers.get_mut(&number)) {
        transfer.jobs.remove(&id);
        core.keep_transfer(transfer);
    }
    core.advance(table, id);
    core.pump(table);
    Ok(Retried::UnderWay)
}

/// Outcome of a retry.
pub(super) enum Retried {
    /// The retry is in progress.
    UnderWay,
    /// Slurm holds the job. Once released, the job's hook requests the data again. The value is the path of Slurm's
    /// configuration, if not the default.
    NeedsRelease(Option<PathBuf>),
}
