//! State of the connections, for users and programs.

use serde::{Deserialize, Serialize};

/// Name of the extended attribute of the mount point that holds the status as JSON; it is not listed.
pub const ATTRIBUTE: &str = "user.entrepot.connections";

/// State of one connection.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Connection {
    /// Number of the connection.
    pub number: u16,
    /// Server of the connection.
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
    /// Measured rate while busy, in bytes per second; 0 before the first measurement.
    pub rate_bytes_per_s: u64,
    /// Operations that ended with an error of the connection.
    pub failures: u64,
    /// Number of successful remounts.
    pub mounted_again: u64,
}

/// All connections of one mount point or target.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Status {
    /// Policy that chooses connections.
    pub policy: String,
    /// Type of the file system.
    pub kind: String,
    /// Path of the bytes: `mount` or `library`.
    #[serde(default)]
    pub bytes_over: String,
    /// Bytes that may be acknowledged before the server has them, of all files together; 0 disables write-behind.
    #[serde(default)]
    pub write_behind_bytes: u64,
    /// Connections, in order of their numbers.
    pub connections: Vec<Connection>,
}
