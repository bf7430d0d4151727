//! Watching a job of `sbatch`.

use super::Slurm;
use super::hooked::Hooks;
use super::users::summary;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::request::{Caller, JobId, JobState, JobSummary, PartKind, Watched};

impl Slurm {
    /// Watches a job until it is over, or held because its data cannot come in. `progress` returns `false` once the
    /// client is gone.
    pub fn watch(&self, caller: Caller, id: JobId, progress: &mut dyn FnMut(&Watched) -> bool) -> Result<Watched> {
        self.core.watch_job(id, || self.watched(caller, id), |watched| watched.summary.state, progress)
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
        let compute = job.plan.part(PartKind::Compute);
        let summary = JobSummary {
            id,
            name: job.plan.name.clone(),
            host: self.core.config.host(),
            uid: job.owner.uid,
            user: job.user.clone(),
            state: job.state,
            detail: if job.state.is_final() { job.own.note.clone().unwrap_or_default() } else { detail },
            why,
            cores: compute.map_or(0, |part| part.cores),
            walltime_s: compute.map_or(0, |part| part.walltime_s),
            submitted_ms: job.timeline.first().map_or(0, |moment| moment.at_ms),
            started_ms: None,
            ended_ms: job.state.is_final().then(|| job.since_ms()),
            staging: None,
        };
        Ok(Watched { summary, start_ms: None, arrival, transfers: self.core.transfers(&job) })
    }
}
