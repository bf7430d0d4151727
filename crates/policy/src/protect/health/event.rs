//! States, events, actions and reasons of a target's health.

use super::file_system::FileSystem;
use crate::named;
use crate::time::Time;
use std::fmt;

named! {
    /// Permitted uses of a target.
    #[derive(PartialOrd, Ord, Hash)]
    State default Ok {
        /// Reads, writes and new objects.
        Ok = "ok",
        /// Reads and writes of existing objects; readers prefer other mirrors, and new objects go elsewhere.
        Suspect = "suspect",
        /// No use; every operation is refused at once.
        Failed = "failed",
        /// Reads and writes of existing objects, no new objects; the mover empties the target.
        Draining = "draining",
        /// Reads of existing objects; writes are impossible.
        ReadOnly = "read-only",
    }
}

impl State {
    /// Whether operations on existing objects are attempted.
    pub fn accepts_io(self) -> bool {
        self != State::Failed
    }

    /// Whether new objects may be created on it.
    pub fn accepts_new_objects(self) -> bool {
        self == State::Ok
    }
}

/// Limits of [`super::Health`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of consecutive failed probes that fail a doubted target. At least 1.
    pub failed_probes_max: u32,
    /// Time after a miss within which a second miss fails the target.
    pub miss_window: Time,
    /// Interval between probes of a doubted target.
    pub probe_interval: Time,
    /// Time after which a probe without an answer counts as failed.
    pub probe_deadline: Time,
    /// Interval between probes of a target that is ok or draining; `None`: probes only in doubt.
    pub routine_interval: Option<Time>,
    /// Whether a good probe does not end the doubt while an operation hangs.
    pub wait_for_hanging: bool,
    /// Number of consecutive good probes that restore a failed target; `None`: the operator restores it.
    pub auto_restore: Option<u32>,
    /// Longest doubt of a target on a shared file system that does not answer; then the target fails as any other.
    pub away_max: Time,
}

impl Default for Config {
    /// Guesses for a local disk and a network file system alike: an unreachable target is failed within seconds.
    fn default() -> Config {
        Config {
            failed_probes_max: 2,
            miss_window: Time::from_secs(60),
            probe_interval: Time::from_millis(500),
            probe_deadline: Time::from_secs(5),
            routine_interval: Some(Time::from_secs(10)),
            wait_for_hanging: true,
            auto_restore: None,
            // A guess: longer than clients of shared file systems wait for a server that restarts (GlusterFS: 42 s).
            away_max: Time::from_secs(120),
        }
    }
}

/// Events of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation failed with an error of the target: not of the application, and no lack of space.
    OpError,
    /// A missing object. Either this is correct, or the target was emptied or replaced: a routine probe follows soon.
    ObjectMissing,
    /// A write was refused because the target is read-only.
    ReadOnly,
    /// Written data could not be made durable.
    SyncFailed,
    /// An operation passed its deadline and still hangs.
    DeadlineMissed {
        /// Start of the operation.
        started: Time,
    },
    /// An operation that had missed its deadline has returned.
    HangingReturned,
    /// A probe succeeded.
    ProbeOk,
    /// A probe could read but not write, or could not sync where required.
    ProbeReadOnly,
    /// A probe failed or passed its own deadline.
    ProbeFailed,
    /// A probe could not be made because the daemon lacked a resource. It has no meaning for the
    /// target.
    ProbeNotMade,
    /// State of its shared file system, as the targets on it show it; sent after each change.
    FileSystem(FileSystem),
    /// The operator failed the target.
    OperatorFail,
    /// The operator trusts the target again: ends failure, doubt and draining.
    OperatorRestore,
    /// The operator drains the target.
    OperatorDrain,
    /// Time passed; sent at [`crate::machine::Machine::next_deadline`].
    Tick,
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Check that the target answers and is the expected one; answer with `ProbeOk`, `ProbeReadOnly` or `ProbeFailed`.
    /// While an earlier probe hangs, answer `ProbeFailed` at once.
    Probe {
        /// Reason for the probe.
        reason: Reason,
        /// Whether the probe must sync its write: a sync failed, and only a successful one shows that the target is
        /// well.
        durable: bool,
    },
    /// The state changed; notify all components that use the target.
    Changed {
        /// The previous state.
        from: State,
        /// The new state.
        to: State,
        /// The event that caused the change.
        reason: Reason,
    },
}

/// Reason for a probe or a change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An operation passed its deadline.
    DeadlineMissed,
    /// Another operation passed its deadline soon after the first.
    MissedAgain,
    /// An operation failed with an error of the device.
    HardError,
    /// Reads succeed and writes fail.
    ReadOnly,
    /// Written data could not be made durable.
    SyncFailed,
    /// Number of consecutive failed probes.
    ProbesFailed(u32),
    /// Number of consecutive good probes.
    ProbesOk(u32),
    /// The routine interval has passed.
    Routine,
    /// An operator's command.
    Operator,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::DeadlineMissed => write!(f, "an operation got no answer within its deadline"),
            Reason::MissedAgain => write!(f, "a second operation got no answer within its deadline"),
            Reason::HardError => write!(f, "an operation failed with an error of the device"),
            Reason::ReadOnly => write!(f, "it can be read and not written"),
            Reason::SyncFailed => write!(f, "written bytes could not be made durable"),
            Reason::ProbesFailed(n) => write!(f, "{n} probe(s) in a row failed"),
            Reason::ProbesOk(n) => write!(f, "{n} probe(s) in a row succeeded"),
            Reason::Routine => write!(f, "routine check"),
            Reason::Operator => write!(f, "an order of the operator"),
        }
    }
}
