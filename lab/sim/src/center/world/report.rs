//! Results of a simulated centre.

use super::{Job, World};
use crate::center::checker::Promises;
use crate::center::plan::mean_sd;
use policy::time::Time;
use serde::Serialize;

/// Result of one job; the n-th belongs to the n-th job of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobOutcome {
    /// Time from submission to the start of the run that succeeded, in seconds.
    pub wait_s: f64,
    /// Submission, in seconds from that of the first job.
    pub submit_s: f64,
    /// Start of the run that succeeded.
    pub start_s: f64,
    /// End of that run.
    pub end_s: f64,
    /// Whether a failure made it wait or run longer, or restart.
    pub harmed: bool,
}

/// Wait times of a set of jobs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Number of jobs.
    pub jobs: u64,
    /// Mean of their waits.
    pub mean_s: f64,
    /// Standard deviation of their waits.
    pub sd_s: f64,
    /// Median of their waits.
    pub p50_s: f64,
    /// 90th percentile of their waits.
    pub p90_s: f64,
    /// 99th percentile of their waits.
    pub p99_s: f64,
    /// Maximum of their waits.
    pub max_s: f64,
}

impl Waits {
    /// Summarises a set of waits.
    pub fn of(waits: impl IntoIterator<Item = f64>) -> Waits {
        let mut waits: Vec<f64> = waits.into_iter().collect();
        waits.sort_by(f64::total_cmp);
        let n = waits.len();
        if n == 0 {
            return Waits::default();
        }
        let (mean_s, sd_s) = mean_sd(&waits);
        // Percentile by the nearest rank.
        let part = |p: usize| waits[(n * p).div_ceil(100).clamp(1, n) - 1];
        Waits { jobs: n as u64, mean_s, sd_s, p50_s: part(50), p90_s: part(90), p99_s: part(99), max_s: waits[n - 1] }
    }
}

/// State of the centre at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Time from the first submission, in seconds.
    pub at_s: f64,
    /// Number of waiting jobs.
    pub waiting: u64,
    /// Processors in use.
    pub busy: u64,
    /// Copies of inputs, complete or being made.
    pub copies: u64,
    /// Bytes of the copies.
    pub copy_bytes: u64,
}

/// Results of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Waits of all jobs.
    pub all: Waits,
    /// Waits of the jobs that waited at all.
    pub waited: Waits,
    /// Waits of the jobs that a failure harmed.
    pub affected: Waits,
    /// Jobs that a failure harmed, in percent of all.
    pub affected_percent: f64,
    /// Jobs whose input was restored while they waited.
    pub patched: u64,
    /// Runs that failed and went to the tail of the queue.
    pub requeued: u64,
    /// Failures of I/O nodes while jobs were present.
    pub failures: u64,
    /// Mean of (wait + run) / run, where runs below 10 s count as 10 s.
    pub expansion_factor: f64,
    /// Processor-seconds of runs that succeeded over those of the machine until the last end, in percent.
    pub utilisation_percent: f64,
    /// Processor-seconds of all runs, including failed ones and waits for data, over those of the machine, in
    /// percent.
    pub held_percent: f64,
    /// Time until the last job ended, in seconds.
    pub makespan_s: f64,
    /// Jobs started in their turn.
    pub started_in_turn: u64,
    /// Jobs started by backfilling.
    pub backfilled: u64,
    /// Mean number of waiting jobs, over the samples.
    pub queue_mean: f64,
    /// Results of the promises to heads of the queue.
    pub promises: Promises,
    /// Jobs dispatched before their copy was complete, in percent of all.
    pub at_risk_percent: f64,
    /// Mean over the samples of the copies' bytes, in percent of the scratch space.
    pub copy_space_mean_percent: f64,
    /// Maximum space of the copies, in percent of the scratch space.
    pub copy_space_peak_percent: f64,
    /// Replicas of which a part replaced that of an input on a failed node.
    pub failovers: u64,
    /// Samples at regular times.
    pub samples: Vec<Sample>,
}

