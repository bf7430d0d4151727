//! Several connections to one storage server: choice, health, and retries on another connection.
//!
//! ```text
//!                       open: a Use per open file, with its home
//!   application -----> Chooser: one connection, or several with a part each -----> connection 0 .. n-1
//!                          ^                                                          |
//!                          |  usable?  Link (one per connection)  <--- failed, hangs, probe
//!                          +--- began, done: outstanding bytes, measured rate <-------+
//! ```
//! Each connection is a mount of the same directory, so any of them can serve any operation; they differ in their load.
//! After "Mulconn" (paper 001, sections 4.1.3 and 4.1.4): thread-to-single, thread-to-multiple and automatic are its
//! policies; [`Policy::Load`] is ours.

mod behind;
mod choose;
mod link;
mod lone;
mod retry;
mod width;

pub use behind::{Behind, Config as BehindConfig, PieceId, Put};
pub use choose::{Choice, Chooser, Direction, Part, Request, Use};
pub use link::{Action, Cause, Config as LinkConfig, Event, Link, State, usable};
pub use retry::{Operation, Sent, Verdict, verdict};
pub use width::{Config as WidthConfig, Width};

use crate::named;
use std::fmt;

/// Number of a connection, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u16);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Limit on the connections to one server. More gain nothing, and a set of 64 fits into one word.
pub const CONNECTIONS_MAX: u16 = 64;

named! {
    /// Policy that chooses the connection of an operation.
    Policy default Load {
        /// Connection by the thread that opens the file: the thread's number modulo the connections (paper 001,
        /// algorithm 4.1).
        Single = "single" | "thread-to-single",
        /// Every operation on an open file takes the next connection (paper 001, algorithms 4.2 and 4.4).
        Multiple = "multiple" | "thread-to-multiple",
        /// Writes as [`Policy::Single`], reads as [`Policy::Multiple`] (paper 001, section 4.1.4).
        Automatic = "automatic",
        /// The connection with the least load, by measurement. A written file stays on one unless several are measured
        /// to be faster. Reads go to a free one, and large operations are split over idle ones when that pays. Ours.
        Load = "load",
    }
}

impl Policy {
    /// Whether all bytes of an open file always go over one connection.
    pub fn keeps_to_one(self) -> bool {
        self == Policy::Single
    }
}

named! {
    /// Path of file bytes on a connection that has two.
    BytesOver default Auto {
        /// The file system's client library if it exists and was measured at the start to be faster; else the mount.
        Auto = "auto",
        /// Always the mount.
        Mount = "mount",
        /// Always the client library.
        Library = "library",
    }
}

/// Default limit on acknowledged bytes that the server does not have, of all files together.
pub const WRITE_BEHIND_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests;
