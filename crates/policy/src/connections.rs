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
pub use choose::{Choice, Chooser, Direction, Part, Reason, Request, Use};
pub use link::{Action, Cause, Config as LinkConfig, Event, Link, State, usable};
pub use retry::{Operation, Sent, Verdict, verdict};
pub use width::{Config as WidthConfig, Width};

use std::fmt;
use std::str::FromStr;

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

/// Policy that chooses the connection of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Connection by the thread that opens the file: the thread's number modulo the connections (paper 001, algorithm
    /// 4.1).
    Single,
    /// Every operation on an open file takes the next connection (paper 001, algorithms 4.2 and 4.4).
    Multiple,
    /// Writes as [`Policy::Single`], reads as [`Policy::Multiple`] (paper 001, section 4.1.4).
    Automatic,
    /// The connection with the least load, by measurement. A written file stays on one unless several are measured to
    /// be faster. Reads go to a free one, and large operations are split over idle ones when that pays. Ours.
    #[default]
    Load,
}

impl Policy {
    /// Accepted words, for messages.
    pub const WORDS: &'static str = "single, multiple, automatic, load";

    /// Whether all bytes of an open file always go over one connection.
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

/// Path of file bytes on a connection that has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BytesOver {
    /// The file system's client library if it exists and was measured at the start to be faster; otherwise the mount.
    #[default]
    Auto,
    /// Always the mount.
    Mount,
    /// Always the client library.
    Library,
}

impl BytesOver {
    /// Accepted words, for messages.
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

/// Default limit on acknowledged bytes that the server does not have, of all files together.
pub const WRITE_BEHIND_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests;
