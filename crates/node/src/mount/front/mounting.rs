//! The mount of a file system, and the session that serves it.

use super::FileSystem;
use super::server::Front;
use crate::mount::attach::attach;
use crate::mount::mountpoint::detach;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use std::path::Path;
use std::sync::Arc;

/// Options of a mount.
pub struct Mounting<'a> {
    /// Absolute or relative path of the mount point.
    pub path: &'a Path,
    /// Second part of the type (`fuse.SUBTYPE`) in tables of mounts.
    pub subtype: &'a str,
    /// Source in tables of mounts.
    pub name: &'a str,
    /// Whether other users may use it.
    pub allow_other: bool,
    /// Threads that take requests.
    pub threads: usize,
}

/// Mounts a file system, and serves it on threads of its own.
pub fn serve<F: FileSystem>(fs: Arc<F>, mounting: &Mounting<'_>) -> std::io::Result<BackgroundSession> {
    let Mounting { path, subtype, name, allow_other, threads } = *mounting;
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName(name.into()), MountOption::Subtype(subtype.into()), MountOption::DefaultPermissions];
    config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(threads);
    config.clone_fd = true;
    let (front, acl) = (Front(fs), config.acl);
    let Some(device) = attach(path, &format!("fuse.{subtype}"), name, allow_other)? else {
        return Session::new(front, path, &config)?.spawn();
    };
    let served = Session::from_fd(front, device, acl, config).and_then(Session::spawn);
    served.inspect_err(|_| {
        // The mount has no server.
        if let Err(error) = detach(path) {
            tracing::warn!(%error, path = %path.display(), "a mount without a daemon cannot be detached");
        }
    })
}
