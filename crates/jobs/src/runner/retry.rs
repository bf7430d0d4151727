//! Retry of a failed job from the part that failed: earlier parts are not repeated.
//!
//! The environment of a job that is over is deleted, unless its stage-out failed. So a stage-in and a script run in
//! the environment of the retry request.

use super::local::{Core, PartRecord, Record};
use super::{Runner, gate, spool};
use crate::account::{self, Surroundings};
use crate::directory::{self, Nodes};
use crate::error::{Error, Result};
use crate::exec;
use crate::job::Progress;
use crate::marks;
use crate::request::*;
use policy::machine::Machine;
use policy::schedule::easy::Event;
use std::time::Duration;

/// Longest wait of a retry for the end of the previous run: a guess.
const CLEARED_WITHIN: Duration = Duration::from_secs(30);

impl Runner {
    /// Retries a failed job from the part that failed.
    pub fn retry(&self, caller: Caller, asked: Retry) -> Result<JobSummary> {
        let (core, id) = (&self.core, asked.id);
        let record = self.look(caller, id, Record::clone)?;
        let kind = failed_part(&record)?;
        let dir = spool::dir(&core.config, id);
        let kept = if kind == PartKind::StageOut { exec::file(&dir, kind, "spec") } else { dir.join("script") };
        if record.own.external.is_some() || !kept.exists() {
            let cause = format!("the commands of job {id} are not kept here");
            let mend = match kind {
                PartKind::StageOut => "take its results home by hand: entrepot stage out PATH URI",
                _ => "submit it again: complete files are not fetched again",
            };
            return Err(Error::refused(cause, mend));
        }
        if kind != PartKind::StageOut {
            self.prepare(caller, &record, kind, asked)?;
        }
        let mut table = core.table.lock();
        let record = table.jobs.get_mut(&id).ok_or(Error::NoJob(id))?;
        // A concurrent request may have retried the part already.
        if failed_part(record)? != kind {
            return Err(Error::NoJob(id));
        }
        let again: Vec<PartKind> = record.own.parts.iter().map(|part| part.kind).filter(|part| *part >= kind).collect();
        for part in &mut record.own.parts {
            if part.kind >= kind {
                *part = PartRecord { kind: part.kind, progress: Progress::Waiting, dispatched_ms: None, report: None };
                // The files of the last run record its end.
                for suffix in ["status", "pid"] {
                    let _ = std::fs::remove_file(exec::file(&dir, part.kind, suffix));
                }
            }
        }
        if let Some(own) = &mut record.plan.datawarp.own {
            own.leaves = false;
        }
        record.own.why = None;
        record.enter(JobState::Queued, format!("its {kind} is tried again"));
        core.keep(record);
        let record = record.clone();
        gate::submit(core, &mut table, &record);
        for part in again {
            let job = core.request(&record, part);
            table.machine.handle(core.now(), Event::Submitted(job));
        }
        core.pump(&mut table);
        table.jobs.get(&id).map(|record| core.summary(record)).ok_or(Error::NoJob(id))
    }

    /// Recreates the resources removed at the job's end: its directories, its checkpoints, the environment of its
    /// parts.
    fn prepare(&self, caller: Caller, record: &Record, kind: PartKind, asked: Retry) -> Result<()> {
        let (core, id) = (&self.core, record.id);
        if caller.uid != record.owner.uid {
            let cause = format!(
                "the {kind} of job {id} runs in the environment of the requesting user, and you are not its owner"
            );
            return Err(Error::refused(cause, format!("have {} ask for it", record.user)));
        }
        let (cwd, mount) = (&record.cwd, record.mount.as_deref());
        let around = Surroundings { cwd, umask: asked.umask, environment: &asked.environment, mount };
        spool::check_request(around.environment, cwd)?;
        let account = account::of_submitter(caller.uid)?;
        let mut plan = record.plan.clone();
        if !core.clearing.wait(id, CLEARED_WITHIN) {
            let cause = format!("the files of job {id} in the volume are still being removed");
            return Err(Error::refused(
                cause,
                "ask again when the volume answers: `entrepot status` shows whether it does",
            ));
        }
        let mark = Core::mark(id);
        directory::give(&*core.volume, caller, &mark, Nodes::One, &mut plan)?;
        marks::mark(&*core.volume, caller, &mark, &plan, cwd)?;
        let mut base = account::base(&core.config, caller, &account, &around, id, &plan);
        base.environment.extend(directory::variables(&plan.datawarp));
        spool::write_parts(&core.config, record, kind, &base).map_err(|e| {
            Error::World(format!("job {id} could not be written to {}: {e}", core.config.jobs_dir.display()))
        })
    }
}

fn failed_part(record: &Record) -> Result<PartKind> {
    let failed = record.own.parts.iter().find(|part| part.progress == Progress::Failed);
    failed.filter(|_| record.state == JobState::Failed).map(|part| part.kind).ok_or_else(|| {
        let cause = format!("no part of job {} has failed: it is {}", record.id, record.state);
        Error::refused(cause, format!("`entrepot job show {}` shows where it stands", record.id))
    })
}
