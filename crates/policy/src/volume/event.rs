//! What a volume is told, and what it says.

use super::ownership::Mechanism;
use crate::burst::admission;
use crate::burst::admission::Verdict;
use crate::burst::control::Rates;
use crate::burst::tables::{self, Version};
use crate::ids::{FileId, TargetId};
use crate::pattern::Request;
use crate::protect::failover;
use crate::protect::replica::{self, CreateReason, RemoveReason};
use crate::stripe::forks::{Chooser, Shape};
use crate::stripe::profile::Counts;
use crate::stripe::striper::{self, Why};
use crate::tier::machine;
use crate::tier::yielding::Yielding;
use crate::tier::{self, Region, Tier};
use crate::time::Time;
use std::fmt;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// To a file.
    File(FileId, FileEvent),
    /// To the devices of the tiers, or to a slow copy: neither a file's nor a change's event.
    Tiers(machine::Event),
    /// To the devices that files are striped over.
    Stripes(striper::Event),
    /// To a job.
    Job(replica::Event),
    /// A target that failed is back, or another is in its place.
    TargetReturned(TargetId),
    /// To a checkpoint or a write of it.
    Checkpoint(admission::Event),
    /// A version of a checkpoint that an earlier life of the driver knew. In the order in which they were written, each
    /// after how its files lie, and before anything else of checkpoints.
    Found {
        /// The version.
        version: Version,
        /// Its bytes.
        bytes: u64,
        /// Its files that are still there.
        files: Vec<FileId>,
    },
    /// A change is over.
    Done {
        /// Which.
        ticket: Ticket,
        /// How it went.
        result: Outcome,
    },
    /// Time has passed.
    Tick,
}

/// What happened to a file.
#[derive(Clone, Debug, PartialEq)]
pub enum FileEvent {
    /// It lies so now. Told before anything else of it, and after each change of its layout, before [`Event::Done`].
    LaidOut(Lies),
    /// An application reads or writes some of one segment.
    Accessed {
        /// The segment.
        segment: u64,
        /// Whether it reads or writes.
        region: Region,
        /// Bytes of the request that fall into the segment.
        bytes: u64,
    },
    /// What applications asked of it since the last time, before the tick with which stripes look.
    Asked {
        /// By size.
        counts: Box<Counts>,
        /// Its last requests, oldest first.
        recent: Vec<Request>,
    },
    /// It is written for this checkpoint. Told before that is complete.
    Joins {
        /// The checkpoint's request.
        request: u64,
    },
    /// A target that some of it lies on failed. Told before how it lies since then.
    Complained {
        /// The target.
        target: TargetId,
    },
    /// It is gone.
    Removed,
}

/// How a file lies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lies {
    /// Its size.
    pub bytes: u64,
    /// How many have it open.
    pub users: u32,
    /// The tier of each segment that tiers may move, of the mirror that is read; of one that lies on both: slow.
    pub segments: Vec<Tier>,
    /// Its mirrors, in the order of the layout.
    pub mirrors: Vec<Mirror>,
    /// Whether somebody asked for this layout.
    pub asked_for: bool,
    /// Whether some of it lies on targets that files are not striped over by load.
    pub elsewhere: bool,
}

/// One complete copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirror {
    /// What it is there for.
    pub purpose: Purpose,
    /// How it is striped.
    pub shape: Shape,
    /// Whether all of it can be read.
    pub intact: bool,
}

/// What a mirror is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It holds the data.
    Data,
    /// It was copied out of the burst buffer.
    Demoted,
    /// It protects the input of a job.
    Replica,
    /// It is a checkpoint's copy in the replica group.
    Group,
    /// It is striped for other requests.
    Fork,
}

/// Names a change under way.
pub type Ticket = u64;

