//! Temporal replication: the input files of the jobs that start next get a second copy, for as long as it is worth it.
//!
//! ```text
//!                Create             Created                 its job runs
//!   (none) --------------> Creating --------> Complete ------------------------ in use ----+
//!      ^  in the window, or     |                 |                                        | closed (eager)
//!      |  small, or all         | CreateFailed    | Lost                                   | or job ended
//!      |                        v                 v                                        v
//!      +------ Removed -------- Waiting to be tried again (while a job wants it)       Removing
//! ```
//! Which jobs: those in the replication window ([`super::window`]) and, with the shortcut, the small ones wherever they
//! stand. A job keeps what it was given when the window shrinks. Jobs stand in the order of their [`Rank`]s: the time
//! of submission (FCFS), the place the scheduler gives them, or, to find out what perfect knowledge would gain, the
//! time at which they will be dispatched (dispatch-aware).
//!
//! A file's copy is shared by all jobs that want it and goes away with the last of them. A copy that is not complete
//! when its job is dispatched has left the job *at risk*; it is completed all the same, because the run has still to be
//! protected. A copy of a file that the job has closed (eager) or of a job that has ended is removed, complete or not.
//!
//! Decisions are made in `Replication::poll`, so that all events of one instant are taken in before; they follow
//! submission, dispatch, completion, and a periodic look (`Tick`).
//!
//! Duties of the driver: it answers each `Create` with `Created` or `CreateFailed` and each `Remove` with `Removed`,
//! even if there was nothing left to remove. A `Create` that is overtaken by a `Remove` is stopped and needs no answer.
//! The copy has the same striping on targets that hold nothing of the original. An original that lost a stripe is not
//! copied: answer `CreateFailed`; recovery brings it back first.
//!
//! Source: Zhang, section 4.5; the reference, section 6.7.

mod life;
mod machine;
mod prefix;

pub use super::window::Share;
pub use crate::schedule::easy::JobId;
pub use machine::Replication;

use crate::ids::FileId;
use crate::time::Time;
use std::fmt;

/// Where a job stands in the order of starts: the smaller, the sooner. Equal ranks go by the job's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u64);

/// Which jobs' inputs are replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// No job's input is copied.
    None,
    /// Those in the window over the ranks. With ranks in order of arrival this is FCFS, with true times of dispatch it
    /// is dispatch-aware.
    Window,
    /// Those in the window, and at once those that ask for at most `T * S` nodes.
    Shortcut(Share),
    /// Every job's, at submission.
    All,
}

/// When a copy is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// When the job has closed the file, or at its end.
    Eager,
    /// At the end of the job.
    JobEnd,
}

/// Settings of [`Replication`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which jobs get copies of their input.
    pub strategy: Strategy,
    /// How eager the window is.
    pub alpha: Share,
    /// Nodes of the whole system, in the unit of the jobs' nodes; 0 until [`Event::System`] says it.
    pub system_nodes: u32,
    /// When copies are removed.
    pub removal: Removal,
    /// Copies being made at once, at least 1; those of the jobs that start soonest come first.
    pub creating_max: usize,
    /// Between two periodic looks; `None` looks at events alone.
    pub poll_every: Option<Time>,
    /// After a copy failed, the next try comes after so long.
    pub retry_after: Time,
}

impl Config {
    /// The published strategy: a small shortcut (`T` = 0.01), `alpha` = 0.2, copies removed as soon as they are closed.
    /// The rest are guesses: four copies at once keep a mover busy without drowning it; a minute between looks.
    pub fn new(system_nodes: u32) -> Config {
        Config {
            strategy: Strategy::Shortcut(Share::millionths(10_000)),
            alpha: Share::millionths(200_000),
            system_nodes,
            removal: Removal::Eager,
            creating_max: 4,
            poll_every: Some(Time::from_secs(60)),
            retry_after: Time::from_secs(60),
        }
    }
}

