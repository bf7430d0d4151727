//! When the data of a job start on their way: late enough not to fill the scratch space, early enough to be there.
//!
//! ```text
//!   submitted          stage-in begins            data are there      job starts
//!      |------- waits -------|======= transfer =======|--- margin ---|
//!                            ^ estimated start - estimated transfer - margin
//! ```
//! The start is the queue's latest estimate. If the queue has none for some time, the transfer begins at once. The
//! transfer time follows from the measured rate of the source and the limits of the transfer ([`Rates`], [`Load`]). The
//! margin is a fixed part and a part of the transfer, because estimates err and jobs end early. Space is reserved
//! before a transfer begins, and released with its job. If there is none, the job that starts soonest gets the next
//! free space.
//!
//! A stage-in is *too late* if the job could have started before its data were there. It is *too early* if they lay
//! there for longer than `early_max`. Both are counted, with the time lost. A job that could have started so soon after
//! its submission that no transfer was fast enough is counted apart.
//!
//! Duties of the driver: it answers each `Reserve` with `Reserved`, `NoSpace` or `Refused` ([`Ledger`] decides) and
//! each `Begin` with `Arrived` or `Failed`. It sends `Started` when the job starts *or would have started but for its
//! data*, the earlier of the two. It sends `Gone` when the job is no more; `Release` then gives back its reservation.
//!
//! Source: the reference, section 6.1 (`est_start - est_transfer - slack`).

mod coming;
mod ledger;
mod machine;
pub mod nodes;
mod rates;

pub use coming::Coming;
pub use ledger::{Answer, Ledger, Space, WhenFull};
pub use machine::JustInTime;
pub use rates::{Load, Rates, SourceId};

pub use super::easy::JobId;
use crate::time::Time;

/// Settings of [`JustInTime`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The least margin.
    pub margin_min: Time,
    /// Further margin, in percent of the estimated transfer.
    pub margin_percent: u32,
    /// Longest time for data to wait for their job; longer counts as too early.
    pub early_max: Time,
    /// Longest wait for a first estimate of a job's start from its queue.
    pub estimate_wait: Time,
    /// Pause after a lack of space, or after a failed transfer.
    pub retry_after: Time,
    /// Most retries of a failed transfer.
    pub retries: u32,
    /// Bytes per second of a source that has not shown its rate yet.
    pub rate_unknown: u64,
}

impl Default for Config {
    /// Guesses. Five minutes and half of the transfer cover an estimate that errs by as much. 10 MB/s is a slow remote
    /// source, so that its first transfer rather begins early. A minute is two rounds of Slurm's backfilling.
    fn default() -> Config {
        Config {
            margin_min: Time::from_secs(300),
            margin_percent: 50,
            early_max: Time::from_secs(3600),
            estimate_wait: Time::from_secs(60),
            retry_after: Time::from_secs(30),
            retries: 3,
            rate_unknown: 10_000_000,
        }
    }
}

/// Input of the just-in-time machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A waiting job needs data.
    Submitted {
        /// Number of the job.
        job: JobId,
        /// Data to be staged in.
        load: Load,
        /// Source of the data.
        source: SourceId,
        /// Start that the queue estimates; `None` without an estimate.
        start: Option<Time>,
    },
    /// New estimate of a job's start from the queue; `None` if it has none now.
    Estimated {
        /// The job, by the driver's number.
        job: JobId,
        /// New estimated start.
        start: Option<Time>,
    },
    /// Space for a job's data is set aside.
    Reserved(JobId),
    /// There is not enough space for the data.
    NoSpace(JobId),
    /// There is not enough space for the data, and the job must not wait for it.
    Refused(JobId),
    /// Space became free: jobs that found none may try again at once.
    SpaceFreed,
    /// The data of a job were verified on the volume; the transfer took this long.
    Arrived {
        /// The job, by the driver's number.
        job: JobId,
        /// Time since the beginning of the transfer.
        took: Time,
    },
    /// A transfer failed.
    Failed {
        /// The job, by the driver's number.
        job: JobId,
        /// Whether a retry is useless.
        permanent: bool,
    },
    /// The job has started, or would have but for its data.
    Started(JobId),
    /// The job has ended or was removed, or its data are managed elsewhere.
    Gone(JobId),
    /// Time passed; to be sent at `JustInTime::next_deadline`.
    Tick,
}

/// Output of the machine, for the driver to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set space aside.
    Reserve {
        /// Job that needs the space.
        job: JobId,
        /// Bytes to set aside.
        bytes: u64,
        /// The rule that decided.
        reason: Reason,
    },
    /// Begin the transfer.
    Begin {
        /// The job, by the driver's number.
        job: JobId,
        /// The rule that decided.
        reason: Reason,
    },
    /// Release the unused part of a reservation.
    Release {
        /// Job of the reservation.
        job: JobId,
        /// Bytes to release.
        bytes: u64,
    },
    /// The transfer failed for good: the job should not be started.
    GiveUp(JobId),
}

/// Why a stage-in begins now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The job is expected to start at `start`, and the transfer and the margin take the time until then.
    Due {
        /// When the job starts.
        start: Time,
        /// How long the transfer takes.
        transfer: Time,
        /// Margin before the start.
        margin: Time,
    },
    /// The queue has no estimate of the job's start.
    StartUnknown,
    /// The job waits for its data.
    Waited,
}

/// Progress of a job's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Too early to begin.
    Waiting {
        /// When to begin, by the latest estimate.
        due: Time,
    },
    /// Space is being set aside, or there was none.
    Reserving,
    /// On their way.
    Moving {
        /// When the transfer began.
        since: Time,
    },
    /// Its data are there.
    Arrived {
        /// When they were there.
        at: Time,
    },
    /// The data were given up.
    GivenUp,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs whose data were complete before the start, by at most `early_max`.
    pub in_time: u64,
    /// Jobs that would have started before their data were complete.
    pub too_late: u64,
    /// Total time for which late jobs waited for their data.
    pub too_late_total: Time,
    /// Late jobs whose transfer began as soon as they were submitted.
    pub no_lead: u64,
    /// Jobs whose data waited for longer than `early_max`.
    pub too_early: u64,
    /// Total time for which the data of all jobs waited for the start.
    pub idle_total: Time,
    /// Jobs whose data were given up.
    pub given_up: u64,
    /// Reservations that found no space.
    pub no_space: u64,
    /// Jobs given up because there was no space.
    pub refused: u64,
    /// Bytes reserved now.
    pub bytes_reserved: u64,
}

#[cfg(test)]
mod tests;
