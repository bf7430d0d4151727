//! The file servers of targets. The layer above the store connects to them, as the store makes no mounts.

use super::sections::ConnectionsConfig;
use crate::target::{Identity, Medium};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;

/// Connects to file servers.
pub trait FileServers: Send + Sync {
    /// Connects to those of a target; says why not, for people.
    fn reach(&self, target: &ConnectionsConfig) -> Result<Box<dyn FileServer>, String>;
}

/// File servers that were reached, with the directory that a target is made of.
pub trait FileServer {
    /// Returns the server's root directory.
    fn root(&self) -> Result<OwnedFd, Errno>;
    /// The target in it.
    fn medium(self: Box<Self>, identity: Identity) -> Arc<dyn Medium>;
}

/// For volumes of directories.
#[cfg(test)]
pub(crate) struct NoServers;

#[cfg(test)]
impl FileServers for NoServers {
    fn reach(&self, target: &ConnectionsConfig) -> Result<Box<dyn FileServer>, String> {
        Err(format!("nothing connects to {}", target.servers))
    }
}
