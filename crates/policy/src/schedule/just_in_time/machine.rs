//! The machine: from estimates to the beginnings of transfers.

use super::*;
use crate::machine::Machine;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
struct Job {
    load: Load,
    source: SourceId,
    /// Latest estimate of the job's start.
    estimate: Option<Time>,
    /// Time at which it started, or would have but for its data.
    started: Option<Time>,
    phase: Phase,
    /// Time of the next try, while reserving or after a failed transfer.
    retry_at: Option<Time>,
    reserved: bool,
    failures: u32,
    submitted: Time,
    /// Whether only a missing estimate ever delayed its data.
    at_once: bool,
}

/// The stage-ins of one volume.
#[derive(Debug, Default)]
pub struct JustInTime {
    config: Config,
    rates: Rates,
    jobs: BTreeMap<JobId, Job>,
    /// Times of the next step for each job.
    due: BTreeSet<(Time, JobId)>,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl JustInTime {
    /// Machine without jobs; `rates` are the known rates of the sources.
    pub fn new(config: Config, rates: Rates) -> JustInTime {
        JustInTime { config, rates, ..JustInTime::default() }
    }

    /// Progress of a job's data.
    pub fn phase(&self, job: JobId) -> Option<Phase> {
        self.jobs.get(&job).map(|job| job.phase)
    }

    /// Rates of the sources.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Panics if an invariant is broken.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let reserved: u64 = self.jobs.values().filter(|job| job.reserved).map(|job| job.load.bytes).sum();
        assert_eq!(self.stats.bytes_reserved, reserved, "what is reserved belongs to a job");
        for (id, job) in &self.jobs {
            let due = match job.phase {
                Phase::Waiting { due } => Some(due),
                _ => job.retry_at,
            };
            let listed = self.due.iter().find(|(_, other)| other == id).map(|(at, _)| *at);
            assert_eq!(listed, due, "{id:?} is looked at when it is due");
        }
    }

    fn submitted(&mut self, now: Time, id: JobId, load: Load, source: SourceId, estimate: Option<Time>) {
        if self.jobs.contains_key(&id) {
            return self.estimated(now, id, estimate);
        }
        let phase = Phase::Waiting { due: now };
        let (started, retry_at, reserved, failures) = (None, None, false, 0);
        let (submitted, at_once) = (now, true);
        let job = Job { load, source, estimate, started, phase, retry_at, reserved, failures, submitted, at_once };
        self.jobs.insert(id, job);
        let (_, begin) = self.plan(now, id);
        self.wait_until(now, id, begin);
    }

    fn estimated(&mut self, now: Time, id: JobId, start: Option<Time>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.estimate = start;
        if let Phase::Waiting { due } = job.phase {
            let (_, begin) = self.plan(now, id);
            self.due.remove(&(due, id));
            self.wait_until(now, id, begin);
        }
    }

    /// Why and when a job's transfer is to begin.
    fn plan(&self, now: Time, id: JobId) -> (Reason, Time) {
        let job = &self.jobs[&id];
        if job.started.is_some() {
            return (Reason::Waited, now);
        }
        let Some(start) = job.estimate else {
            return (Reason::StartUnknown, job.submitted + self.config.estimate_wait);
        };
        let (transfer, margin) = self.lead(job.source, &job.load);
        (Reason::Due { start, transfer, margin }, start.since(transfer + margin))
    }

    /// Estimated time of a transfer, and the margin on it.
    fn lead(&self, source: SourceId, load: &Load) -> (Time, Time) {
        let transfer = self.rates.transfer(source, load, self.config.rate_unknown);
        let part = u128::from(transfer.0) * u128::from(self.config.margin_percent) / 100;
        (transfer, self.config.margin_min + Time(u64::try_from(part).unwrap_or(u64::MAX)))
    }

    /// Time at which a transfer should begin for a job with this start. Records nothing.
    pub fn due(&self, source: SourceId, load: &Load, start: Time) -> Time {
        let (transfer, margin) = self.lead(source, load);
        start.since(transfer + margin)
    }

