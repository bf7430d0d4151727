//! Queue of the carriers: actions of the machine, and work that must not run on the requesting thread.
//!
//! Jobs wait in lanes, each with threads of its own (carriers), so that what may take long is in the way of nothing
//! else. A lane with one carrier keeps the order.

use super::Adapt;
use crate::workers::{END_SPAN, Pool};
use parking_lot::{Mutex, MutexGuard};
use policy::FileId;
use policy::volume::ownership::Mechanism;
use policy::volume::{Action, Change, Purpose, Verb};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Group of carriers that does a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Changes for tiers and stripes.
    Changes,
    /// Replicas take over: no other change and no copy is in the way.
    Failover,
    /// Replicas are made, made whole and dropped.
    Replicas,
    /// Checkpoints in the order in which things happen to them: a write is released after room was made for it.
    Checkpoints,
    /// Versions are made durable.
    Commits,
    /// Copies to the capacity tier, at the machine's rate, which may be zero for long.
    Demotions,
    /// The same to the replica group.
    Group,
}

const LANES: usize = 7;

/// Something to do.
pub enum Job {
    /// Action of the machine.
    Act(Action),
    /// Work from outside the machine.
    Do(Box<dyn FnOnce(&Adapt) + Send>),
}

impl Job {
    pub fn change(&self) -> Option<&Change> {
        match self {
            Job::Act(Action::Change(change)) => Some(change),
            _ => None,
        }
    }

    fn file(&self) -> Option<FileId> {
        self.change().map(|change| change.file)
    }
}

/// All of it: changes are bounded by what the machine has under way, the rest by what applications wait for.
#[derive(Default)]
pub struct Jobs {
    lanes: [Waiting; LANES],
}

#[derive(Default)]
struct Waiting {
    queue: Mutex<Queue>,
    /// Threads of the lane, and their work.
    carriers: OnceLock<(Pool, Arc<dyn Fn() + Send + Sync>)>,
}

impl Waiting {
    fn wake(&self) {
        if let Some((pool, carry)) = self.carriers.get() {
            let carry = carry.clone();
            // A failure to start has been logged; the next job brings this one along.
            drop(pool.wake(move || carry()));
        }
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Files of which something is being changed: the mover works on one part of a file at a time.
    under_way: BTreeSet<FileId>,
}

impl Queue {
    /// The next one whose file is free.
    fn next(&mut self) -> Option<Job> {
        let is_free = |job: &Job| job.file().is_none_or(|file| !self.under_way.contains(&file));
        let at = self.jobs.iter().position(is_free)?;
        let job = self.jobs.remove(at)?;
        self.under_way.extend(job.file());
        Some(job)
    }
}

impl Jobs {
    /// Queues an action of the machine in its lane.
    pub fn act(&self, action: Action) {
        self.push(lane_of(&action), Job::Act(action));
    }

    /// Has a carrier do something.
    pub fn later(&self, lane: Lane, work: impl FnOnce(&Adapt) + Send + 'static) {
        self.push(lane, Job::Do(Box::new(work)));
    }

    fn push(&self, lane: Lane, job: Job) {
        let waiting = &self.lanes[lane as usize];
        waiting.queue.lock().jobs.push_back(job);
        waiting.wake();
    }

    /// Gives a lane its threads. They call `carry`, which calls [`Jobs::work`].
    pub fn start(&self, lane: Lane, carriers: Pool, carry: impl Fn() + Send + Sync + 'static) {
        let waiting = &self.lanes[lane as usize];
        drop(waiting.carriers.set((carriers, Arc::new(carry))));
        waiting.wake();
    }

    /// Does what waits in a lane, as far as nothing else changes its file. The first job of several wakes the next
    /// thread.
    pub fn work(&self, lane: Lane, work: impl Fn(Job)) {
        let waiting = &self.lanes[lane as usize];
        let mut queue = waiting.queue.lock();
        while let Some(job) = queue.next() {
            if !queue.jobs.is_empty() {
                waiting.wake();
            }
            let file = job.file();
            MutexGuard::unlocked(&mut queue, || work(job));
            queue.under_way.retain(|other| Some(*other) != file);
        }
    }

    /// Takes the queued jobs that `which` selects: for tests without threads.
    pub fn take_if(&self, mut which: impl FnMut(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for waiting in &self.lanes {
            let mut queue = waiting.queue.lock();
            let (now, later): (Vec<_>, Vec<_>) = queue.jobs.drain(..).partition(&mut which);
            queue.jobs.extend(later);
            taken.extend(now);
        }
        taken
    }

    /// Everything ends: changes that wait are not begun, what else waits is done, within [`END_SPAN`].
    pub fn end(&self) {
        self.lanes.iter().for_each(|waiting| waiting.queue.lock().jobs.retain(|job| job.change().is_none()));
        let late = |waiting: &&Waiting| waiting.carriers.get().is_some_and(|(pool, _)| !pool.stop(END_SPAN));
        let late = self.lanes.iter().filter(late).count();
        if late > 0 {
            tracing::warn!("{late} lanes of the adapting mechanisms do not end and are left behind");
        }
    }
}

fn lane_of(action: &Action) -> Lane {
    match action {
        Action::Change(Change { by: Mechanism::Burst, verb, .. }) => match verb {
            Verb::AddMirror { purpose: Purpose::Group, .. } => Lane::Group,
            Verb::AddMirror { .. } => Lane::Demotions,
            _ => Lane::Checkpoints,
        },
        Action::Change(Change { verb: Verb::Swap { .. }, .. }) => Lane::Failover,
        Action::Change(Change { by: Mechanism::Replicas | Mechanism::Repair, .. }) => Lane::Replicas,
        Action::Change(_) | Action::Place { .. } | Action::Prefer { .. } => Lane::Changes,
        Action::Release { .. } | Action::Prepare { .. } | Action::SetRates(_) => Lane::Checkpoints,
        Action::SetReplicaRate(_) | Action::LookAtSpace => Lane::Checkpoints,
    }
}