/// Events of [`Replication`]: the queue, and what became of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The queue is seen: the system has so many nodes, and its jobs are told of next.
    System {
        /// In the unit of the jobs' nodes.
        nodes: u32,
    },
    /// A job waits in the queue.
    Submitted {
        /// The number of the job in its queue.
        job: JobId,
        /// The place of the job in the order of starts.
        rank: Rank,
        /// Nodes (or cores) it asks for.
        nodes: u32,
        /// The input files that can be replicated.
        files: Vec<FileId>,
    },
    /// The scheduler moved a waiting job.
    Ranked {
        /// The job whose place changed.
        job: JobId,
        /// Where it stands now.
        rank: Rank,
    },
    /// A job runs now. One that was never submitted takes nodes and has no input.
    Dispatched {
        /// The job that begins to run.
        job: JobId,
        /// Nodes it runs on.
        nodes: u32,
    },
    /// A running job has closed an input file for good, as far as one can tell.
    Closed {
        /// The running job that closed the file.
        job: JobId,
        /// The input that it will not read again.
        file: FileId,
    },
    /// A job has ended, was cancelled or is no more, waiting or running.
    Ended {
        /// The job that has ended, well or not.
        job: JobId,
    },
    /// A copy is complete and in sync.
    Created {
        /// The file whose copy is complete.
        file: FileId,
    },
    /// A copy could not be made; nothing of it is left.
    CreateFailed {
        /// The file that could not be copied.
        file: FileId,
    },
    /// A copy was removed.
    Removed {
        /// The file whose copy is gone.
        file: FileId,
    },
    /// A complete copy is no use any more (a target of it failed and could not be replaced); nothing of it is left.
    Lost {
        /// The file whose copy a failed target held.
        file: FileId,
    },
    /// A complete copy was there when the driver started. To be said before the jobs that want it are submitted.
    Adopted {
        /// The file whose copy an earlier run made.
        file: FileId,
    },
    /// Time passed; to be sent at `Replication::next_deadline`. The first one after the queue was seen, when all jobs
    /// are known, also removes adopted copies that nobody wants.
    Tick,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copy a file.
    Create {
        /// The file to copy.
        file: FileId,
        /// For the first of the jobs that want it.
        job: JobId,
        /// Which rule chose its job.
        reason: CreateReason,
    },
    /// Remove a file's copy, or stop making it and remove what there is.
    Remove {
        /// The file whose copy goes.
        file: FileId,
        /// Which need for it ended.
        reason: RemoveReason,
    },
}

/// Why a copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateReason {
    /// Its job is in the replication window.
    InWindow {
        /// How many jobs the window held then.
        window: u32,
    },
    /// Its job is small enough to be started out of its turn.
    Shortcut,
    /// All jobs' input is copied.
    All,
    /// Another job had it made, and it was there when this one was dispatched.
    Shared,
}

impl fmt::Display for CreateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateReason::InWindow { window } => {
                write!(f, "the job is one of the first {window}, the replication window")
            }
            CreateReason::Shortcut => f.write_str("the job is small and may start out of its turn"),
            CreateReason::All => f.write_str("the input of all jobs is copied"),
            CreateReason::Shared => f.write_str("another job has had it made"),
        }
    }
}

/// Why a copy is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveReason {
    /// The last job that wanted it has closed the file.
    Closed(JobId),
    /// The last job that wanted it has ended.
    JobEnded(JobId),
    /// It was there at the start and nobody wants it.
    Unwanted,
}

impl fmt::Display for RemoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoveReason::Closed(job) => write!(f, "job {} has read it", job.0),
            RemoveReason::JobEnded(job) => write!(f, "job {} is over", job.0),
            RemoveReason::Unwanted => f.write_str("it was left from before"),
        }
    }
}

/// How far a file's copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Wanted, and waits for its turn to be made.
    Queued,
    /// Being made.
    Creating {
        /// When the copy was ordered.
        since: Time,
    },
    /// Complete, for a job that waits.
    Complete,
    /// Complete, and a job that wants it runs.
    InUse,
    /// Could not be made.
    Failed {
        /// When it is tried again.
        retry_at: Time,
    },
    /// Being removed.
    Removing,
}

/// What protects one input file of a job, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The input file that is or may be protected.
    pub file: FileId,
    /// Its copy, if there is or will be one.
    pub life: Option<Life>,
    /// Why this job has asked for it; `None` if it has not (yet), though another job may have.
    pub reason: Option<CreateReason>,
    /// Whether the job was dispatched before the copy was complete.
    pub at_risk: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs with input that were dispatched.
    pub dispatched: u64,
    /// Those of them of which some file had no complete copy.
    pub at_risk: u64,
    /// Copies begun.
    pub begun: u64,
    /// Copies completed.
    pub completed: u64,
    /// Copies that failed or were lost.
    pub failed: u64,
    /// Copies removed, complete or not.
    pub removed: u64,
    /// Of these, before they were complete.
    pub removed_incomplete: u64,
    /// Jobs in the window now.
    pub window: u64,
    /// Files with a copy now, complete or not.
    pub copies: u64,
}

#[cfg(test)]
mod tests;
