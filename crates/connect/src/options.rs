//! Options of a mount point with several connections.

use crate::set::SetOptions;
use node::mount::front::REQUEST_BYTES_MAX;
pub use policy::connections::WRITE_BEHIND_BYTES;
use std::time::Duration;

/// Use of FUSE passthrough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passthrough {
    /// On where the policy keeps all bytes of a file on one connection: `single`.
    #[default]
    Auto,
    /// Off: every operation can be repeated over another connection.
    Off,
}

/// Options of a mount point.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the connections.
    pub set: SetOptions,
    /// Time that the kernel caches a name.
    pub entry_timeout: Duration,
    /// Time that the kernel caches attributes.
    pub attr_timeout: Duration,
    /// Use of FUSE passthrough.
    pub passthrough: Passthrough,
    /// Bytes that may be acknowledged before the server has them, of all files together; 0 disables write-behind.
    pub write_behind_bytes: u64,
    /// Source shown in `/proc/mounts`.
    pub name: String,
}

impl Options {
    pub(crate) fn passes_through(&self) -> bool {
        self.passthrough == Passthrough::Auto && self.set.policy.keeps_to_one()
    }

    /// Read-ahead that gives every connection one request of a single reader.
    pub(crate) fn read_ahead_bytes(&self) -> u32 {
        REQUEST_BYTES_MAX * u32::from(self.set.connections.clamp(1, 16))
    }
}
