//! Requests between nodes about checkpoints.

use super::super::record::Marked;
use crate::control;
use policy::burst::admission::Verdict;
use serde::{Deserialize, Serialize};

/// Number of a file's states: time of the first open, and a counter from then on.
pub type Number = (u64, u64);

/// Sender of a request.
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
    /// Whether the file may have been written without the knowledge of the node that decides.
    #[serde(default)]
    pub unasked: bool,
}

/// Reply to a held write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    Go,
    NoRoom,
}

impl From<Said> for Verdict {
    fn from(said: Said) -> Verdict {
        match said {
            Said::Go => Verdict::Go,
            Said::NoRoom => Verdict::NoRoom,
        }
    }
}

/// A command that the deciding node serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// A request of a user.
    Control(control::Request),
    /// Adds the marks of a job.
    Mark(String, Marked),
    /// Removes the marks of a job.
    Unmark(String),
}

/// Request between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    // Requests to the node that decides.
    /// Requests permission to write `bytes` bytes. Answer: [`Granted`].
    Write { by: By, stand: Stand, bytes: u64 },
    /// Reports files that are open for writing, or closed and durable. Answer: for each, whether its version is over.
    Stands { by: By, stands: Vec<Stand> },
    /// Reports, without an answer, that the devices had no room for `bytes` bytes.
    Full { bytes: u64 },
    /// Reports, without an answer, an open for reading of a file that looks like an application's checkpoint.
    Reads { path: String, file: Option<u64> },
    // Requests from the node that decides.
    /// Makes the node's part of a version durable. Answer: the states of its files.
    Settle { app: String, label: String },
    /// Reports, without an answer, that a version is complete, or abandoned.
    Over { app: String, label: String },
    /// Reports new announcements or marks. Answer: nothing, once the node has read them.
    Announced,
}

/// Answer to a request to write: the decision, and whether the file goes straight to the capacity tier.
pub type Granted = (Said, bool);