/// Counters of a running simulation.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub waiting: u64,
    pub busy: u64,
    pub failures: u64,
    pub requeued: u64,
    pub last_end: Time,
    useful: f64,
    held: f64,
    samples: Vec<Sample>,
    every: u64,
    end: Time,
}

impl Tally {
    /// Creates the counters, with `snapshots` samples up to `end`.
    pub fn new(end: Time, snapshots: u32) -> Tally {
        Tally { every: (end.0 / u64::from(snapshots)).max(1), end, ..Tally::default() }
    }

    /// Records the end of a job's allocation in processor-seconds; `useful` is the part of a run that succeeded.
    pub fn held(&mut self, held: f64, useful: Option<f64>) {
        self.held += held;
        self.useful += useful.unwrap_or(0.0);
    }

    /// Returns the time of the next sample.
    fn due(&self) -> Option<Time> {
        let at = Time(self.every.saturating_mul(self.samples.len() as u64 + 1));
        Some(at).filter(|at| *at <= self.end)
    }
}

impl World<'_> {
    /// Takes the samples that are due before an event at `next`.
    pub(super) fn sample_before(&mut self, next: Time) {
        while let Some(at) = self.tally.due().filter(|at| *at < next) {
            let copies = self.copies.as_ref();
            self.tally.samples.push(Sample {
                at_s: at.as_secs_f64(),
                waiting: self.tally.waiting,
                busy: self.tally.busy,
                copies: copies.map_or(0, |copies| copies.count()),
                copy_bytes: copies.map_or(0, |copies| copies.bytes()),
            });
        }
    }

    /// Returns the results, once all jobs have ended.
    pub(super) fn outcome(self) -> (Report, Vec<JobOutcome>) {
        let of = |(job, live): (&Job, &super::Live)| JobOutcome {
            wait_s: live.start.since(job.submit).as_secs_f64(),
            submit_s: job.submit.as_secs_f64(),
            start_s: live.start.as_secs_f64(),
            end_s: live.end.as_secs_f64(),
            harmed: live.harmed,
        };
        let outcomes: Vec<JobOutcome> = self.jobs.iter().zip(&self.live).map(of).collect();
        let n = outcomes.len().max(1) as f64;
        let expansion = |n: usize| {
            let run = self.jobs[n].run.as_secs_f64().max(10.0);
            (outcomes[n].wait_s + run) / run
        };
        let machine = f64::from(self.procs) * self.tally.last_end.as_secs_f64();
        let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
        let affected = Waits::of(outcomes.iter().filter(|job| job.harmed).map(|job| job.wait_s));
        let count = |flag: fn(&super::Live) -> bool| self.live.iter().filter(|live| flag(live)).count() as u64;
        let samples = self.tally.samples;
        let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len().max(1) as f64;
        let scratch = self.setup.scratch_bytes(self.procs);
        let stats = self.easy.stats();
        let report = Report {
            all: Waits::of(outcomes.iter().map(|job| job.wait_s)),
            waited: Waits::of(outcomes.iter().map(|job| job.wait_s).filter(|wait| *wait > 0.0)),
            affected_percent: percent(affected.jobs as f64, n),
            affected,
            patched: count(|live| live.patched),
            requeued: self.tally.requeued,
            failures: self.tally.failures,
            expansion_factor: (0..outcomes.len()).map(expansion).sum::<f64>() / n,
            utilisation_percent: percent(self.tally.useful, machine),
            held_percent: percent(self.tally.held, machine),
            makespan_s: self.tally.last_end.as_secs_f64(),
            started_in_turn: stats.started_in_turn,
            backfilled: stats.backfilled,
            queue_mean: mean(|sample| sample.waiting as f64),
            promises: self.checker.promises(),
            at_risk_percent: if self.copies.is_some() { percent(count(|live| live.at_risk) as f64, n) } else { 0.0 },
            copy_space_mean_percent: percent(mean(|sample| sample.copy_bytes as f64), scratch),
            copy_space_peak_percent: percent(self.copies.as_ref().map_or(0, |c| c.peak_bytes) as f64, scratch),
            failovers: self.copies.as_ref().map_or(0, |copies| copies.swapped),
            samples,
        };
        (report, outcomes)
    }
}
