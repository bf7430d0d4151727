//! Slurm's jobs whose results may leave early.

use super::core::Core;
use super::record::{Job, Phase};
use super::spool;
use crate::config::Config;
use crate::exec::Spec;
use crate::offload::{Jobs, Running};
use crate::plan::{paths, run_words};
use crate::request::{Early, PartKind};
use crate::volume::Volume;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Jobs for Core {
    const NAME: &'static str = "slurm";

    fn config(&self) -> &Config {
        &self.config
    }

    fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    fn running(&self) -> Vec<Running> {
        let book = self.book.lock();
        let of = |job: &Job| {
            let results = paths::results(&job.plan, &job.cwd, job.mount.as_deref());
            Running { id: job.id, owner: job.owner, results }
        };
        book.jobs.values().filter(|job| job.phase == Phase::Running).map(of).collect()
    }

    fn spec(&self, job: u64, command: usize) -> Result<Spec, String> {
        let base = spool::base(&self.config, job).map_err(|e| format!("its environment is gone: {e}"))?;
        let book = self.book.lock();
        let plan = &book.jobs.get(&job).ok_or("the job is gone")?.plan;
        let part = plan.parts.iter().find(|part| part.kind == PartKind::StageOut).ok_or("it takes nothing home")?;
        let words = part.commands.get(command).ok_or("it has no such command")?;
        let steps = vec![run_words(&words.argv, &self.config.program, None)];
        Ok(Spec { steps, retries: part.retries, walltime_s: part.walltime_s, announce: false, ..base })
    }

    fn left(&self, job: u64, early: Early) {
        let mut book = self.book.lock();
        if let Some(job) = book.jobs.get_mut(&job) {
            job.early.push(early);
            self.keep(job);
        }
    }

    fn nap(&self, span: Duration) -> bool {
        let mut book = self.book.lock();
        let until = Instant::now() + span;
        while !book.closed && !self.changed.wait_until(&mut book, until).timed_out() {}
        !book.closed
    }
}
