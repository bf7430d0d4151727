//! Answer of `top.get`: monotonic counters of the users and files of the volume. Two answers give the rates.

use engine::stats::{TargetCounts, UserCounts};
use serde::{Deserialize, Serialize};

/// Maximum of files in one answer.
pub const FILES_MAX: usize = 1000;

/// Users and files of one node of a volume, with their counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// Time of the answer, in milliseconds since 1970.
    pub at_ms: u64,
    /// Nanoseconds since the daemon started. All counters except those of files begin at that time.
    pub uptime_ns: u64,
    /// The name of the volume.
    pub volume: String,
    /// Host of the node that counted.
    pub host: String,
    /// Number of nodes of the volume. Each node counts its own operations.
    pub nodes: u64,
    /// Whether all users and files are shown, or only those of the caller.
    pub everybody: bool,
    /// Operations of all users together, without names.
    pub all: UserCounts,
    /// Operations of each user.
    pub users: Vec<UserCounts>,
    /// The open files with the most operations since the operator's last request.
    pub files: Vec<FileCounts>,
    /// Whether `files` has all files that the caller may see.
    pub all_files: bool,
    /// Number of open files of all users.
    pub open_files: u64,
    /// The names of the tiers, fastest first.
    pub tiers: Vec<String>,
    /// Operations on each target.
    pub targets: Vec<TargetCounts>,
}

/// Counters of one file since its first open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Path below the mount's root; none where no name is known to this node.
    pub path: Option<String>,
    /// Identifies the file while it is open.
    pub inode: u64,
    /// User id of the owner.
    pub uid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Layout of the file, in a few words.
    pub layout: String,
    /// Number of open handles.
    pub handles: u64,
    /// Reads and writes that were answered.
    pub ops: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Latency of all operations together, in nanoseconds.
    pub total_ns: u64,
}
