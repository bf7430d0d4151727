//! Figures of a run: work and delay by job, hour, target and mechanism.

use super::world::World;
use policy::Time;
use policy::volume::ownership::Mechanism;
use serde::Serialize;
use std::collections::BTreeMap;

/// Span of the figures over time.
const HOUR: Time = Time::from_secs(3600);

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Jobs that ended.
    pub jobs: u64,
    /// Number of written checkpoints.
    pub checkpoints: u64,
    /// Checkpoints given up: refused for lack of space, or lost with a target.
    pub refused: u64,
    /// Mean time from the start of a checkpoint's request to its end, in seconds.
    pub checkpoint_s: f64,
    /// Answered requests of readers.
    pub requests: u64,
    /// Requests of readers for lost files: not answered, and not in the mean.
    pub requests_failed: u64,
    /// Mean response time of the answered requests, in milliseconds.
    pub request_ms: f64,
    /// Share of all bytes that the fast tier served.
    pub fast_share: f64,
    /// Changes of layouts, by mechanism.
    pub changes: BTreeMap<String, u64>,
    /// Bytes copied for these changes.
    pub copied_bytes: BTreeMap<String, u64>,
    /// Seconds from the begin of each of these copies to its end, summed up.
    pub copy_s: BTreeMap<String, f64>,
    /// Seconds that parts of applications' requests waited at targets behind these copies.
    pub delay_s: BTreeMap<String, f64>,
    /// Changes that failed.
    pub failed: u64,
    /// Maximum of bytes of slow copies of the fast tier.
    pub copies_bytes: u64,
    /// Targets that failed, in order of time.
    pub faults: Vec<FaultFigures>,
    /// Files whose only copy was on failed targets.
    pub lost_files: u64,
    /// Changes that undid the previous change of the file by another mechanism.
    pub undone: u64,
    /// Simulated seconds until the end.
    pub span_s: f64,
    /// Work of each target.
    pub targets: Vec<TargetFigures>,
    /// Times of each job, in order of their ends.
    pub job_times: Vec<JobTimes>,
    /// Work of each hour.
    pub hours: Vec<HourFigures>,
}

/// Failure of a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultFigures {
    /// Time of the failure, in seconds.
    pub at_s: f64,
    /// Number of the target, in the order of the configuration.
    pub target: usize,
}

/// Times of a job, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobTimes {
    /// Time of its submission.
    pub submitted_s: f64,
    /// Time of its start.
    pub started_s: f64,
    /// Time of its end.
    pub ended_s: f64,
    /// Size of its input in bytes.
    pub input_bytes: u64,
    /// Time that it waited for its input.
    pub input_s: f64,
    /// Time that it waited for its checkpoints.
    pub checkpoints_s: f64,
}

/// Work of an hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HourFigures {
    /// Requests of readers that came and were answered.
    pub requests: u64,
    /// Their mean response time in milliseconds.
    pub request_ms: f64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Their mean time in seconds.
    pub checkpoint_s: f64,
    /// Bytes copied for changes that were completed.
    pub copied_bytes: u64,
}

/// Work of a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetFigures {
    /// 0: the fast tier, 1: the slow one.
    pub tier: u8,
    /// Share of the time for which it was busy.
    pub busy: f64,
    /// Bytes read, for requests and changes.
    pub read_bytes: u64,
    /// Bytes written, likewise.
    pub written_bytes: u64,
}

impl Figures {
    /// Share of the readers' requests that were answered; 1 without requests.
    pub fn answered_share(&self) -> f64 {
        let all = self.requests + self.requests_failed;
        if all == 0 { 1.0 } else { self.requests as f64 / all as f64 }
    }
}

/// Name of a mechanism in figures.
fn name(of: Mechanism) -> String {
    format!("{of:?}").to_lowercase()
}

impl World<'_> {
    /// Records a change that is complete, with the bytes that it copied in that time.
    pub(super) fn carried(&mut self, by: Mechanism, bytes: u64, took: Time) {
        let name = name(by);
        *self.figures.changes.entry(name.clone()).or_default() += 1;
        *self.figures.copied_bytes.entry(name.clone()).or_default() += bytes;
        *self.figures.copy_s.entry(name).or_default() += took.as_secs_f64();
        self.hour().copied_bytes += bytes;
    }

    /// Returns the work of the present hour; means are sums until the end.
    pub(super) fn hour(&mut self) -> &mut HourFigures {
        let (hour, hours) = ((self.now.0 / HOUR.0) as usize, &mut self.figures.hours);
        hours.resize(hours.len().max(hour + 1), HourFigures::default());
        &mut hours[hour]
    }

    pub(super) fn figures(self) -> Figures {
        let answers = self.answered.len();
        let took_ns: u64 = self.answered.iter().map(|of| of.took.0).sum();
        let served: u64 = self.fast_bytes.iter().sum();
        let took_s = self.written.iter().map(|of| of.ended.since(of.arrived).as_secs_f64());
        let delays = self.targets.delays.iter().map(|(by, delay)| (name(*by), delay.as_secs_f64()));
        let means = |of: HourFigures| HourFigures {
            request_ms: of.request_ms / of.requests.max(1) as f64,
            checkpoint_s: of.checkpoint_s / of.checkpoints.max(1) as f64,
            ..of
        };
        Figures {
            checkpoints: self.written.len() as u64,
            checkpoint_s: took_s.fold(0.0, |sum, of| sum + of) / self.written.len().max(1) as f64,
            requests: answers as u64,
            request_ms: took_ns as f64 / answers.max(1) as f64 / 1e6,
            fast_share: self.fast_bytes[0] as f64 / served.max(1) as f64,
            undone: self.watch.undone(),
            copies_bytes: self.copies.most_bytes(),
            span_s: self.now.as_secs_f64(),
            targets: self.targets.figures(self.now),
            delay_s: delays.collect(),
            hours: self.figures.hours.into_iter().map(means).collect(),
            ..self.figures
        }
    }
}
