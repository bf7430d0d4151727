//! What a target is told and says: its states, events, actions and reasons.

use crate::time::Time;
use std::fmt;

/// What a target may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It takes reads, writes and new objects.
    Ok,
    /// Everything that exists on it, but readers prefer other mirrors and new objects go elsewhere.
    Suspect,
    /// Nothing; every operation is refused at once.
    Failed,
    /// Everything that exists on it; no new objects, and the mover empties it.
    Draining,
    /// Reading what exists on it: it can be read and not written.
    ReadOnly,
}

impl State {
    /// Whether operations on existing objects are tried at all.
    pub fn accepts_io(self) -> bool {
        self != State::Failed
    }

    /// Whether new objects may be put on it.
    pub fn accepts_new_objects(self) -> bool {
        self == State::Ok
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Ok => "ok",
            State::Suspect => "suspect",
            State::Failed => "failed",
            State::Draining => "draining",
            State::ReadOnly => "read-only",
        })
    }
}

/// Limits of [`Health`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// So many probes in a row must fail before a doubted target is failed. At least 1.
    pub failed_probes_max: u32,
    /// A second miss within this span of the first fails the target.
    pub miss_window: Time,
    /// Span between two probes of a doubted target.
    pub probe_interval: Time,
    /// A probe without an answer counts as failed after this span.
    pub probe_deadline: Time,
    /// Span between probes of a target that is ok or draining; `None` probes only in doubt.
    pub routine_interval: Option<Time>,
    /// Whether a good probe is not enough while an operation still hangs.
    pub wait_for_hanging: bool,
    /// So many good probes in a row bring a failed target back; `None` leaves that to the operator.
    pub auto_restore: Option<u32>,
}

impl Default for Config {
    /// Guesses that suit a local disk and a network file system alike: a target that is gone is failed within seconds.
    fn default() -> Config {
        Config {
            failed_probes_max: 2,
            miss_window: Time::from_secs(60),
            probe_interval: Time::from_millis(500),
            probe_deadline: Time::from_secs(5),
            routine_interval: Some(Time::from_secs(10)),
            wait_for_hanging: true,
            auto_restore: None,
        }
    }
}

/// What happened to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation succeeded. Changes nothing; drivers may leave it out on the hot path.
    OpOk,
    /// An operation failed. `transient` for errors that say nothing about the target: those of the application, of
    /// space, of an object that is not there. See [`is_hard`].
    OpError {
        /// Whether health is not concerned.
        transient: bool,
    },
    /// An operation was refused because the target can only be read.
    ReadOnly,
    /// What was written could not be made durable.
    SyncFailed,
    /// An operation passed its deadline and still hangs.
    DeadlineMissed {
        /// When the operation began.
        started: Time,
    },
    /// An operation that had missed its deadline has returned after all.
    HangingReturned,
    /// A probe succeeded.
    ProbeOk,
    /// A probe could read and not write, or, where it was to sync, not sync.
    ProbeReadOnly,
    /// A probe failed or passed its own deadline.
    ProbeFailed,
    /// A probe could not be made, because the daemon lacked what it takes ([`is_shortage`]): says nothing of the
    /// target.
    ProbeNotMade,
    /// The operator failed the target.
    OperatorFail,
    /// The operator trusts the target again; ends failure, doubt and draining.
    OperatorRestore,
    /// The operator wants the target emptied.
    OperatorDrain,
    /// Time passed; to be sent at [`Health::next_deadline`].
    Tick,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look whether the target answers and is the one it was; answer with `ProbeOk`, `ProbeReadOnly` or `ProbeFailed`.
    /// While an earlier probe still hangs, answer `ProbeFailed` at once.
    Probe {
        /// What made the probe due.
        reason: Reason,
        /// Whether what the probe writes must be synced too: a sync failed, and only one that succeeds says that all is
        /// well.
        durable: bool,
    },
    /// The state changed; tell everybody who cares.
    Changed {
        /// The state until now.
        from: State,
        /// The state from now on.
        to: State,
        /// The event that led to it.
        reason: Reason,
    },
}

/// Why a probe is asked for or a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An operation passed its deadline.
    DeadlineMissed,
    /// Another operation passed its deadline soon after the first.
    MissedAgain,
    /// An operation failed with an error of the device.
    HardError,
    /// It can be read and not written.
    ReadOnly,
    /// What was written could not be made durable.
    SyncFailed,
    /// So many probes in a row failed.
    ProbesFailed(u32),
    /// So many probes in a row succeeded.
    ProbesOk(u32),
    /// It is time to look.
    Routine,
    /// The operator said so.
    Operator,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::DeadlineMissed => write!(f, "an operation got no answer within its deadline"),
            Reason::MissedAgain => write!(f, "a second operation got no answer within its deadline"),
            Reason::HardError => write!(f, "an operation failed with an error of the device"),
            Reason::ReadOnly => write!(f, "it can be read and not written"),
            Reason::SyncFailed => write!(f, "what was written could not be made durable"),
            Reason::ProbesFailed(n) => write!(f, "{n} probe(s) in a row failed"),
            Reason::ProbesOk(n) => write!(f, "{n} probe(s) in a row succeeded"),
            Reason::Routine => write!(f, "routine check"),
            Reason::Operator => write!(f, "the operator said so"),
        }
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations that passed their deadline.
    pub misses: u64,
    /// Operations that failed with an error of the device.
    pub hard_errors: u64,
    /// Operations that were refused because it can only be read.
    pub refused_writes: u64,
    /// Syncs that failed.
    pub failed_syncs: u64,
    /// Probes asked for.
    pub probes: u64,
    /// Probes that failed or got no answer.
    pub probes_failed: u64,
    /// Changes of state.
    pub changes: u64,
}
