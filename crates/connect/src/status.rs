//! What the connections do, for people and programs.

use serde::{Deserialize, Serialize};

/// The name of the extended attribute of the mount point that holds the status as JSON; it is in no list of attributes.
pub const ATTRIBUTE: &str = "user.entrepot.connections";

/// One connection.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Connection {
    /// Its number.
    pub number: u16,
    /// Where it leads.
    pub source: String,
    /// `in use`, `suspect`, `out`, `mounting`.
    pub state: String,
    /// Operations that ended.
    pub operations: u64,
    /// Bytes read over it.
    pub bytes_read: u64,
    /// Bytes written over it.
    pub bytes_written: u64,
    /// Bytes under way now.
    pub outstanding_bytes: u64,
    /// Mean time of an operation, in microseconds.
    pub latency_us: u64,
    /// Bytes per second that it was measured to carry while it was busy; 0 if not yet.
    pub rate_bytes_per_s: u64,
    /// Operations that ended with an error of the connection.
    pub failures: u64,
    /// Times it was mounted again.
    pub mounted_again: u64,
}

/// All connections of one mount point or target.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Status {
    /// Who chooses.
    pub policy: String,
    /// Type of the file system.
    pub kind: String,
    /// Which way bytes go: `mount`, or `library`.
    #[serde(default)]
    pub bytes_over: String,
    /// Bytes that may be acknowledged before the server has them, of all files together; 0 for none.
    #[serde(default)]
    pub write_behind_bytes: u64,
    /// One after the other.
    pub connections: Vec<Connection>,
}
