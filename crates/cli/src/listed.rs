//! Rows of jobs of all backends, for the dashboard and `top`.

use endpoint::{Job, Staging};
use jobs::request::JobSummary;
use jobs::slurm::wire::Summary;

/// Row of a job of the built-in runner.
pub fn of_runner(job: JobSummary) -> Job {
    let staging =
        |s: jobs::request::Staging| Staging { done_bytes: s.done_bytes, total_bytes: s.total_bytes, left_s: s.left_s };
    Job {
        id: job.id.0,
        name: job.name,
        user: job.user,
        host: job.host,
        scheduler: None,
        state: job.state.to_string(),
        detail: job.why.unwrap_or(job.detail),
        cores: job.cores,
        since_ms: job.ended_ms.unwrap_or(job.submitted_ms),
        staging: job.staging.map(staging),
    }
}

/// Row of a job of Slurm.
pub fn of_slurm(job: Summary) -> Job {
    Job {
        id: job.job.0,
        user: job.user,
        host: job.host,
        scheduler: Some("Slurm".into()),
        state: job.phase.to_string(),
        detail: job.doing,
        since_ms: job.since_ms,
        ..Job::default()
    }
}
