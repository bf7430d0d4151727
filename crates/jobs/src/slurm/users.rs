//! What users may ask of their jobs in Slurm: list, show, read what was said, retry. Root sees all.

use super::Slurm;
use super::core::{Book, Core};
use super::due;
use super::hooks::{Retried, retry};
use super::record::{Job, Phase, TransferState};
use super::wire::{Detail, Log, Summary};
use super::{scontrol, spool};
use crate::error::Error;
use crate::exec;
use crate::request::{Caller, JobId, LogPiece, PartKind, Script, Stream};
use std::os::unix::fs::FileExt;

/// Largest piece of a log in one answer.
const LOG_PIECE_BYTES_MAX: usize = 256 * 1024;

impl Slurm {
    /// The caller's jobs, or all for root; finished ones too if wanted.
    pub fn list(&self, caller: Caller, all: bool) -> Vec<Summary> {
        let book = self.core.book.lock();
        let shown = book.jobs.values().filter(|job| may(caller, job) && (all || job.phase != Phase::Completed));
        shown.map(|job| summary(&self.core, &book, job)).collect()
    }

    /// The jobs that are not over, for `scontrol show bbstat`, which everybody may call: no file is named.
    pub fn status(&self) -> Vec<Summary> {
        let book = self.core.book.lock();
        book.jobs
            .values()
            .filter(|job| !job.phase.is_final() || job.why.is_some())
            .map(|job| summary(&self.core, &book, job))
            .collect()
    }

    /// All about one job.
    pub fn show(&self, caller: Caller, id: u64) -> Result<Detail, Error> {
        let book = self.core.book.lock();
        let job = book.jobs.get(&id).filter(|job| may(caller, job)).ok_or(Error::NoJob(JobId(id)))?;
        let seen = |kind| book.transfers.values().filter(move |t| t.seen_by.contains(&id) && t.kind == kind);
        let transfers = seen(PartKind::StageIn).chain(seen(PartKind::StageOut)).cloned().collect();
        let arrival = due::told(&self.core, job);
        let (volume, paths, owner) = (self.core.volume.clone(), job.staged_paths(), job.owner);
        let job = Job { arrival, ..job.clone() };
        drop(book);
        let over = job.phase.is_final();
        let protection = if over { Vec::new() } else { volume.protection(owner, &id.to_string(), &paths) };
        let results = || crate::plan::paths::results(&job.plan, &job.cwd, job.mount.as_deref());
        let staging = match job.phase {
            Phase::StagingIn => volume.staging(owner, &paths),
            Phase::StagingOut => {
                volume.staging(owner, &results().into_iter().map(|(_, path)| path).collect::<Vec<_>>())
            }
            _ => None,
        };
        Ok(Detail { job, transfers, protection, staging })
    }

    /// A piece of what a staging command wrote; of its last run, if it was run several times.
    pub fn log(&self, caller: Caller, asked: &Log) -> Result<LogPiece, Error> {
        let (number, ended) = {
            let book = self.core.book.lock();
            let job = book.jobs.get(&asked.job).filter(|job| may(caller, job)).ok_or(Error::NoJob(JobId(asked.job)))?;
            let commands = job.plan.parts.iter().find(|part| part.kind == asked.part).map(|part| &part.commands);
            let command = commands.and_then(|commands| commands.get(asked.command)).ok_or_else(|| {
                let n = commands.map_or(0, Vec::len);
                Error::refused(format!("job {} has {n} {} commands", asked.job, asked.part), "count from 1")
            })?;
            let mine = |t: &&super::record::Transfer| {
                t.seen_by.contains(&asked.job) && t.kind == asked.part && t.argv == command.argv
            };
            let last = book.transfers.values().rfind(mine);
            let ended = |state| !matches!(state, TransferState::Waiting | TransferState::Running);
            (last.map(|t| t.number), last.is_none_or(|t| ended(t.state)))
        };
        let suffix = if asked.stream == Stream::Out { "out" } else { "err" };
        let mut data = vec![0; LOG_PIECE_BYTES_MAX];
        let path = number.map(|number| exec::file(&spool::dir(&self.core.config, number), asked.part, suffix));
        let n = match path.map(std::fs::File::open) {
            Some(Ok(file)) => file.read_at(&mut data, asked.offset).map_err(|e| Error::World(format!("log: {e}")))?,
            Some(Err(e)) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::World(format!("log: {e}"))),
            _ => 0,
        };
        data.truncate(n);
        let next_offset = asked.offset + n as u64;
        Ok(LogPiece { data: Script::from(data), next_offset, ended: ended && n < LOG_PIECE_BYTES_MAX })
    }

    /// Tries a failed step again. Says what happens now.
    pub fn retry(&self, caller: Caller, id: u64) -> Result<String, Error> {
        let retried = {
            let mut book = self.core.book.lock();
            book.jobs.get(&id).filter(|job| may(caller, job)).ok_or(Error::NoJob(JobId(id)))?;
            retry(&self.core, &mut book, id)?
        };
        let Retried::NeedsRelease(conf) = retried else {
            return Ok("its results are being taken home again".into());
        };
        let found = scontrol::look(id, conf.as_deref()).map_err(|e| Error::World(e.to_string()))?;
        if found.is_over() {
            let state = found.state.unwrap_or_else(|| "forgotten".into());
            return Err(Error::refused(format!("in Slurm job {id} is {state}"), "submit it again with sbatch"));
        }
        scontrol::release(id, conf.as_deref()).map_err(|e| {
            Error::World(format!("{e}; Slurm releases it only for its operator: ask for `scontrol release {id}`"))
        })?;
        Ok("Slurm has released it; its data are being brought again".into())
    }
}

fn may(caller: Caller, job: &Job) -> bool {
    caller.uid == 0 || caller.uid == job.owner.uid
}

fn summary(core: &Core, book: &Book, job: &Job) -> Summary {
    let kind = if job.phase == Phase::StagingOut { PartKind::StageOut } else { PartKind::StageIn };
    let of = job.plan.parts.iter().find(|part| part.kind == kind).map_or(0, |part| part.commands.len());
    let last = job.transfers(kind).last().and_then(|number| book.transfers.get(number));
    let doing = match (job.phase, last) {
        (Phase::StagingIn | Phase::StagingOut, Some(t)) => {
            let at = job.transfers(kind).len();
            let waits = if t.state == TransferState::Waiting { ", waits for others" } else { "" };
            let shared = t.jobs.len();
            let shared = if shared > 1 { format!(", shared by {shared} jobs") } else { String::new() };
            format!("command {at} of {of}{waits}{shared}")
        }
        (Phase::Failed, _) => {
            let why = job.why.as_ref();
            let prospect = if why.is_some_and(|why| why.passing) { "may pass" } else { "will not pass by itself" };
            format!("{} failed, {prospect}", why.map_or(PartKind::StageIn, |why| why.part))
        }
        (Phase::SetUp, _) => due::told(core, job).map_or_else(String::new, |told| told.standing),
        _ => String::new(),
    };
    Summary { job: job.id, user: job.user.clone(), phase: job.phase, since_ms: job.since_ms, doing }
}
