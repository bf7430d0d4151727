//! What a volume is told, and what it says.

use super::ownership::Mechanism;
use crate::burst::admission;
use crate::burst::admission::Verdict;
use crate::burst::control::Rates;
use crate::burst::tables;
use crate::ids::FileId;
use crate::protect::replica::{self, CreateReason, RemoveReason};
use crate::stripe::forks::{Chooser, Shape};
use crate::stripe::striper::Why;
use crate::tier::{self, Region, Tier};
use crate::time::Time;
use std::fmt;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// To a file.
    File(FileId, FileEvent),
    /// Nobody uses a tier's devices now.
    Idle(Tier),
    /// Somebody does.
    Busy(Tier),
    /// To a job.
    Job(replica::Event),
    /// To a checkpoint or a write of it.
    Checkpoint(admission::Event),
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
    /// It lies so now. Told after each change of its layout, before [`Event::Done`].
    LaidOut(Lies),
    /// An application has opened it.
    Opened,
    /// An application has closed it.
    Closed,
    /// An application reads or writes some of one segment.
    Accessed {
        /// The segment.
        segment: u64,
        /// Whether it reads or writes.
        region: Region,
        /// Bytes of the request that fall into the segment.
        bytes: u64,
    },
    /// It is written for this checkpoint.
    Joins {
        /// The checkpoint's request.
        request: u64,
    },
    /// It is gone.
    Removed,
}

/// How a file lies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lies {
    /// Its size.
    pub bytes: u64,
    /// The tier of each segment of its first mirror; of one that lies on both: slow.
    pub segments: Vec<Tier>,
    /// Its mirrors, in the order of the layout.
    pub mirrors: Vec<Mirror>,
    /// Whether somebody asked for this layout.
    pub asked_for: bool,
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
    /// What a mirror has on failed targets is made anew on others.
    ReplaceTargets {
        /// Its index.
        mirror: usize,
    },
}

/// Why a layout is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The burst buffer needs a copy below before it needs the room.
    Demote(tables::Reason),
    /// The burst buffer needs the room, or the version is superseded.
    BufferRoom,
    /// Of heat and cold.
    Tier(tier::Reason),
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
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Demote(why) => write!(f, "a checkpoint leaves the burst buffer: {why:?}"),
            Reason::BufferRoom => f.write_str("the burst buffer needs its room"),
            Reason::Tier(why) => write!(f, "{why}"),
            Reason::Stripes(why) => write!(f, "{why}"),
            Reason::Protect(why) => write!(f, "a job needs it: {why:?}"),
            Reason::Unneeded(why) => write!(f, "no job needs its replica: {why:?}"),
            Reason::Damaged { intact } => write!(f, "targets of it failed; intact mirrors: {intact}"),
        }
    }
}
