//! Events and actions of a volume.

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

/// Input of the volume's machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Event of a file.
    File(FileId, FileEvent),
    /// Event of the devices of the tiers, or of a slow copy: neither a file's nor a change's.
    Tiers(machine::Event),
    /// Event of the devices that files are striped over.
    Stripes(striper::Event),
    /// Event of a job.
    Job(replica::Event),
    /// A failed target is back or was replaced.
    TargetReturned(TargetId),
    /// Event of a checkpoint or of a write to it.
    Checkpoint(admission::Event),
    /// A version of a checkpoint from an earlier life of the driver. Sent in the order of writing, each after the
    /// layout of its files, and before any other event of checkpoints.
    Found {
        /// Version that was found.
        version: Version,
        /// Bytes of the version.
        bytes: u64,
        /// Files of it that still exist.
        files: Vec<FileId>,
    },
    /// A change is over.
    Done {
        /// Ticket of the change.
        ticket: Ticket,
        /// Outcome of the change.
        result: Outcome,
    },
    /// Time has passed.
    Tick,
}

/// Event of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum FileEvent {
    /// New layout. Sent before any other event of the file, and after each change of its layout, before
    /// [`Event::Done`].
    LaidOut(Lies),
    /// An application reads or writes part of one segment.
    Accessed {
        /// Index of the segment.
        segment: u64,
        /// Whether it reads or writes.
        region: Region,
        /// Bytes of the request that fall into the segment.
        bytes: u64,
        /// Whether it is the last segment of the request.
        ends_request: bool,
    },
    /// Requests of applications since the last event of this kind. Sent before the tick at which the stripe mechanism
    /// evaluates them.
    Asked {
        /// Requests by size.
        counts: Box<Counts>,
        /// Last requests, oldest first.
        recent: Vec<Request>,
    },
    /// The file is written for this checkpoint. Sent before the checkpoint is complete.
    Joins(u64),
    /// A target with a part of the file failed. Sent before the layout that results.
    Complained(TargetId),
    /// The file was removed.
    Removed,
}

/// Layout of a file, as far as the machines need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lies {
    /// Size of the file.
    pub bytes: u64,
    /// Number of open handles.
    pub users: u32,
    /// Tier of each segment of the mirror that is read, for segments that tiers may move. A segment on both tiers
    /// counts as slow.
    pub segments: Vec<Tier>,
    /// Segments among them with an object on a failed target.
    pub away: Vec<u64>,
    /// Its mirrors, in the order of the layout.
    pub mirrors: Vec<Mirror>,
    /// Whether a user requested this layout.
    pub asked_for: bool,
    /// Whether part of it lies on targets that are excluded from striping by load.
    pub elsewhere: bool,
}

/// One complete copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirror {
    /// Purpose of the mirror.
    pub purpose: Purpose,
    /// Shape of its stripes.
    pub shape: Shape,
    /// Whether all of it can be read.
    pub intact: bool,
}

/// Purpose of a mirror in a layout.
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

/// Number of a change under way.
pub type Ticket = u64;

/// How a change went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made.
    Made {
        /// Number of bytes copied.
        bytes: u64,
        /// Duration of the change.
        took: Time,
    },
    /// The change failed, and was undone.
    Failed,
    /// The change was undone, because the file is in use in a way that excludes it.
    Busy,
}

/// Output of the volume's machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Change a layout, and answer with [`Event::Done`].
    Change(Change),
    /// End the hold of a write.
    Release {
        /// Number of the write.
        write: u64,
        /// Decision about the write.
        verdict: Verdict,
    },
    /// Make the files of a checkpoint ready to be written; answer with [`admission::Event::Prepared`].
    Prepare {
        /// The checkpoint's request.
        request: u64,
        /// Whether it is written straight to the slow tier.
        direct: bool,
    },
    /// Set the rates of writes to and demotions from the burst buffer.
    SetRates(Rates),
    /// Set the rate of copies to the replica group, in bytes per second.
    SetReplicaRate(f64),
    /// Measure the space of the burst buffer's devices and look at the capacity tier; answer with
    /// [`crate::burst::buffer::Event`]s `Free` and `Capacity`.
    LookAtSpace,
    /// Layout of new files from now on.
    Place {
        /// Shape of new files.
        shape: Shape,
        /// Reason for that shape.
        why: Why,
    },
    /// Reads of a file choose among its mirrors by this chooser.
    Prefer {
        /// File that is read.
        file: FileId,
        /// Chooser among the mirrors.
        by: Box<Chooser>,
    },
}

/// A change of one file's layout. No other change of the file runs beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Ticket for the answer.
    pub ticket: Ticket,
    /// File to be changed.
    pub file: FileId,
    /// Kind of change.
    pub verb: Verb,
    /// The mechanism that requests it.
    pub by: Mechanism,
    /// Reason of that mechanism.
    pub reason: Reason,
    /// Pace towards applications, and the bytes of its steps; `None`: it does not yield.
    pub pace: Option<(Yielding, u64)>,
}

/// The verbs on a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    /// One mirror more.
    AddMirror {
        /// Purpose of the new mirror.
        purpose: Purpose,
        /// Its shape; `None`: as the file's first mirror.
        shape: Option<Shape>,
    },
    /// One mirror less.
    DropMirror(usize),
    /// A mirror gets another shape.
    Restripe {
        /// Index of the mirror.
        mirror: usize,
        /// New shape of the mirror.
        to: Shape,
    },
    /// A segment goes to the other tier.
    MoveSegment {
        /// Index of the segment.
        segment: u64,
        /// Tier that it goes to.
        to: Tier,
    },
    /// A segment on the fast tier gets a copy on the slow one, which is in no layout.
    CopySegment(u64),
    /// Objects of a mirror on failed targets are recreated on others.
    ReplaceTargets(usize),
    /// Objects of the file on a failed target and their counterparts in a replica, where complete, change places. Only
    /// the record changes; this may run beside another change of the file. A swap without effect is made as well: the
    /// target had a part of the replica only.
    Swap {
        /// The index of the replica.
        replica: usize,
        /// Target that failed.
        target: TargetId,
    },
    /// Objects of the file on a target are recreated on others, even if the target is back.
    ReplaceTarget(TargetId),
}

/// Why a layout is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The burst buffer needs a copy on the lower tier before it needs the room.
    Demote(tables::Reason),
    /// The burst buffer needs the room, or the version is superseded.
    BufferRoom,
    /// A checkpoint on the capacity tier lacks its copy in the replica group.
    LacksReplica,
    /// Heat or cold of the segment.
    Tier(tier::Reason),
    /// The devices are idle: when the segment is demoted, nothing needs to be moved.
    Idle,
    /// Load on the stripes of the file.
    Stripes(Why),
    /// A job that starts soon needs the file.
    Protect(CreateReason),
    /// No job needs the replica any longer.
    Unneeded(RemoveReason),
    /// Targets of a mirror failed; other mirrors are intact.
    Damaged {
        /// Number of intact mirrors.
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
