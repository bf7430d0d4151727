//! First come first served with EASY backfilling: a later job may overtake only if it does not delay the first.
//!
//! ```text
//!  cores                shadow time: the head fits
//!    ^  |running  |        |
//!    |  |---------+--------|============ head ============
//!    |  | running          |
//!    |  |------------------|...... extra: free beside the head ......
//!    |  | [ends by then ]  |  [needs at most extra, may run on past the shadow time]
//!    +------------------------------------------------> t
//!       now
//! ```
//!
//! Each queue has capacity of its own and is scheduled by itself: `batch` charges cores, `dataxfer` charges one of a
//! few slots and no core. A job enters its queue when all jobs it depends on have ended well; if one of them does not,
//! it is dropped, and what depends on it in turn. The order of a queue is the order of entering.
//!
//! Invariant: the shadow time computed when a job first blocks the queue's head is a promise; it starts no later, as
//! long as jobs end by their estimates.
//!
//! Scheduling happens in [`Easy::poll`], so that all events of one instant are taken in before the first decision.
//!
//! Source: the reference, section 6.8.

use crate::time::Time;

/// A job; a number of the driver's choosing, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A queue, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u8);

/// What a job takes of its queue's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Its cores.
    Cores,
    /// One slot, whatever cores it asks for.
    Slot,
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Cores, or jobs at once.
    pub capacity: u32,
    /// What a job takes of it.
    pub charge: Charge,
}

/// A job to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Where it waits.
    pub queue: QueueId,
    /// Cores (or nodes) it needs; at least 1.
    pub cores: u32,
    /// How long it says it runs.
    pub estimate: Time,
    /// Jobs that must end well before. The driver leaves out those that already did; a number that is not known (never
    /// submitted, or ended badly) drops the job.
    pub after_ok: Vec<JobId>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job was submitted.
    Submitted(Job),
    /// A running job ended.
    Ended {
        /// Which.
        id: JobId,
        /// Whether with success.
        ok: bool,
    },
    /// The user wants a job gone, waiting or running.
    Cancelled {
        /// Which.
        id: JobId,
    },
    /// The capacity of a queue changed. What runs goes on.
    Capacity {
        /// Which queue.
        queue: QueueId,
        /// What it has now.
        capacity: u32,
    },
    /// A job was already running when the driver restarted. Takes its capacity like a started one.
    Running {
        /// The job.
        job: Job,
        /// When it started.
        started: Time,
    },
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run a job; send `Ended` when it ends.
    Start {
        /// Which.
        id: JobId,
        /// Why now.
        reason: StartReason,
    },
    /// Kill a running job that was cancelled; its `Ended` is still due.
    Stop {
        /// Which.
        id: JobId,
    },
    /// Forget a job: it will not run.
    Drop {
        /// Which.
        id: JobId,
        /// Why.
        reason: DropReason,
    },
}

/// Why a job starts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// It was the first of its queue and fits.
    Head,
    /// It fits beside what runs and ends before the head of the queue can start.
    EndsInTime {
        /// When the head can start.
        shadow: Time,
    },
    /// It fits beside the head of the queue too.
    FitsBesideHead,
}

/// Why a job will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It was cancelled while it waited.
    Cancelled,
    /// A job it depends on ended badly, was cancelled or dropped.
    DependencyFailed(JobId),
    /// It depends on a job that is not known.
    DependencyUnknown(JobId),
    /// It needs more than its queue has.
    TooLarge {
        /// What the queue has.
        capacity: u32,
    },
    /// There is no such queue.
    NoSuchQueue,
    /// A job of that number is there already.
    NumberInUse,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs submitted.
    pub submitted: u64,
    /// Jobs started in turn.
    pub started_in_turn: u64,
    /// Jobs started by backfilling.
    pub backfilled: u64,
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs dropped.
    pub dropped: u64,
    /// Heads that started later than promised (only when others overran their estimates or capacity shrank).
    pub promises_broken: u64,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Waits for jobs it depends on.
    Held,
    /// Waits in its queue.
    Waiting,
    /// Runs.
    Running,
}

/// The scheduler of all queues.
#[derive(Debug)]
pub struct Easy {
    queues: Vec<Queue>,
}

impl Easy {
    /// A scheduler with nothing to run. [`QueueId`] counts from 0 in the order given.
    pub fn new(queues: &[Queue]) -> Easy {
        Easy { queues: queues.to_vec() }
    }

    /// Takes in what happened. Follow with [`Easy::poll`] until it gives nothing, after the last event of an instant.
    pub fn handle(&mut self, _now: Time, _event: Event) {
        todo!()
    }

    /// What to do next, if anything.
    pub fn poll(&mut self) -> Option<Action> {
        let _ = &self.queues;
        todo!()
    }

    /// Always `None`: only events change what runs.
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Where a job stands; `None` if it is not known (any more).
    pub fn standing(&self, _id: JobId) -> Option<Standing> {
        todo!()
    }

    /// The jobs that wait in a queue, in order.
    pub fn waiting(&self, _queue: QueueId) -> impl Iterator<Item = JobId> {
        std::iter::empty()
    }

    /// When the first waiting job of a queue was promised to start, once it blocked.
    pub fn promise(&self, _queue: QueueId) -> Option<(JobId, Time)> {
        todo!()
    }

    /// What of a queue's capacity is free.
    pub fn free(&self, _queue: QueueId) -> u32 {
        todo!()
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        todo!()
    }
}
