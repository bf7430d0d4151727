//! What the striper is told and says.

use super::Why;
use crate::ids::FileId;
use crate::pattern::Request;
use crate::stripe::forks::{Chooser, Shape};
use crate::stripe::performance::Served;
use crate::stripe::profile::Counts;
use crate::time::Time;

/// What the striper is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What was asked of a file since the last time, and by how many at a time.
    Asked {
        /// Which.
        file: FileId,
        /// By size.
        counts: Box<Counts>,
        /// How many have it open.
        users: u32,
        /// Its last requests, oldest first: up to a window of them.
        recent: Vec<Request>,
    },
    /// How a file lies.
    Lies {
        /// Which.
        file: FileId,
        /// Its copies, in the order of the layout.
        forks: Vec<Shape>,
        /// How many of them must stay for other reasons (at least 1).
        keep: usize,
        /// Its size.
        bytes: u64,
        /// Whether the driver may change it now.
        movable: bool,
        /// Whether an application has it open.
        open: bool,
    },
    /// A file is gone.
    Gone {
        /// Which.
        file: FileId,
    },
    /// Share of the space that is free.
    Space {
        /// From 0 to 1.
        free: f64,
    },
    /// What the devices did since the last time, if somebody measured what they should do.
    Served {
        /// Those of this machine.
        near: Served,
        /// Those behind a network.
        far: Served,
    },
    /// A change is over.
    Ended {
        /// Which file.
        file: FileId,
        /// Bytes copied; 0 if it failed or nothing was.
        bytes: u64,
        /// How long it took.
        took: Time,
    },
    /// Decide.
    Look,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// New files, and new segments of files without load, get this shape.
    Place {
        /// The shape.
        shape: Shape,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// One copy gets another shape.
    Restripe {
        /// Which file.
        file: FileId,
        /// Which copy.
        fork: usize,
        /// Its new shape.
        to: Shape,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// One more copy.
    AddFork {
        /// Of which file.
        file: FileId,
        /// Its shape.
        to: Shape,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// One copy less.
    DropFork {
        /// Of which file.
        file: FileId,
        /// Which copy.
        fork: usize,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// Reads of the file choose among its copies with this from now on.
    Route {
        /// Of which file.
        file: FileId,
        /// What chooses.
        by: Box<Chooser>,
    },
}
