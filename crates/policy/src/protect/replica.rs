//! Temporal replication: the input files of the jobs that start next get a second copy while those jobs need it.
//!
//! ```text
//!                Create             Created                 its job runs
//!   (none) --------------> Creating --------> Complete ------------------------ in use ----+
//!      ^  in the window, or     |                 |                                        | closed (eager)
//!      |  small, or all         | CreateFailed    | Lost                                   | or job ended
//!      |                        v                 v                                        v
//!      +------ Removed -------- Waiting for a retry (while a job needs it)             Removing
//! ```
//! Jobs in the replication window ([`super::window`]) get copies; with the shortcut, small jobs get them at any place.
//! A job keeps its copies when the window shrinks. Jobs are ordered by [`Rank`]: time of submission (FCFS) or place in
//! the scheduler's queue. For comparison with perfect knowledge, the rank is the future time of dispatch
//! (dispatch-aware).
//!
//! All jobs that need a file share its copy, which is removed with the last of them. A copy that is incomplete at the
//! dispatch of its job left the job *at risk*. It is completed nevertheless, because it still protects the run. A copy
//! of a file that the job has closed (eager), or of an ended job, is removed, complete or not.
//!
//! `Replication::poll` decides, so that all events of one instant are applied before. Decisions follow submission,
//! dispatch, completion, and a periodic check (`Tick`).
//!
//! Duties of the driver: it answers each `Create` with `Created` or `CreateFailed`. It answers each `Remove` with
//! `Removed`, even if nothing was left to remove. A `Create` followed by a `Remove` is stopped and needs no answer. The
//! copy has the same striping, on targets that hold nothing of the original. An original that lost a stripe is not
//! copied: the answer is `CreateFailed`, and recovery restores the original first.
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

/// A job's place in the order of starts: smaller ranks start sooner. Equal ranks are ordered by job number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u64);

/// Selection of jobs whose inputs are replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// No job's input is copied.
    None,
    /// Jobs in the window over the ranks: FCFS with ranks in order of arrival, dispatch-aware with true times of
    /// dispatch.
    Window,
    /// Jobs in the window, and, at submission, jobs that request at most `T * S` nodes.
    Shortcut(Share),
    /// All jobs, at submission.
    All,
}

/// Time of a copy's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// After the job closed the file, or at its end.
    Eager,
    /// At the end of the job.
    JobEnd,
}

/// Settings of [`Replication`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Selection of jobs whose input is copied.
    pub strategy: Strategy,
    /// Eagerness of the window.
    pub alpha: Share,
    /// Nodes of the whole system, in the unit of the jobs' nodes; 0 until [`Event::System`].
    pub system_nodes: u32,
    /// Time of the removal of copies.
    pub removal: Removal,
    /// Most copies made at once, at least 1; jobs that start soonest come first.
    pub creating_max: usize,
    /// Interval between periodic checks; `None`: checks after events only.
    pub poll_every: Option<Time>,
    /// Delay before a failed copy is retried.
    pub retry_after: Time,
}

impl Config {
    /// The published strategy: a small shortcut (`T` = 0.01), `alpha` = 0.2, copies removed as soon as they are closed.
    /// The rest are guesses: four copies at once keep a mover busy without overload; a minute between checks.
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

impl Default for Config {
    fn default() -> Config {
        Config::new(0)
    }
}

/// Events of [`Replication`]: changes of the queue, and results of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The queue is visible; reports of its jobs follow.
    System(u32),
    /// A job waits in the queue.
    Submitted {
        /// The number of the job in its queue.
        job: JobId,
        /// The place of the job in the order of starts.
        rank: Rank,
        /// Nodes (or cores) that it requests.
        nodes: u32,
        /// The input files that can be replicated.
        files: Vec<FileId>,
    },
    /// The scheduler moved a waiting job.
    Ranked {
        /// The job whose place changed.
        job: JobId,
        /// New place of the job.
        rank: Rank,
    },
    /// A job runs now. A job without `Submitted` takes nodes and has no input.
    Dispatched {
        /// The job that begins to run.
        job: JobId,
        /// Nodes it runs on.
        nodes: u32,
    },
    /// A running job has probably closed an input file for good.
    Closed {
        /// The running job that closed the file.
        job: JobId,
        /// The input that it will not read again.
        file: FileId,
    },
    /// A waiting or running job has ended, was cancelled or has disappeared.
    Ended(JobId),
    /// A copy is complete and in sync.
    Created(FileId),
    /// A copy failed, and was removed completely.
    CreateFailed(FileId),
    /// A copy was removed.
    Removed(FileId),
    /// A complete copy became useless after a failed target could not be replaced, and was removed completely.
    Lost(FileId),
    /// A complete copy existed when the driver started. Sent before the jobs that need it are submitted.
    Adopted(FileId),
    /// Time passed; sent at `Replication::next_deadline`. The first one after `System`, when all jobs are known, also
    /// removes adopted copies that no job needs.
    Tick,
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copy a file.
    Create {
        /// The file to copy.
        file: FileId,
        /// The first of the jobs that need it.
        job: JobId,
        /// Rule that chose the job.
        reason: CreateReason,
    },
    /// Remove a file's copy, or stop making it and remove its parts.
    Remove {
        /// The file whose copy is to be removed.
        file: FileId,
        /// The need that ended.
        reason: RemoveReason,
    },
}

/// Reason for making a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateReason {
    /// Its job is in the replication window.
    InWindow {
        /// Size of the window at that time.
        window: u32,
    },
    /// Its job is small enough to be started out of its turn.
    Shortcut,
    /// The input of all jobs is copied.
    All,
    /// Another job's copy existed when this job was dispatched.
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

/// Reason for removing a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveReason {
    /// The last job that needed it has closed the file.
    Closed(JobId),
    /// The last job that needed it has ended.
    JobEnded(JobId),
    /// It existed at the start, and no job needs it.
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

/// Progress of a file's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Requested, and waiting for its turn.
    Queued {
        /// Rank of the first job that needs it.
        rank: Rank,
    },
    /// The mover makes the copy.
    Creating {
        /// Time at which the copy was requested.
        since: Time,
    },
    /// Complete, for a waiting job.
    Complete,
    /// Complete, and a job that needs it runs.
    InUse,
    /// The copy failed.
    Failed {
        /// Time of the next retry.
        retry_at: Time,
    },
    /// The mover removes the copy.
    Removing,
}

/// Protection of one input file of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The input file that is or may be protected.
    pub file: FileId,
    /// State of its copy, if one exists or is requested.
    pub life: Option<Life>,
    /// Reason why this job requested the copy; `None` if only other jobs requested it.
    pub reason: Option<CreateReason>,
    /// Whether the job was dispatched before the copy was complete.
    pub at_risk: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs with input that were dispatched.
    pub dispatched: u64,
    /// Dispatched jobs with some file that had no complete copy.
    pub at_risk: u64,
    /// Copies that were begun.
    pub begun: u64,
    /// Copies that were completed.
    pub completed: u64,
    /// Copies that failed or were lost.
    pub failed: u64,
    /// Copies removed, complete or not.
    pub removed: u64,
    /// Removed copies that were incomplete.
    pub removed_incomplete: u64,
    /// Jobs in the window now.
    pub window: u64,
    /// Files with a copy now, complete or not.
    pub copies: u64,
}

#[cfg(test)]
mod tests;
