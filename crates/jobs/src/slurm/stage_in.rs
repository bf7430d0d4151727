//! Start of a stage-in for Slurm: the hook of the job requests the data and waits until the arrivals begin.
//!
//! Slurm requests the data of every queued job as soon as it can, at most 128 at a time, in the order of their planned
//! starts. While a hook waits, Slurm corrects its planned start of the job; `squeue` shows it.

use super::hooked::{Core, Job, JobTable, StepFailure};
use crate::arrivals::{self, Start};
use crate::queue::slurm::Slurm as SlurmQueue;
use crate::queue::{InputsOf, Queue, QueuedJob, Snapshot, State, WaitsFor, ask};
use crate::request::{JobId, JobState, PartKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// An estimate this close counts as now. Slurm plans such a start for a job that waits only for its data.
const NOW_MS: u64 = 2000;

/// Handles a hook's request for a job's data. The stage-in begins when it is due.
pub(super) fn ask_for(core: &Arc<Core>, table: &mut JobTable, id: JobId) {
    if !table.jobs.get(&id).is_some_and(|job| core.ask(job)) {
        begin(core, table, id);
    }
}

fn begin(core: &Arc<Core>, table: &mut JobTable, id: JobId) {
    let Some(job) = table.jobs.get_mut(&id).filter(|job| job.state == JobState::SetUp) else { return };
    job.enter(JobState::StagingIn, "");
    job.arrival = core.told(job);
    core.keep(job);
    core.advance(table, id);
    core.pump(table);
}

/// Total duration of the transfers of a job, if no other job shared them.
pub(super) fn took_ms(table: &JobTable, job: &Job) -> Option<u64> {
    let transfers = job.own.brought.iter().filter_map(|number| table.own.transfers.get(number));
    transfers.map(|t| t.took_ms.filter(|_| t.seen_by.len() == 1)).sum()
}

/// Pending jobs that request no more processors than are idle in a partition of theirs. Slurm's main scheduler writes
/// "now" as the start of every job that waits for its data. Its backfill scheduler corrects that only every half
/// minute; so "now" is trusted only for these.
fn who_fits(environment: Vec<(&str, &str)>) -> Option<BTreeSet<String>> {
    let partitions = ask("sinfo", &["-h", "-a", "-o", "%R|%C"], &environment).ok()?;
    let jobs = ask("squeue", &["-h", "-a", "-r", "-t", "PD", "-o", "%A|%C|%P"], &environment).ok()?;
    Some(fitting(&partitions, &jobs))
}

fn fitting(partitions: &str, jobs: &str) -> BTreeSet<String> {
    // The format is `NAME|ALLOCATED/IDLE/OTHER/TOTAL`, with a line for each kind of node.
    let mut idle: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, cpus) in partitions.lines().filter_map(|line| line.trim().split_once('|')) {
        let n = cpus.split('/').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        *idle.entry(name).or_default() += n;
    }
    let fits = |line: &str| {
        let mut fields = line.trim().split('|');
        let (id, cpus, names) = (fields.next()?, fields.next()?.parse::<u64>().ok()?, fields.next()?);
        names.split(',').any(|name| idle.get(name).is_some_and(|idle| cpus <= *idle)).then(|| id.to_string())
    };
    jobs.lines().filter_map(fits).collect()
}

/// Slurm's waiting jobs, for the arrivals.
pub(super) struct Waiting(pub Weak<Core>);

impl arrivals::WaitingJobs for Waiting {
    fn starts(&self) -> Option<BTreeMap<u64, Start>> {
        let core = self.0.upgrade()?;
        let confs: BTreeSet<Option<PathBuf>> = {
            let table = core.table.lock();
            let waits = |job: &&Job| matches!(job.state, JobState::SetUp | JobState::StagingIn | JobState::Verifying);
            table.jobs.values().filter(waits).map(|job| job.own.conf.clone()).collect()
        };
        let mut starts = BTreeMap::new();
        for conf in confs {
            let queue = SlurmQueue(conf);
            let picture = queue.snapshot();
            // Logged once for each outage.
            let before = core.own.is_unseen.swap(picture.is_err(), Ordering::AcqRel);
            let said = |error: &crate::queue::Error| {
                if !before {
                    tracing::warn!("{error}; data of its jobs come by its last answer");
                }
            };
            let picture = picture.inspect_err(said).ok()?;
            let soon = |job: &QueuedJob| job.start_ms.is_some_and(|at| at <= picture.taken_ms + NOW_MS);
            let pending = || picture.jobs.iter().filter(|job| job.state == State::Pending);
            let fit =
                if pending().any(soon) { who_fits(queue.environment()).unwrap_or_default() } else { BTreeSet::new() };
            for job in pending().filter(|job| !soon(job) || fit.contains(&job.id)) {
                let kept_waiting = job.waits_for == WaitsFor::Data && soon(job);
                let id = job.id.parse().unwrap_or_default();
                starts.insert(id, Start { at_ms: job.start_ms, kept_waiting });
            }
        }
        Some(starts)
    }

    fn begin(&self, job: u64) {
        Core::with_table(&self.0, |core, table| begin(core, table, JobId(job)));
    }

    fn give_up(&self, job: u64, cause: String) {
        let why = StepFailure { part: PartKind::StageIn, cause, passing: true };
        Core::with_table(&self.0, |core, table| core.fail(table, JobId(job), why));
    }
}

/// Slurm's queue for jobs of its hooks whose data are there: it is polled only while some wait.
pub(super) struct Hooked(pub Weak<Core>, pub InputsOf);

impl Queue for Hooked {
    fn snapshot(&self) -> Result<Snapshot, crate::queue::Error> {
        let confs: BTreeSet<Option<PathBuf>> = self.0.upgrade().map_or_else(BTreeSet::new, |core| {
            let table = core.table.lock();
            let waits = |job: &&Job| job.state == JobState::StagedIn;
            table.jobs.values().filter(waits).map(|job| job.own.conf.clone()).collect()
        });
        let mut all = Snapshot::default();
        for conf in confs {
            let mut picture = SlurmQueue(conf).snapshot()?;
            picture.set_inputs(&self.1);
            all.jobs.extend(picture.jobs);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_believed_of_jobs_that_find_idle_processors() {
        let partitions = "batch|8/0/0/8\nsmall|2/3/0/5\nsmall|0/2/0/2\n";
        let fit = fitting(partitions, "7|1|batch\n8|5|small\n9|6|small\n10|4|batch,small\n11|1|gone\n");
        assert_eq!(fit.into_iter().collect::<Vec<_>>(), ["10", "8"]);
    }
}
