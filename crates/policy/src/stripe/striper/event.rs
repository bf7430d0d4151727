//! Events and actions of the striper.

use super::Why;
use crate::ids::FileId;
use crate::pattern::Request;
use crate::stripe::forks::{Chooser, Shape};
use crate::stripe::performance::Served;
use crate::stripe::profile::Counts;
use crate::time::Time;

/// Events that drivers report.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Requests on a file since the last report, and the number of its open handles.
    Asked {
        /// The file that was read or written.
        file: FileId,
        /// Requests by size class.
        counts: Box<Counts>,
        /// Number of open handles.
        users: u32,
        /// Its last requests, oldest first: at most one window.
        recent: Vec<Request>,
    },
    /// Current layout of a file.
    Lies {
        /// The file with this layout.
        file: FileId,
        /// Its copies, in the order of the layout.
        forks: Vec<Shape>,
        /// Copies that must stay for other reasons (at least 1).
        keep: usize,
        /// Size of the file.
        bytes: u64,
        /// Whether the driver may change the layout now.
        movable: bool,
        /// Whether an application has it open.
        open: bool,
    },
    /// A file was removed.
    Gone(FileId),
    /// Free share of the space.
    Space(f64),
    /// Measured performance of the devices since the last report, if their nominal performance is known.
    Served {
        /// Devices of this machine.
        near: Served,
        /// Devices behind a network.
        far: Served,
    },
    /// A change has ended.
    Ended {
        /// The changed file.
        file: FileId,
        /// Bytes copied; 0 if the change failed or copied nothing.
        bytes: u64,
        /// Duration of the change.
        took: Time,
    },
    /// Time for the next decisions.
    Look,
}

/// Actions that the driver carries out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Shape of new files, and of new segments of files without load.
    Place {
        /// Shape from now on.
        shape: Shape,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// Give one copy another shape.
    Restripe {
        /// The file to change.
        file: FileId,
        /// Index of the copy.
        fork: usize,
        /// Its new shape.
        to: Shape,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// Add one copy.
    AddFork {
        /// The file to copy.
        file: FileId,
        /// Shape of the new copy.
        to: Shape,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// Remove one copy.
    DropFork {
        /// The file that loses a copy.
        file: FileId,
        /// Index of the copy.
        fork: usize,
        /// The cause, and the numbers behind it.
        why: Why,
    },
    /// Choose among the copies of a file with this for all reads from now on.
    Route {
        /// The file that is read.
        file: FileId,
        /// Chooser among the copies.
        by: Box<Chooser>,
    },
}
