//! Requests of users about their jobs in Slurm: list, show, read logs, retry. Root sees all.

use super::Slurm;
use super::hooked::{Core, Job, JobTable};
use super::hooks::{Retried, retry};
use super::transfer::Transfer;
use super::wire::{Detail, Log, Summary};
use super::{scontrol, spool};
use crate::error::{Error, Result};
use crate::job::Progress;
use crate::logs;
use crate::request::{Caller, JobId, JobState, LogPiece, PartKind};
use std::time::Duration;

impl Slurm {
    /// The caller's jobs, or all for root; finished ones too if `all` is set.
    pub fn list(&self, caller: Caller, all: bool) -> Vec<Summary> {
        let table = self.core.table.lock();
        let shown =
            table.jobs.values().filter(|job| job.is_open_to(caller) && (all || job.state != JobState::Completed));
        shown.map(|job| summary(&self.core, &table, job)).collect()
    }

    /// The jobs that are not over, for `scontrol show bbstat`, which any user may call: no file is named.
    pub fn status(&self) -> Vec<Summary> {
        let table = self.core.table.lock();
        let open = table.jobs.values().filter(|job| !job.state.is_final() || job.own.why.is_some());
        open.map(|job| summary(&self.core, &table, job)).collect()
    }

    /// All data about a job.
    pub fn show(&self, caller: Caller, id: JobId) -> Result<Detail> {
        let table = self.core.table.lock();
        let job = table.jobs.get(&id).filter(|job| job.is_open_to(caller)).ok_or(Error::NoJob(id))?;
        let seen = |kind| table.own.transfers.values().filter(move |t| t.seen_by.contains(&id) && t.kind == kind);
        let transfers = seen(PartKind::StageIn).chain(seen(PartKind::StageOut)).cloned().collect();
        let job = Job { arrival: self.core.told(job), ..job.clone() };
        drop(table);
        let over = job.state.is_final();
        let protection = if over { Vec::new() } else { self.core.protection(&job, &id.to_string()) };
        let staging = self.core.staging(&job);
        Ok(Detail { job, transfers, protection, staging })
    }

    /// A piece of the output of a staging command, from its last run.
    pub fn log(&self, caller: Caller, Log { command, piece: asked }: &Log) -> Result<LogPiece> {
        let (number, ended) = {
            let table = self.core.table.lock();
            let job = table.jobs.get(&asked.id).filter(|job| job.is_open_to(caller)).ok_or(Error::NoJob(asked.id))?;
            let commands = job.plan.part(asked.part).map(|part| &part.commands);
            let command = commands.and_then(|commands| commands.get(*command)).ok_or_else(|| {
                let n = commands.map_or(0, Vec::len);
                Error::refused(format!("job {} has {n} {} commands", asked.id, asked.part), "count from 1")
            })?;
            let mine = |t: &&Transfer| t.seen_by.contains(&asked.id) && t.kind == asked.part && t.argv == command.argv;
            let last = table.own.transfers.values().rfind(mine);
            (last.map(|t| t.number), last.is_none_or(|t| t.state.is_over()))
        };
        // A transfer has no directory before it begins.
        let dir = spool::dir(&self.core.config, number.unwrap_or_default());
        logs::piece(&dir, asked.part, asked.stream, asked.offset, ended)
    }

    /// Retries a failed step. Returns a sentence for the user about what follows.
    pub fn retry(&self, caller: Caller, id: JobId) -> Result<String> {
        let owner = self.look(caller, id, |job| job.owner.uid)?;
        let ending = self.ending(id, Duration::MAX)?;
        let retried = retry(&self.core, &mut self.core.table.lock(), id, &ending)?;
        let Retried::NeedsRelease(conf) = retried else {
            return Ok("its results are being taken home again".into());
        };
        let found = scontrol::look(id, conf.as_deref()).map_err(|e| Error::World(e.to_string()))?;
        let is_theirs = found.is_of(owner);
        if found.is_over() || !is_theirs {
            let state = found.state.filter(|_| is_theirs).unwrap_or_else(|| "forgotten".into());
            let mend = format!("submit it again with sbatch; to drop its record: entrepot slurm forget {id}");
            return Err(Error::refused(format!("in Slurm job {id} is {state}"), mend));
        }
        if !found.is_releasable() {
            let (state, reason) = (found.state.unwrap_or_default(), found.reason.unwrap_or_default());
            let cause = format!("in Slurm job {id} is {state} ({reason}), which a retry does not change");
            return Err(Error::refused(cause, "wait until it is pending; one that an administrator holds is theirs"));
        }
        scontrol::release(id, conf.as_deref()).map_err(|e| {
            Error::World(format!("{e}; Slurm releases it only for its operator: ask for `scontrol release {id}`"))
        })?;
        Ok("Slurm has released it, and asks for its data before it runs".into())
    }
}

pub(super) fn summary(core: &Core, table: &JobTable, job: &Job) -> Summary {
    let kind = if job.state == JobState::StagingOut { PartKind::StageOut } else { PartKind::StageIn };
    let of = job.plan.part(kind).map_or(0, |part| part.commands.len());
    let last = job.transfers(kind).last().and_then(|number| table.own.transfers.get(number));
    let doing = match (job.state, last) {
        (JobState::StagingIn | JobState::StagingOut, Some(t)) => {
            let at = job.transfers(kind).len();
            let waits = if t.state == Progress::Waiting { ", waits for others" } else { "" };
            let shared = t.jobs.len();
            let shared = if shared > 1 { format!(", shared by {shared} jobs") } else { String::new() };
            format!("command {at} of {of}{waits}{shared}")
        }
        (JobState::Failed, _) => {
            let why = job.own.why.as_ref();
            let prospect = if why.is_some_and(|why| why.passing) { "may pass" } else { "will not pass by itself" };
            format!("{} failed, {prospect}", why.map_or(PartKind::StageIn, |why| why.part))
        }
        (JobState::SetUp, _) => core.told(job).map_or_else(String::new, |told| told.standing),
        _ => String::new(),
    };
    let host = core.config.host();
    Summary { job: job.id, host, user: job.user.clone(), phase: job.state, since_ms: job.since_ms(), doing }
}
