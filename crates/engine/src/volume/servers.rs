//! The file servers of targets. The layer above the store connects to them, as the store makes no mounts.

use super::sections::ConnectionsConfig;
use object::target::{Identity, Medium};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;

/// Connects to file servers.
pub trait FileServers: Send + Sync {
    /// Connects to the servers of a target. The error is a cause for people.
    fn reach(&self, target: &ConnectionsConfig) -> Result<Box<dyn FileServer>, String>;
}

/// Connected file servers, with the directory of a target.
pub trait FileServer {
    /// Returns the server's root directory.
    fn root(&self) -> Result<OwnedFd, Errno>;
    /// Returns the target as a medium.
    fn medium(self: Box<Self>, identity: Identity) -> Arc<dyn Medium>;
}

/// Implementation for volumes of directories.
#[cfg(any(test, feature = "doubles"))]
pub struct NoServers;

#[cfg(any(test, feature = "doubles"))]
impl FileServers for NoServers {
    fn reach(&self, target: &ConnectionsConfig) -> Result<Box<dyn FileServer>, String> {
        Err(format!("nothing connects to {}", target.servers))
    }
}
