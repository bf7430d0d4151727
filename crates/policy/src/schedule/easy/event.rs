//! Jobs and queues, events and actions of the scheduler.

use crate::time::Time;

/// A job; a number of the driver's choosing, never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A queue, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u8);

/// Share of its queue's capacity that a job takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// Number of its cores.
    #[default]
    Cores,
    /// One slot, whatever its number of cores.
    Slot,
}

/// A queue of the batch system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Cores, or jobs at once.
    pub capacity: u32,
    /// Share of it that a job takes.
    pub charge: Charge,
}

/// A job to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number of the job.
    pub id: JobId,
    /// Queue in which it waits.
    pub queue: QueueId,
    /// Cores (or nodes) it needs; at least 1.
    pub cores: u32,
    /// Longest run, as submitted.
    pub estimate: Time,
    /// Jobs that must succeed first. The driver leaves out those that already did. An unknown number (never submitted,
    /// or failed) drops the job.
    pub after_ok: Vec<JobId>,
    /// Jobs that must end first, with or without success. An unknown number counts as ended.
    pub after_any: Vec<JobId>,
}

/// Input of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job was submitted.
    Submitted(Job),
    /// A running job ended.
    Ended {
        /// The job, by the driver's number.
        id: JobId,
        /// Whether the job succeeded.
        ok: bool,
    },
    /// The user cancelled a job, waiting or running.
    Cancelled(JobId),
    /// A job was already running when the driver restarted. Takes its capacity like a started one.
    Running {
        /// Job that runs.
        job: Job,
        /// When it started.
        started: Time,
    },
}

/// Output of the scheduler, for the driver to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run a job; send `Ended` when it ends.
    Start {
        /// The job, by the driver's number.
        id: JobId,
        /// The rule that decided.
        reason: StartReason,
    },
    /// Kill a running job that was cancelled; its `Ended` is still due.
    Stop(JobId),
    /// Forget a job: it will not run.
    Drop {
        /// The job, by the driver's number.
        id: JobId,
        /// The rule that decided.
        reason: DropReason,
    },
}

/// Why a job starts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// It was the first of its queue and fits.
    Head,
    /// It fits beside the running jobs and ends before the head of the queue can start.
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
    /// It depends on an unknown job.
    DependencyUnknown(JobId),
    /// It needs more than its queue's capacity.
    TooLarge {
        /// Capacity of the queue.
        capacity: u32,
    },
    /// There is no such queue.
    NoSuchQueue,
    /// Another job has that number.
    NumberInUse,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Total of submitted jobs.
    pub submitted: u64,
    /// Jobs started in turn.
    pub started_in_turn: u64,
    /// Jobs started by backfilling.
    pub backfilled: u64,
    /// Jobs that ended.
    pub ended: u64,
    /// Total of dropped jobs.
    pub dropped: u64,
    /// Heads that started later than promised (only when others overran their estimates or capacity shrank).
    pub promises_broken: u64,
}

/// State of a known job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Waits for jobs it depends on.
    Held,
    /// Waits in its queue.
    Waiting,
    /// Runs since its start.
    Running,
}
