//! Queue of the carriers: actions of the machine, and work that must not run on the requesting thread.
//!
//! Jobs wait in lanes, each with threads of its own (carriers), so that slow work does not delay other work. A lane
//! with one carrier keeps the order.

#[cfg(any(test, feature = "doubles"))]
mod doubles;

use super::Adapt;
use object::workers::{END_SPAN, Pool};
use parking_lot::{Mutex, MutexGuard};
use policy::FileId;
use policy::volume::ownership::Mechanism;
use policy::volume::{Action, Change, Purpose, Verb};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{OnceLock, Weak};

/// Group of carriers that does a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Changes for tiers and stripes.
    Changes,
    /// Swaps in replicas; no other change and no copy delays this.
    Failover,
    /// Makes, rebuilds and drops replicas.
    Replicas,
    /// Actions on checkpoints, in their order: a write is released only after room was made for it.
    Checkpoints,
    /// Makes versions durable.
    Commits,
    /// Copies to the capacity tier, at the machine's rate, which may be zero for a long time.
    Demotions,
    /// Copies to the replica group, at their own rate.
    Group,
}

const LANES: usize = 7;

/// Work for a carrier.
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

/// Queues of all lanes. Changes are bounded by the machine's limit, other jobs by the applications that wait for them.
#[derive(Default)]
pub struct Jobs {
    lanes: [Waiting; LANES],
}

#[derive(Default)]
struct Waiting {
    queue: Mutex<Queue>,
    /// Threads of the lane, and the mechanisms that they work for.
    carriers: OnceLock<(Pool, Weak<Adapt>)>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Files that are being changed: the mover works on one part of a file at a time.
    under_way: BTreeSet<FileId>,
}

impl Queue {
    /// Takes the next job whose file is not being changed.
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

    /// Queues work for a carrier of the lane.
    pub fn later(&self, lane: Lane, work: impl FnOnce(&Adapt) + Send + 'static) {
        self.push(lane, Job::Do(Box::new(work)));
    }

    fn push(&self, lane: Lane, job: Job) {
        self.lanes[lane as usize].queue.lock().jobs.push_back(job);
        self.wake(lane);
    }

    /// Gives a lane its threads.
    pub fn start(&self, lane: Lane, carriers: Pool, adapt: Weak<Adapt>) {
        drop(self.lanes[lane as usize].carriers.set((carriers, adapt)));
        self.wake(lane);
    }

    fn wake(&self, lane: Lane) {
        let Some((carriers, adapt)) = self.lanes[lane as usize].carriers.get() else { return };
        let adapt = adapt.clone();
        let carry = move || {
            if let Some(adapt) = adapt.upgrade() {
                adapt.driver.jobs.work(lane, &adapt);
            }
        };
        // A failed start has been logged; the next job starts the thread for this one, too.
        drop(carriers.wake(carry));
    }

    /// Executes the queued jobs of a lane whose file is not being changed. If more jobs are queued, wakes the next
    /// thread.
    fn work(&self, lane: Lane, adapt: &Adapt) {
        let mut queue = self.lanes[lane as usize].queue.lock();
        while let Some(job) = queue.next() {
            if !queue.jobs.is_empty() {
                self.wake(lane);
            }
            let file = job.file();
            MutexGuard::unlocked(&mut queue, || adapt.work(job));
            queue.under_way.retain(|other| Some(*other) != file);
        }
    }

    /// Ends all lanes within [`END_SPAN`]: drops queued changes, and completes the other queued work.
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
