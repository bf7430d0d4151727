//! What the buffer is told, and what it says.

use super::Rates;
use super::{App, Demotion, Version};

/// What happened. Bytes are not whole numbers: in the simulator data flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An application wants to write a checkpoint of about so many bytes (0: nobody knows). `request` is unique.
    Arrive {
        /// Whose.
        app: App,
        /// Which.
        request: u64,
        /// Its bytes.
        bytes: f64,
    },
    /// It needs room for so many bytes beyond what it asked for.
    More {
        /// Which.
        request: u64,
        /// Bytes.
        bytes: f64,
    },
    /// It does not want the room any more that it waits for.
    Refused {
        /// Which.
        request: u64,
    },
    /// So many bytes of it were written.
    Wrote {
        /// Which.
        request: u64,
        /// Bytes.
        bytes: f64,
    },
    /// It has stopped writing for now; others may.
    Paused {
        /// Which.
        request: u64,
    },
    /// It goes on.
    Again {
        /// Which.
        request: u64,
    },
    /// It is complete and durable.
    Committed {
        /// Which.
        request: u64,
        /// Its bytes.
        bytes: f64,
    },
    /// It will never be complete; what was written of it is gone.
    Abandoned {
        /// Which.
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
        /// Which.
        app: App,
    },
    /// How long an application runs between failures.
    Mtbf {
        /// Which.
        app: App,
        /// Seconds.
        mtbf_s: u64,
    },
    /// How often an application writes a checkpoint, as its owner says.
    Interval {
        /// Which.
        app: App,
        /// Seconds from one to the next.
        interval_s: u64,
    },
    /// An application has ended: its versions go.
    Ended {
        /// Which.
        app: App,
    },
    /// A version was removed by its owner.
    Removed {
        /// Which.
        version: Version,
    },
    /// The buffer's devices have so much free space now, which may be less than the buffer thinks: others write there too.
    Free {
        /// Bytes.
        bytes: f64,
    },
    /// The buffer's devices had no room for so many bytes, though the buffer thought so.
    Full {
        /// Bytes.
        bytes: f64,
    },
    /// How the capacity tier is at present.
    Capacity {
        /// It takes something.
        usable: bool,
        /// None of its devices has failed.
        whole: bool,
    },
    /// The copy in the buffer could not be deleted: the one on the capacity tier cannot be read.
    DropFailed {
        /// Which version.
        version: Version,
        /// Its bytes.
        bytes: u64,
    },
    /// It gives back room that it got for so many bytes and has not used: there was less than the buffer thought. It waits for it again.
    Back {
        /// Which.
        request: u64,
        /// Bytes.
        bytes: f64,
    },
    /// A version that an earlier life of the driver knew: where it is. In the order in which they were written, and
    /// before anything else: nothing is decided with it.
    Found {
        /// Which.
        version: Version,
        /// Its bytes.
        bytes: u64,
        /// Whether it is in the buffer.
        in_buffer: bool,
        /// Whether it is on the capacity tier.
        on_capacity: bool,
        /// Whether it is there and lacks its replica.
        lacks_replica: bool,
    },
    /// The period under way, as an earlier life of the driver knew it. Nothing is decided with it.
    Resumed {
        /// Bytes written in it.
        dwsf: f64,
        /// Bytes expected in it.
        dwpp: f64,
    },
    /// A period begins.
    Period,
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// It is this request's turn; the version that it writes, and where. Once more if that changes before it begins.
    Turn {
        /// Which.
        request: u64,
        /// The version.
        version: Version,
        /// Whether it goes straight to the capacity tier.
        direct: bool,
    },
    /// It has the room that it asked for.
    Go {
        /// Which.
        request: u64,
    },
    /// Copy a version to the capacity tier.
    Demote(Demotion),
    /// Delete the copy in the buffer; there is another on the capacity tier.
    Drop {
        /// Which version.
        version: Version,
        /// Its bytes.
        bytes: u64,
    },
    /// Copy a version that has come to the capacity tier to the replica group, at the latest [`Action::ReplicaRate`]. Another follows
    /// when that is answered.
    Replicate {
        /// Which version.
        version: Version,
    },
    /// An application restarts: from which version, and whether it is in the buffer.
    Restart {
        /// The version.
        version: Version,
        /// Whether it is in the buffer.
        hit: bool,
    },
    /// Write and demote so fast from now on.
    Rates(Rates),
    /// Copy to the replica group so fast from now on, in bytes per second.
    ReplicaRate(f64),
}