    fn wait_until(&mut self, now: Time, id: JobId, due: Time) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.at_once &= job.estimate.is_none() || due <= now;
        job.phase = Phase::Waiting { due };
        self.due.insert((due, id));
    }

    fn do_what_is_due(&mut self, now: Time) {
        let mut ready = Vec::new();
        while let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, id));
            ready.push(id);
        }
        // The job with the earliest expected start gets space first.
        ready.sort_by_key(|id| (self.jobs[id].started.is_none(), self.jobs[id].estimate.unwrap_or(now), *id));
        for id in ready {
            let (reason, _) = self.plan(now, id);
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.retry_at = None;
            if job.reserved {
                job.phase = Phase::Moving { since: now };
                self.actions.push_back(Action::Begin { job: id, reason });
            } else {
                job.phase = Phase::Reserving;
                self.actions.push_back(Action::Reserve { job: id, bytes: job.load.bytes, reason });
            }
        }
    }

    fn reserved(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| j.phase == Phase::Reserving && !j.reserved) else { return };
        job.reserved = true;
        job.phase = Phase::Moving { since: now };
        self.stats.bytes_reserved += job.load.bytes;
        let (reason, _) = self.plan(now, id);
        self.actions.push_back(Action::Begin { job: id, reason });
    }

    fn no_space(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| j.phase == Phase::Reserving && !j.reserved) else { return };
        self.stats.no_space += 1;
        let at = now + self.config.retry_after;
        job.retry_at = Some(at);
        self.due.insert((at, id));
    }

    fn refused(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| j.phase == Phase::Reserving && !j.reserved) else { return };
        if let Some(at) = job.retry_at.take() {
            self.due.remove(&(at, id));
        }
        job.phase = Phase::GivenUp;
        self.stats.refused += 1;
        self.stats.given_up += 1;
        self.actions.push_back(Action::GiveUp(id));
    }

    fn space_freed(&mut self, now: Time) {
        let waiting = |job: &Job| job.phase == Phase::Reserving && job.retry_at.is_some_and(|at| at > now);
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| waiting(job)) {
            if let Some(at) = job.retry_at.replace(now) {
                self.due.remove(&(at, *id));
                self.due.insert((now, *id));
            }
        }
    }

    fn arrived(&mut self, now: Time, id: JobId, took: Time) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| matches!(j.phase, Phase::Moving { .. })) else { return };
        job.phase = Phase::Arrived { at: now };
        self.rates.measured(job.source, &job.load, took);
        if job.at_once && job.started.is_some() {
            self.stats.no_lead += 1;
        } else if let Some(started) = job.started {
            self.stats.too_late += 1;
            self.stats.too_late_total = self.stats.too_late_total + now.since(started);
        }
    }

    fn failed(&mut self, now: Time, id: JobId, permanent: bool) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| matches!(j.phase, Phase::Moving { .. })) else { return };
        job.failures += 1;
        if permanent || job.failures > self.config.retries {
            job.phase = Phase::GivenUp;
            self.stats.given_up += 1;
            self.release(id);
            return self.actions.push_back(Action::GiveUp(id));
        }
        let at = now + self.config.retry_after;
        job.retry_at = Some(at);
        self.due.insert((at, id));
    }

    fn started(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| j.started.is_none()) else { return };
        job.started = Some(now);
        match job.phase {
            Phase::Arrived { at } => {
                let idle = now.since(at);
                self.stats.idle_total = self.stats.idle_total + idle;
                if idle > self.config.early_max {
                    self.stats.too_early += 1;
                } else {
                    self.stats.in_time += 1;
                }
            }
            // The job waits for its data, so they are transferred now.
            Phase::Waiting { due } => {
                self.due.remove(&(due, id));
                self.wait_until(now, id, now);
            }
            Phase::Reserving | Phase::Moving { .. } | Phase::GivenUp => {}
        }
    }

    fn gone(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let due = match job.phase {
            Phase::Waiting { due } => Some(due),
            _ => job.retry_at,
        };
        due.map(|at| self.due.remove(&(at, id)));
        // The answer to an open request would find no job, so this reservation is released as well.
        if job.phase == Phase::Reserving && job.retry_at.is_none() {
            self.actions.retain(|action| !matches!(action, Action::Reserve { job, .. } if *job == id));
            self.actions.push_back(Action::Release { job: id, bytes: job.load.bytes });
        }
        self.release(id);
        self.jobs.remove(&id);
        self.space_freed(now);
    }

    fn release(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.reserved) else { return };
        job.reserved = false;
        self.stats.bytes_reserved -= job.load.bytes;
        self.actions.push_back(Action::Release { job: id, bytes: job.load.bytes });
    }
}

impl Machine for JustInTime {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Submitted { job, load, source, start } => self.submitted(now, job, load, source, start),
            Event::Estimated { job, start } => self.estimated(now, job, start),
            Event::Reserved(job) => self.reserved(now, job),
            Event::NoSpace(job) => self.no_space(now, job),
            Event::Refused(job) => self.refused(job),
            Event::SpaceFreed => self.space_freed(now),
            Event::Arrived { job, took } => self.arrived(now, job, took),
            Event::Failed { job, permanent } => self.failed(now, job, permanent),
            Event::Started(job) => self.started(now, job),
            Event::Gone(job) => self.gone(now, job),
            Event::Tick => {}
        }
        self.do_what_is_due(now);
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}
