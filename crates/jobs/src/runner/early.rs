//! The runner's jobs whose results may leave early, its own and those that another scheduler runs.

use super::core::Core;
use super::record::{Phase, Record};
use super::spool;
use crate::account;
use crate::config::Config;
use crate::exec::{self, Spec};
use crate::offload::{Jobs, Running};
use crate::plan::run_words;
use crate::request::*;
use crate::volume::Volume;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Jobs for Core {
    const NAME: &'static str = "jobs";

    fn config(&self) -> &Config {
        &self.config
    }

    fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    fn running(&self) -> Vec<Running> {
        let book = self.book.lock();
        let runs = |r: &&Record| r.part(PartKind::Compute).is_some_and(|p| p.phase == Phase::Started) && !r.cancelled;
        let of = |r: &Record| Running { id: r.id.0, owner: r.owner, results: r.results() };
        book.jobs.values().filter(runs).map(of).collect()
    }

    fn spec(&self, job: u64, command: usize) -> Result<Spec, String> {
        let record = self.book.lock().jobs.get(&JobId(job)).cloned().ok_or("the job is gone")?;
        let part = record.plan.parts.iter().find(|part| part.kind == PartKind::StageOut);
        let part = part.ok_or("it takes nothing home")?;
        let words = part.commands.get(command).ok_or("it has no such command")?;
        let base = if record.external.is_some() {
            let account = account::account(record.owner.uid, false).map_err(|e| e.to_string())?;
            let nothing = Submit {
                file_name: String::new(),
                script: Script::Text(String::new()),
                cwd: record.cwd.clone(),
                umask: 0o022,
                environment: Default::default(),
                overrides: Overrides::default(),
            };
            account::base(&self.config, record.owner, &account, &nothing, record.id, &record.plan)
        } else {
            let file = exec::file(&spool::dir(&self.config, record.id), PartKind::StageOut, "spec");
            let bytes = std::fs::read(file).map_err(|e| e.to_string())?;
            serde_json::from_slice(&bytes).map_err(|e| e.to_string())?
        };
        let steps = vec![run_words(&words.argv, &self.config.program, None)];
        Ok(Spec { steps, retries: part.retries, walltime_s: part.walltime_s, announce: false, ..base })
    }

    fn left(&self, job: u64, early: Early) {
        let mut book = self.book.lock();
        if let Some(record) = book.jobs.get_mut(&JobId(job)) {
            record.early.push(early);
            self.keep(record);
        }
        self.changed.notify_all();
    }

    fn nap(&self, span: Duration) -> bool {
        let mut book = self.book.lock();
        let until = Instant::now() + span;
        while !book.closed && !self.changed.wait_until(&mut book, until).timed_out() {}
        !book.closed
    }
}
