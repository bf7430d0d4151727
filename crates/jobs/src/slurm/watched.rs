//! Watching a job of `sbatch`.

use super::Slurm;
use super::hooked::Hooks;
use super::users::summary;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::request::{Caller, JobId, JobState, JobSummary, Watched};

impl Slurm {
    /// Watches a job until it is over, or held because its data cannot come in. `progress` returns `false` once the
    /// client is gone.
    pub fn watch(&self, caller: Caller, id: JobId, progress: &mut dyn FnMut(&Watched) -> bool) -> Result<Watched> {
        self.core.watch_job(id, || self.watched(caller, id), progress)
    }

    fn watched(&self, caller: Caller, id: JobId) -> Result<Watched> {
        let (job, doing) = {
            let table = self.core.table.lock();
            let job = table.jobs.get(&id).filter(|job| job.is_open_to(caller)).ok_or(Error::NoJob(id))?;
            (job.clone(), summary(&self.core, &table, job).doing)
        };
        let arrival = (job.state == JobState::SetUp).then(|| self.core.told(&job)).flatten();
        let detail = match job.state {
            JobState::SetUp if arrival.is_some() => String::new(),
            JobState::Verifying => "its data are being verified".into(),
            JobState::StagedIn => "its data are there, and Slurm starts it in its turn".into(),
            JobState::Running => "its script runs".into(),
            _ => doing,
        };
        let why = Hooks::why(&job).filter(|_| job.state == JobState::Failed);
        let why = why.map(|why| format!("{why}; once the cause is gone: entrepot slurm retry {id}"));
        let detail = if job.state.is_final() { job.own.note.clone().unwrap_or_default() } else { detail };
        let summary = JobSummary { host: self.core.config.host(), detail, why, ..job.outline() };
        Ok(Watched { summary, start_ms: None, arrival, transfers: self.core.transfers(&job) })
    }
}
