//! Events and actions of the burst buffer.

use super::Rates;
use super::{App, Demotion, Version};

/// Events that drivers report. Bytes are fractions, since data flows in the simulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An application requests to write a checkpoint of about `bytes` (0: unknown). `request` is unique.
    Arrive {
        /// The application that writes.
        app: App,
        /// Request number of the checkpoint.
        request: u64,
        /// Expected size of the checkpoint.
        bytes: f64,
    },
    /// A checkpoint needs more room than it requested.
    More {
        /// Request number of the checkpoint.
        request: u64,
        /// Additional bytes that it needs.
        bytes: f64,
    },
    /// A checkpoint no longer waits for room.
    Refused {
        /// Request number of the checkpoint.
        request: u64,
    },
    /// Bytes of a checkpoint were written.
    Wrote {
        /// Request number of the checkpoint.
        request: u64,
        /// Bytes written since the last report.
        bytes: f64,
    },
    /// A checkpoint pauses; another application may take the turn.
    Paused {
        /// Request number of the checkpoint.
        request: u64,
    },
    /// A paused checkpoint goes on.
    Again {
        /// Request number of the checkpoint.
        request: u64,
    },
    /// A checkpoint is complete and durable.
    Committed {
        /// Request number of the checkpoint.
        request: u64,
        /// Final size of the checkpoint.
        bytes: f64,
    },
    /// A checkpoint will never be complete, and its written bytes were removed.
    Abandoned {
        /// Request number of the checkpoint.
        request: u64,
    },
    /// The demotion under way is complete.
    Demoted,
    /// The demotion under way was given up.
    DemotionFailed,
    /// The version under way has its replica.
    Replicated,
    /// The version under way could not be copied to the replica group now.
    ReplicaFailed,
    /// An application restarts from its newest version.
    Restarted {
        /// The application that restarts.
        app: App,
    },
    /// Mean time between failures of an application.
    Mtbf {
        /// The application that fails.
        app: App,
        /// Mean time between failures, in seconds.
        mtbf_s: u64,
    },
    /// Checkpoint interval of an application, as its user declared it.
    Interval {
        /// The application that writes checkpoints.
        app: App,
        /// Seconds between two checkpoints.
        interval_s: u64,
    },
    /// A user removed a version.
    Removed {
        /// The removed version.
        version: Version,
    },
    /// Free space of the buffer's devices, which may be less than in the buffer's accounts: others write there, too.
    Free {
        /// Free bytes of the devices.
        bytes: f64,
    },
    /// The devices had no room for bytes that the buffer's accounts had room for.
    Full {
        /// Bytes that did not fit.
        bytes: f64,
    },
    /// State of the capacity tier.
    Capacity {
        /// Whether the tier accepts writes.
        usable: bool,
        /// Whether none of its devices has failed.
        whole: bool,
    },
    /// The copy in the buffer could not be deleted, because the one on the capacity tier cannot be read.
    DropFailed {
        /// The version that stays in the buffer.
        version: Version,
        /// Bytes of its copy in the buffer.
        bytes: u64,
    },
    /// A checkpoint returns granted room that the devices did not have, and waits for the room again.
    Back {
        /// Request number of the checkpoint.
        request: u64,
        /// Bytes of the returned room.
        bytes: f64,
    },
    /// Location of a version written before the driver was restarted. Sent in the order of writing, before all other
    /// events; it triggers no decision.
    Found {
        /// The version found.
        version: Version,
        /// Size of the version.
        bytes: u64,
        /// Whether the buffer holds a copy.
        in_buffer: bool,
        /// Whether the capacity tier holds a copy.
        on_capacity: bool,
        /// Whether it is on the capacity tier and lacks its replica.
        lacks_replica: bool,
    },
    /// State of the current period before the driver was restarted. It triggers no decision.
    Resumed {
        /// Bytes written in the period.
        dwsf: f64,
        /// Bytes expected in the period.
        dwpp: f64,
    },
    /// A period begins.
    Period,
    /// Time has passed; sent at the machine's deadline.
    Tick,
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The turn of a request, with its version and tier. Repeated if the tier changes before the request begins.
    Turn {
        /// Request number of the checkpoint.
        request: u64,
        /// The version that it writes.
        version: Version,
        /// Whether it is written directly to the capacity tier.
        direct: bool,
    },
    /// A request has the room that it requested.
    Go {
        /// Request number of the checkpoint.
        request: u64,
    },
    /// Copy a version to the capacity tier.
    Demote(Demotion),
    /// Delete the copy in the buffer; the capacity tier holds another.
    Drop {
        /// The version to delete.
        version: Version,
        /// Bytes that its copy takes in the buffer.
        bytes: u64,
    },
    /// Copy a version from the capacity tier to the replica group, at most at [`Action::ReplicaRate`]. The next one
    /// follows after the answer.
    Replicate {
        /// The version to copy.
        version: Version,
    },
    /// The version from which an application restarts, and its tier.
    Restart {
        /// The newest version of the application.
        version: Version,
        /// Whether the buffer holds it.
        hit: bool,
    },
    /// Rates of writing and demotion from now on.
    Rates(Rates),
    /// Rate of copies to the replica group from now on, in bytes per second.
    ReplicaRate(f64),
}
