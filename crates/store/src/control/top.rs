//! What `top.get` answers: numbers that only grow, of whoever and whatever uses the volume. Who asks twice knows the rates.

use crate::stats::{TargetCounts, UserCounts};
use serde::{Deserialize, Serialize};

/// Files of one answer at most.
pub const FILES_MAX: usize = 1000;

/// Who and what uses a node of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Nanoseconds since the daemon started, where all but the files began to be counted.
    pub uptime_ns: u64,
    /// The name of the volume.
    pub volume: String,
    /// The host of the node that counts.
    pub host: String,
    /// Nodes that the volume has now. Each counts what is asked on it.
    pub nodes: u64,
    /// Whether all users and files are shown, or those of the caller.
    pub everybody: bool,
    /// What all users asked for, without saying who they are.
    pub all: UserCounts,
    /// What each asked for.
    pub users: Vec<UserCounts>,
    /// Open files, of which the most was asked since somebody looked last.
    pub files: Vec<FileCounts>,
    /// Whether these are all that the caller may see.
    pub all_files: bool,
    /// How many are open, of all users.
    pub open_files: u64,
    /// The names of the tiers, fastest first.
    pub tiers: Vec<String>,
    /// What was asked of each target.
    pub targets: Vec<TargetCounts>,
}

/// What was asked of one file since it was opened first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Its path below the mount's root; nothing where it has no name that is known here.
    pub path: Option<String>,
    /// Tells it from others as long as it is open.
    pub inode: u64,
    /// Its owner.
    pub uid: u32,
    /// How many bytes it has.
    pub size: u64,
    /// Where they lie, in a few words.
    pub layout: String,
    /// How often it is open.
    pub handles: u64,
    /// Reads and writes that were answered.
    pub ops: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Nanoseconds until they were answered, all together.
    pub total_ns: u64,
}
