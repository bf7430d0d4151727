//! Availability of waiting jobs' input: checked regularly and after a failure, and restored before the jobs start.
//!
//! ```text
//!   queue --Line--> +--------------+ --Look--> files of the waiting jobs --Looked--> lost, in the order of repair
//!   targets ------> | Availability | --Repair--> some at once, those of the next jobs first --Repaired, Failed-->
//!   clock --------> +--------------+
//! ```
//! A job is checked when it joins the queue (its data have just arrived, or the driver has just started). All jobs are
//! checked every [`Config::every`], and once a failed target had [`Config::settle`] to come back. Lost objects are
//! repaired in the order of [`repair_order`], with the job's place as its first key. Jobs are ordered by the
//! scheduler's expected start; those without one follow in the order of the queue. The order follows the queue up to
//! the moment a repair begins. A failed repair is retried after a growing pause; objects that no waiting job reads are
//! left to others.
//!
//! Source: Wang, sections 4.2.2 and 4.4; Zhang, sections 4.5.2 and 4.7.2; the reference, section 6.5, step 1.

use super::repair_order::{Candidate, repair_order};
use crate::ids::{FileId, ObjectId};
use crate::machine::Machine;
pub use crate::schedule::easy::JobId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Settings of [`Availability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Interval between checks of all waiting jobs.
    pub every: Time,
    /// Delay between a change of a target and the check: a target that is away for a moment costs nothing.
    pub settle: Time,
    /// Most repairs at once, at least 1.
    pub at_once: usize,
    /// Most jobs in one check, at least 1; the others follow in the next.
    pub jobs_per_look: usize,
    /// Delay before a failed repair is retried; doubled each time, up to [`Config::every`].
    pub retry_after: Time,
}

impl Default for Config {
    /// Five minutes, four repairs: the assumptions of the simulator of a centre. Five seconds: as for replicas (the
    /// reference, section 6.7). The rest are guesses.
    fn default() -> Config {
        Config {
            every: Time::from_secs(300),
            settle: Time::from_secs(5),
            at_once: 4,
            jobs_per_look: 64,
            retry_after: Time::from_secs(10),
        }
    }
}

/// A waiting job with input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The job that waits for its start.
    pub job: JobId,
    /// Start time that the scheduler expects.
    pub start: Option<Time>,
}

/// A lost object that can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file that the object belongs to.
    pub file: FileId,
    /// The lost object.
    pub object: ObjectId,
    /// Number of complete copies elsewhere.
    pub healthy_copies: u32,
    /// Bytes to restore.
    pub bytes: u64,
}

/// Events of [`Availability`]: the queue, the targets, and results of its actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All waiting jobs with input, in the order of the scheduler.
    Line(Vec<Waiting>),
    /// A target failed or returned.
    TargetsChanged,
    /// The answer to [`Action::Look`] for one of its jobs: the losses of its files, which may be empty.
    Looked {
        /// The job whose input was checked.
        job: JobId,
        /// All its files.
        files: Vec<FileId>,
        /// The objects of these files that are lost.
        lost: Vec<Lost>,
    },
    /// The check has ended, also if it failed for some jobs.
    LookEnded,
    /// An object was restored, or was never lost.
    Repaired(ObjectId),
    /// An object could not be restored now.
    RepairFailed(ObjectId),
    /// Time passed; sent at [`Availability::next_deadline`].
    Tick,
}

/// Actions that the driver carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Check the files of these jobs, in order of their starts. Answer each with `Looked`, and end with `LookEnded`.
    Look {
        /// The jobs whose input is checked.
        jobs: Vec<JobId>,
        /// Reason for the check.
        reason: LookReason,
    },
    /// Restore an object. Answer with `Repaired` or `RepairFailed`.
    Repair {
        /// The file that lost it.
        file: FileId,
        /// The lost object.
        object: ObjectId,
        /// The first job that reads it.
        job: JobId,
    },
}

/// Reason for checking jobs' files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookReason {
    /// The jobs have joined the queue.
    Joined,
    /// A target failed or returned.
    TargetsChanged,
    /// `Config::every` has passed since the last check.
    Periodic,
}

#[derive(Clone, Debug)]
struct Missing {
    lost: Lost,
    jobs: BTreeSet<JobId>,
    under_way: bool,
    /// Number of failed attempts, and earliest time of the next one.
    failed: u32,
    not_before: Time,
}

/// Checks and repairs for one queue.
#[derive(Clone, Debug, Default)]
pub struct Availability {
    config: Config,
    /// Jobs in the queue by place; the first to start has 0.
    places: BTreeMap<JobId, u64>,
    files: BTreeMap<JobId, Vec<FileId>>,
    missing: BTreeMap<ObjectId, Missing>,
    /// Jobs to check, with the reason.
    due: BTreeMap<JobId, LookReason>,
    looking: bool,
    look_at: Option<Time>,
    settled_at: Option<Time>,
    now: Time,
    actions: VecDeque<Action>,
}

impl Availability {
    /// Makes a machine without jobs.
    pub fn new(config: Config) -> Availability {
        let config = Config { at_once: config.at_once.max(1), jobs_per_look: config.jobs_per_look.max(1), ..config };
        Availability { config, ..Availability::default() }
    }

    /// Returns the places in the queue of files that waiting jobs read, as far as they were checked: smaller is sooner.
    pub fn starts(&self) -> BTreeMap<FileId, Time> {
        let mut starts = BTreeMap::new();
        for (job, files) in &self.files {
            let Some(place) = self.places.get(job) else { continue };
            for file in files {
                let start = starts.entry(*file).or_insert(Time(*place));
                *start = (*start).min(Time(*place));
            }
        }
        starts
    }

    /// Whether an object is to be restored, now or later.
    pub fn is_missing(&self, object: ObjectId) -> bool {
        self.missing.contains_key(&object)
    }

    fn line(&mut self, line: Vec<Waiting>) {
        let mut order: Vec<(bool, Option<Time>, usize)> =
            line.iter().enumerate().map(|(at, w)| (w.start.is_none(), w.start, at)).collect();
        order.sort_unstable();
        let before = std::mem::take(&mut self.places);
        for (place, (.., at)) in order.into_iter().enumerate() {
            self.places.entry(line[at].job).or_insert(place as u64);
        }
        for job in self.places.keys().filter(|job| !before.contains_key(job)) {
            self.due.entry(*job).or_insert(LookReason::Joined);
        }
        let places = &self.places;
        self.files.retain(|job, _| places.contains_key(job));
        self.due.retain(|job, _| places.contains_key(job));
        self.missing.values_mut().for_each(|missing| missing.jobs.retain(|job| places.contains_key(job)));
        match (self.places.is_empty(), self.look_at) {
            (true, _) => self.look_at = None,
            (false, None) => self.look_at = Some(self.now + self.config.every),
            _ => {}
        }
    }

    fn clock(&mut self) {
        let mut reason = None;
        if self.look_at.is_some_and(|at| at <= self.now) {
            self.look_at = Some(self.now + self.config.every);
            reason = Some(LookReason::Periodic);
        }
        if self.settled_at.is_some_and(|at| at <= self.now) {
            self.settled_at = None;
            reason = Some(LookReason::TargetsChanged);
        }
        if let Some(reason) = reason {
            self.due.extend(self.places.keys().map(|job| (*job, reason)));
        }
    }

    fn look(&mut self) {
        if self.looking || self.due.is_empty() {
            return;
        }
        let mut jobs: Vec<(u64, JobId)> = self.due.keys().map(|job| (self.places[job], *job)).collect();
        jobs.sort_unstable();
        let reason = self.due[&jobs[0].1];
        let jobs: Vec<JobId> = jobs.into_iter().take(self.config.jobs_per_look).map(|(_, job)| job).collect();
        self.due.retain(|job, _| !jobs.contains(job));
        self.looking = true;
        self.actions.push_back(Action::Look { jobs, reason });
    }

    fn looked(&mut self, job: JobId, files: Vec<FileId>, lost: Vec<Lost>) {
        if !self.places.contains_key(&job) {
            return;
        }
        let still: BTreeSet<ObjectId> = lost.iter().map(|lost| lost.object).collect();
        for (object, missing) in &mut self.missing {
            if !still.contains(object) {
                missing.jobs.remove(&job);
            }
        }
        for lost in lost {
            let fresh = Missing { lost, jobs: BTreeSet::new(), under_way: false, failed: 0, not_before: Time::ZERO };
            let missing = self.missing.entry(lost.object).or_insert(fresh);
            missing.lost = lost;
            missing.jobs.insert(job);
        }
        self.files.insert(job, files);
    }

    fn repair(&mut self) {
        let under_way = self.missing.values().filter(|m| m.under_way).count();
        let free = self.config.at_once.saturating_sub(under_way);
        if free == 0 {
            return;
        }
        let first = |missing: &Missing| missing.jobs.iter().map(|job| (self.places[job], *job)).min();
        let ready = self.missing.values().filter(|m| !m.under_way && m.not_before <= self.now);
        let mut order: Vec<Candidate> = ready
            .map(|missing| Candidate {
                file: missing.lost.file,
                object: missing.lost.object,
                job_start: first(missing).map(|(place, _)| Time(place)),
                healthy_copies: missing.lost.healthy_copies,
                bytes: missing.lost.bytes,
            })
            .collect();
        repair_order(&mut order);
        for candidate in order.into_iter().take(free) {
            let Some((_, job)) = first(&self.missing[&candidate.object]) else { continue };
            if let Some(missing) = self.missing.get_mut(&candidate.object) {
                missing.under_way = true;
            }
            self.actions.push_back(Action::Repair { file: candidate.file, object: candidate.object, job });
        }
    }
}

impl Machine for Availability {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::Line(line) => self.line(line),
            Event::TargetsChanged => self.settled_at = Some(self.now + self.config.settle),
            Event::Looked { job, files, lost } => self.looked(job, files, lost),
            Event::LookEnded => self.looking = false,
            Event::Repaired(object) => drop(self.missing.remove(&object)),
            Event::RepairFailed(object) => {
                if let Some(missing) = self.missing.get_mut(&object) {
                    missing.under_way = false;
                    missing.failed += 1;
                    let pause = self.config.retry_after.0.saturating_mul(1 << (missing.failed - 1).min(32));
                    missing.not_before = self.now + Time(pause.min(self.config.every.0));
                }
            }
            Event::Tick => {}
        }
        self.clock();
        self.missing.retain(|_, missing| missing.under_way || !missing.jobs.is_empty());
        self.look();
        self.repair();
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        let again = self.missing.values().filter(|m| !m.under_way && m.not_before > self.now).map(|m| m.not_before);
        again.chain(self.look_at).chain(self.settled_at).min()
    }
}

#[cfg(test)]
mod tests;
