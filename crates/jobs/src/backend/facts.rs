//! Description of a job for the volume's accounting.

use crate::job::Job;
use crate::request::JobState;
use node::daemon::JobFacts;
use object::now_ms;

pub(super) fn facts<X>(job: &Job<X>) -> JobFacts {
    let runs = || job.timeline.iter().filter(|moment| moment.state == JobState::Running);
    JobFacts {
        name: job.plan.name.clone(),
        user: job.user.clone(),
        state: job.state.to_string(),
        submitted_ms: job.timeline.first().map(|moment| moment.at_ms),
        started_ms: runs().map(|moment| moment.at_ms).next(),
        ended_ms: job.state.is_final().then(|| job.since_ms()),
        run_ms: runs().map(|moment| moment.lasted_ms.unwrap_or_else(|| now_ms().saturating_sub(moment.at_ms))).sum(),
        recovered_bytes: 0,
    }
}
