//! Options of a mount point with several connections.

use crate::set::SetOptions;
use node::mount::front::REQUEST_BYTES_MAX;
pub use policy::connections::WRITE_BEHIND_BYTES;
use std::time::Duration;

/// Options of a mount point.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the connections.
    pub set: SetOptions,
    /// Time that the kernel caches names and attributes.
    pub timeout: Duration,
    /// Whether files are passed through where the policy keeps all their bytes on one connection (`single`). Without
    /// passthrough every operation can be repeated over another connection.
    pub passthrough: bool,
    /// Bytes that may be acknowledged before the server has them, of all files together; 0 disables write-behind.
    pub write_behind_bytes: u64,
    /// Source shown in `/proc/mounts`.
    pub name: String,
}

impl Options {
    pub(crate) fn passes_through(&self) -> bool {
        self.passthrough && self.set.policy.keeps_to_one()
    }

    /// Read-ahead that gives every connection one request of a single reader.
    pub(crate) fn read_ahead_bytes(&self) -> u32 {
        REQUEST_BYTES_MAX * u32::from(self.set.connections.clamp(1, 16))
    }
}
