//! How a mount point with several connections behaves.

use crate::set::SetOptions;
pub use policy::connections::WRITE_BEHIND_BYTES;
use std::time::Duration;
use store::mount::front::REQUEST_BYTES_MAX;

/// Whether the kernel may read and write files by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passthrough {
    /// Where the policy keeps all bytes of a file on one connection: `single`.
    #[default]
    Auto,
    /// Never: every operation can be done again over another connection.
    Off,
}

/// How the mount point behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the connections behave.
    pub set: SetOptions,
    /// How long the kernel may believe a name.
    pub entry_timeout: Duration,
    /// How long the kernel may believe attributes.
    pub attr_timeout: Duration,
    /// Whether the kernel may read and write files by itself.
    pub passthrough: Passthrough,
    /// Bytes that are acknowledged before the server has them, of all files together; 0 for none.
    pub write_behind_bytes: u64,
    /// Shown as the source in `/proc/mounts`.
    pub name: String,
}

impl Options {
    pub(crate) fn passes_through(&self) -> bool {
        self.passthrough == Passthrough::Auto && self.set.policy.keeps_to_one()
    }

    /// So far that every connection has a request of a single reader.
    pub(crate) fn read_ahead_bytes(&self) -> u32 {
        REQUEST_BYTES_MAX * u32::from(self.set.connections.clamp(1, 16))
    }
}