/// How a change went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is made.
    Made {
        /// Bytes copied.
        bytes: u64,
        /// How long it took.
        took: Time,
    },
    /// Nothing of it is left.
    Failed,
    /// The same: the file is in use in a way that excludes the change.
    Busy,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Change a layout, and answer with [`Event::Done`].
    Change(Change),
    /// A held write is held no longer.
    Release {
        /// The write.
        write: u64,
        /// What becomes of it.
        verdict: Verdict,
    },
    /// Make the files of a checkpoint ready to be written; answer with [`admission::Event::Prepared`].
    Prepare {
        /// The checkpoint's request.
        request: u64,
        /// Whether it is written straight to the slow tier.
        direct: bool,
    },
    /// Write to and demote from the burst buffer so fast.
    SetRates(Rates),
    /// Copy to the replica group so fast, in bytes per second.
    SetReplicaRate(f64),
    /// Measure the space of the burst buffer's devices and look at the capacity tier; answer with
    /// [`crate::burst::buffer::Event`]s `Free` and `Capacity`.
    LookAtSpace,
    /// New files lie so.
    Place {
        /// Their shape.
        shape: Shape,
        /// Why.
        why: Why,
    },
    /// Reads of a file choose among its mirrors with this.
    Prefer {
        /// The file.
        file: FileId,
        /// What chooses.
        by: Box<Chooser>,
    },
}

/// A change of one file's layout. No other is made of the file meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Its name.
    pub ticket: Ticket,
    /// The file.
    pub file: FileId,
    /// What is changed.
    pub verb: Verb,
    /// The mechanism that wants it.
    pub by: Mechanism,
    /// Why.
    pub reason: Reason,
    /// How it yields to applications, and the bytes of its steps; `None`: it does not.
    pub pace: Option<(Yielding, u64)>,
}

/// The verbs on a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    /// One mirror more.
    AddMirror {
        /// What for.
        purpose: Purpose,
        /// Its shape; `None`: as the file's first mirror.
        shape: Option<Shape>,
    },
    /// One mirror less.
    DropMirror {
        /// Its index.
        mirror: usize,
    },
    /// A mirror gets another shape.
    Restripe {
        /// Its index.
        mirror: usize,
        /// The shape.
        to: Shape,
    },
    /// A segment goes to the other tier.
    MoveSegment {
        /// Its index.
        segment: u64,
        /// Where to.
        to: Tier,
    },
    /// A segment on the fast tier gets a copy on the slow one, which is in no layout.
    CopySegment {
        /// Its index.
        segment: u64,
    },
    /// What a mirror has on failed targets is made anew on others.
    ReplaceTargets {
        /// Its index.
        mirror: usize,
    },
    /// What the file has on a failed target and its counterparts in a replica, where they are complete, change places.
    /// Only the record changes; it is made while something else of the file is changed. One that changes nothing, since
    /// the target had a part of the replica alone, is made as well.
    Swap {
        /// The index of the replica.
        replica: usize,
        /// The target.
        target: TargetId,
    },
    /// What the file has on a target is made anew on others, also if the target is back.
    ReplaceTarget {
        /// The target.
        target: TargetId,
    },
}

/// Why a layout is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The burst buffer needs a copy below before it needs the room.
    Demote(tables::Reason),
    /// The burst buffer needs the room, or the version is superseded.
    BufferRoom,
    /// A checkpoint on the capacity tier lacks its copy in the replica group.
    LacksReplica,
    /// Of heat and cold.
    Tier(tier::Reason),
    /// The devices are idle: when the segment is demoted, nothing needs to be moved.
    Idle,
    /// Of the load on its stripes.
    Stripes(Why),
    /// A job that starts soon needs it.
    Protect(CreateReason),
    /// No job needs the replica any longer.
    Unneeded(RemoveReason),
    /// Targets of it failed, and so many mirrors are intact.
    Damaged {
        /// Intact mirrors.
        intact: usize,
    },
    /// A target failed, and the file has a replica.
    Failover(failover::Reason),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Demote(why) => write!(f, "a checkpoint leaves the burst buffer: {why}"),
            Reason::BufferRoom => f.write_str("the burst buffer needs its room"),
            Reason::LacksReplica => f.write_str("a checkpoint lacks its copy in the replica group"),
            Reason::Tier(why) => write!(f, "{why}"),
            Reason::Idle => f.write_str("the devices are idle"),
            Reason::Stripes(why) => write!(f, "{why}"),
            Reason::Protect(why) => write!(f, "a job needs it: {why}"),
            Reason::Unneeded(why) => write!(f, "no job needs its replica: {why}"),
            Reason::Failover(why) => write!(f, "{why}"),
            Reason::Damaged { intact } => write!(f, "targets of it failed; intact mirrors: {intact}"),
        }
    }
}
