//! Several connections to one storage server: which of them serves an operation, which of them can be trusted, and what may be
//! tried again on another.
//!
//! ```text
//!                       open: a Use per open file, with its home
//!   application -----> Chooser: one connection, or several with a part each -----> connection 0 .. n-1
//!                          ^                                                          |
//!                          |  usable?  Link (one per connection)  <--- failed, hangs, probe
//!                          +--- began, done: outstanding bytes, measured rate <-------+
//! ```
//! Each connection is a mount of the same directory, so that any of them can serve any operation; they differ in what is under way on
//! them. After "Mulconn" (paper 001, sections 4.1.3 and 4.1.4): thread-to-single, thread-to-multiple and automatic are its
//! policies; [`Policy::Load`] is ours.

mod behind;
mod choose;
mod link;
mod lone;
mod retry;
mod width;

pub use behind::{Behind, Config as BehindConfig, PieceId, Put};
pub use choose::{Choice, Chooser, Direction, Part, Reason, Request, Use};
pub use link::{Action, Cause, Config as LinkConfig, Event, Link, State, usable};
pub use retry::{Operation, Sent, Verdict, verdict};
pub use width::{Config as WidthConfig, Width};

use std::fmt;
use std::str::FromStr;

/// A connection, by its number from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u16);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// More connections than that to one server gain nothing.
pub const CONNECTIONS_MAX: u16 = 64;

/// What chooses the connection of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The thread that opens a file chooses its connection: the thread's number modulo the connections (paper 001, algorithm 4.1).
    Single,
    /// Every operation on an open file takes the next connection (paper 001, algorithms 4.2 and 4.4).
    Multiple,
    /// Writes as [`Policy::Single`], reads as [`Policy::Multiple`] (paper 001, section 4.1.4).
    Automatic,
    /// The connection with the least to do, by measure: a file that is written stays on one unless several are measured to be
    /// faster, reads go to whichever is free, and what is large is split over idle ones when that pays. Ours.
    #[default]
    Load,
}

impl Policy {
    /// All, as one may write them.
    pub const WORDS: &'static str = "single, multiple, automatic, load";

    /// Whether all bytes of an open file go over one connection, whatever is asked of it.
    pub fn keeps_to_one(self) -> bool {
        self == Policy::Single
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Single => "single",
            Policy::Multiple => "multiple",
            Policy::Automatic => "automatic",
            Policy::Load => "load",
        })
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(word: &str) -> Result<Policy, String> {
        Ok(match word {
            "single" | "thread-to-single" => Policy::Single,
            "multiple" | "thread-to-multiple" => Policy::Multiple,
            "automatic" => Policy::Automatic,
            "load" => Policy::Load,
            _ => return Err(format!("`{word}` is no policy for connections; choose one of {}", Policy::WORDS)),
        })
    }
}

/// Which way the bytes of files go, where a connection has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BytesOver {
    /// The file system's client library if it is there and was measured at the start to be faster; else the mount.
    #[default]
    Auto,
    /// The mount.
    Mount,
    /// The client library.
    Library,
}

impl BytesOver {
    /// All, as one may write them.
    pub const WORDS: &'static str = "auto, mount, library";
}

impl fmt::Display for BytesOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BytesOver::Auto => "auto",
            BytesOver::Mount => "mount",
            BytesOver::Library => "library",
        })
    }
}

impl FromStr for BytesOver {
    type Err = String;
    fn from_str(word: &str) -> Result<BytesOver, String> {
        Ok(match word {
            "auto" => BytesOver::Auto,
            "mount" => BytesOver::Mount,
            "library" => BytesOver::Library,
            _ => return Err(format!("`{word}` is no way for bytes; choose one of {}", BytesOver::WORDS)),
        })
    }
}

/// Bytes of all files together that are acknowledged before the server has them, unless somebody says otherwise.
pub const WRITE_BEHIND_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests;
