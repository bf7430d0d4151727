//! Data of this daemon for the endpoint: the volume from the store, and the jobs of the runner and of Slurm.

use crate::listed::{of_runner, of_slurm};
use crate::users;
use endpoint::{Bytes, Job, Watched, json};
use jobs::request::{JobState, JobSummary, List};
use jobs::slurm::wire::Summary;
use node::control::answers::{read, write};
use node::control::{Caller, Handler, Responder, Result};
use node::daemon::{Core, Health, Users};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Time for which failed jobs are shown after their end.
const FAILED_SHOWN: Duration = Duration::from_secs(86_400);

/// Sources of the dashboard's data.
pub struct Dashboard {
    /// State of the volume.
    pub core: Arc<Core>,
    /// Handler of `job.*`, for all nodes.
    pub runner: Arc<dyn Handler>,
    /// Handler of `slurm.*`, for all nodes.
    pub slurm: Arc<dyn Handler>,
}

impl Watched for Dashboard {
    fn metrics(&self) -> String {
        self.core.open_metrics()
    }

    fn health(&self) -> Health {
        self.core.health()
    }

    fn at_a_glance(&self, with_names: bool) -> Result<Bytes> {
        Ok(json(&self.core.at_a_glance(with_names)?))
    }

    fn jobs(&self) -> Result<Vec<Job>> {
        let oldest_ms = object::since_1970().saturating_sub(FAILED_SHOWN).as_millis() as u64;
        let own = rows::<JobSummary>(&*self.runner, "job.list")?.into_iter();
        let own = own.filter(|job| is_shown(job.state, job.ended_ms.unwrap_or(job.submitted_ms), oldest_ms));
        let slurm = rows::<Summary>(&*self.slurm, "slurm.list")?.into_iter();
        let slurm = slurm.filter(|job| is_shown(job.phase, job.since_ms, oldest_ms));
        Ok(own.map(of_runner).chain(slurm.map(of_slurm)).collect())
    }

    fn space(&self) -> Result<Users> {
        self.core.space_by_user(users::name_or_number)
    }

    fn file(&self, path: &str) -> Result<Bytes> {
        Ok(json(&self.core.how_it_lies(path)?))
    }
}

/// Whether a job is shown: those that are not over, and those that failed a short time ago.
fn is_shown(state: JobState, since_ms: u64, oldest_ms: u64) -> bool {
    !state.is_final() || state == JobState::Failed && since_ms >= oldest_ms
}

/// Requests a list of all jobs with the operator's rights.
fn rows<T: DeserializeOwned>(handler: &dyn Handler, command: &str) -> Result<Vec<T>> {
    // Nodes that do not answer are reported as progress: their jobs are not in the list.
    let mut ignored = |_: Value| true;
    let mut out = Responder::new(&mut ignored, Arc::default());
    let rows = handler.handle(&Caller::daemon(), command, write(&List { all: true }), &mut out)?;
    read(rows)
}
