//! Jobs that Slurm dropped: cancelled ones end; after a restart of slurmctld they are kept until it returns to them.

use super::hooked::{Core, Job, JobTable};
use super::scontrol::{self, ShownJob};
use crate::request::{JobId, JobState, PartKind};
use object::workers::Periodic;
use parking_lot::MutexGuard;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Interval of polls for jobs that were dropped.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval of polls for all unfinished jobs, since a restart of slurmctld can lose hooks.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(60);
/// Interval of polls for jobs in their stage-in. After a cancellation, Slurm may call the hook only at the end of the
/// stage-in.
const LOOK_AT_STAGING_EVERY: Duration = Duration::from_secs(4);

/// Starts to poll, as long as there are jobs.
pub(super) fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let weak = Arc::downgrade(core);
    let work = move || {
        watch(&weak);
        None
    };
    core.watcher.get_or_init(|| Periodic::new(&core.config.threads, work)).wake()
}

fn watch(weak: &Weak<Core>) {
    let (mut looked_at_all, mut looked_at_staging) = (Instant::now(), Instant::now());
    // Jobs that were over at their last poll. A delayed hook has time until the next poll.
    let mut over_before = BTreeSet::new();
    loop {
        let Some(core) = weak.upgrade() else { return };
        let all = looked_at_all.elapsed() >= LOOK_AT_ALL_EVERY;
        let staging = looked_at_staging.elapsed() >= LOOK_AT_STAGING_EVERY;
        let asked = {
            let mut table = core.table.lock();
            if table.jobs.is_empty() {
                return;
            }
            let let_go = |table: &JobTable| table.jobs.values().any(|job| job.own.let_go);
            if !all && !staging && !table.closed && !let_go(&table) {
                wait(&core, &mut table);
            }
            if table.closed {
                return;
            }
            let wanted = table.jobs.values().filter(|job| {
                job.own.let_go || (all && needs_look(job)) || (staging && job.state == JobState::StagingIn)
            });
            wanted.map(|job| (job.id, job.own.conf.clone())).collect::<Vec<(JobId, Option<PathBuf>)>>()
        };
        if all {
            looked_at_all = Instant::now();
        }
        if staging {
            looked_at_staging = Instant::now();
        }
        let found: Vec<_> =
            asked.iter().filter_map(|(id, conf)| Some((*id, scontrol::look(*id, conf.as_deref()).ok()?))).collect();
        let mut table = core.table.lock();
        for (id, found) in found {
            if !found.is_over() {
                over_before.remove(&id);
            } else if over_before.remove(&id)
                || table.jobs.get(&id).is_some_and(|job| job.own.let_go || unwanted(job, &found))
            {
                end(&core, &mut table, id, &found);
            } else {
                over_before.insert(id);
            }
        }
        if table.jobs.values().any(|job| job.own.let_go) {
            wait(&core, &mut table);
        }
    }
}

/// Whether the job was cancelled during its stage-in, even if no hook has reported that yet.
fn unwanted(job: &Job, found: &ShownJob) -> bool {
    job.state == JobState::StagingIn && found.state.is_some() && found.is_cancelled()
}

/// Data of a failed stage-in are kept for a retry, as long as Slurm has the job.
fn needs_look(job: &Job) -> bool {
    let stage_in_failed = job.state == JobState::Failed && !job.has_failed_in(PartKind::StageOut);
    !job.state.is_final() || stage_in_failed
}

fn wait(core: &Core, table: &mut MutexGuard<'_, JobTable>) {
    let span = if table.jobs.values().any(needs_look) { LOOK_EVERY } else { LOOK_AT_ALL_EVERY };
    core.changed.wait_until(table, Instant::now() + span);
}

fn end(core: &Arc<Core>, table: &mut JobTable, id: JobId, found: &ShownJob) {
    let Some(job) = table.jobs.get(&id) else { return };
    match job.state {
        // After a failed stage-out, the owner can still send the results.
        JobState::Completed | JobState::Cancelled => {}
        JobState::Failed if job.has_failed_in(PartKind::StageOut) => {}
        JobState::Running if found.is_cancelled() => core.finish(table, id, JobState::Cancelled, None),
        JobState::Running => {
            let state = found.state.clone().unwrap_or_default();
            let note = format!("in Slurm it is {state}; its results stay where they are");
            core.finish(table, id, JobState::Completed, Some(note));
        }
        _ => {
            let state = found.state.as_deref().unwrap_or("gone");
            core.finish(table, id, JobState::Cancelled, Some(format!("in Slurm it is {state}")));
        }
    }
}
