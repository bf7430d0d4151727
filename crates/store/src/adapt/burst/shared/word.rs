//! Messages between nodes about checkpoints.

use super::super::record::Marked;
use crate::control::BeginCheckpoint;
use policy::burst::admission::Verdict;
use serde::{Deserialize, Serialize};

/// Number of a file's requests and states: time of the first open, and a counter from then on.
pub type Number = (u64, u64);

/// Sender of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// Name under which the node receives messages.
    pub name: String,
    /// Number of the node.
    pub node: u32,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Name of the application.
    pub app: String,
    /// Label of the version.
    pub label: String,
    /// Path of the file.
    pub path: String,
    /// Inode of its stub, which is the same on all nodes.
    pub inode: u64,
}

/// State of a checkpoint's file on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// File that is described.
    pub of: Named,
    /// Number of this state; later states have larger numbers.
    pub number: Number,
    /// Whether the node may write the file. If not, all its writes are durable.
    pub writes: bool,
    /// Whether the file was truncated to nothing on that node.
    pub emptied: bool,
    /// Ranges whose latest write failed there, as first byte and end.
    pub missing: Vec<(u64, u64)>,
}

/// Reply to a held write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    Go,
    NoRoom,
    Closed,
}

impl From<Verdict> for Said {
    fn from(verdict: Verdict) -> Said {
        match verdict {
            Verdict::Go => Said::Go,
            Verdict::NoRoom => Said::NoRoom,
            Verdict::Closed => Said::Closed,
        }
    }
}

impl From<Said> for Verdict {
    fn from(said: Said) -> Verdict {
        match said {
            Said::Go => Verdict::Go,
            Said::NoRoom => Verdict::NoRoom,
            Said::Closed => Verdict::Closed,
        }
    }
}

/// A command that the deciding node serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// Begins a version.
    Begin(BeginCheckpoint),
    /// Completes a version, or abandons it.
    End(String, bool),
    /// Sets an application's time between failures, or its number of nodes.
    About(String, Option<u64>, Option<u64>),
    /// Lists the versions, of one application or of all.
    Rows(Option<String>),
    /// Lists the versions that an application may restart from.
    Restart(String),
    /// Recommends an interval between an application's checkpoints.
    Advice(String),
    /// Reports the state of the buffer.
    Status,
    /// Adds the marks of a job.
    Mark(String, Marked),
    /// Removes the marks of a job.
    Unmark(String),
}

/// Message about the burst buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    // Messages to the node that decides.
    /// Requests permission to write `bytes` bytes.
    Ask { by: By, stand: Stand, number: Number, bytes: u64 },
    /// Reports a file that is open for writing, or closed and durable.
    Stands { by: By, stand: Stand },
    /// Reports that the devices had no room for `bytes` bytes.
    Full { bytes: u64 },
    /// Reports an open for reading of a file that looks like an application's checkpoint.
    Reads { path: String, file: Option<u64> },
    /// Reports that the node's part of a version is durable, with the states of its files.
    Settled { by: By, number: u64, stands: Vec<Stand> },
    /// Acknowledges an announcement.
    Heard { by: By, number: u64 },
    // Messages from the node that decides.
    /// The request waits for its turn, or for room.
    Waits { path: String, number: Number },
    /// Decision on the request.
    Answer { path: String, number: Number, said: Said, direct: bool },
    /// Acknowledges the state of a file.
    Known { path: String, number: Number },
    /// Requests that the node's part of a version is made durable and its files' states are reported.
    Settle { by: By, number: u64, app: String, label: String },
    /// Reports that a version is complete, or abandoned.
    Over { app: String, label: String },
    /// Reports new announcements or marks.
    Announced { by: By, number: u64 },
}
