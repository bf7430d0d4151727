//! Names and attributes, passed on to the backing directory; `.stats` at the root shows the device's figures.

use super::Shared;
use crate::extents::BLOCK_BYTES;
use fuser::{FileAttr, Generation};
use meta::namespace::{NodeId, ROOT, Removed};
use node::mount::answer::Changes;
use node::mount::convert::{attributes, no_attributes};
use rustix::fs::{RenameFlags, StatVfs, fstat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::time::Duration;

/// Time that the kernel caches names and attributes: nothing else should change the backing directory.
pub(super) const TTL: Duration = Duration::from_secs(1);
/// Name of the virtual file.
const STATS_NAME: &str = ".stats";
/// Node number of the virtual file, which no file system uses.
pub(super) const STATS_ID: NodeId = u64::MAX - 1;

impl Shared {
    pub fn lookup(&self, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)> {
        if self.not_virtual(parent, name).is_err() {
            return Ok((no_attributes(STATS_ID), Generation(0)));
        }
        let (node, stat) = self.namespace.lookup(parent, name)?;
        Ok((attributes(node.id, &stat), Generation(node.generation())))
    }

    /// Returns `EEXIST` for the name of the virtual file.
    pub(super) fn not_virtual(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        if parent == ROOT && name == STATS_NAME { Err(Errno::EXIST) } else { Ok(()) }
    }

    pub fn stat(&self, id: NodeId) -> Result<FileAttr> {
        if id == STATS_ID {
            return Ok(no_attributes(STATS_ID));
        }
        let stat = match self.file(id) {
            Some(file) => fstat(&*file)?,
            None => self.namespace.stat(id)?,
        };
        Ok(attributes(id, &stat))
    }

    pub fn change(&self, id: NodeId, changes: &Changes) -> Result<()> {
        if id == STATS_ID {
            return Err(Errno::PERM);
        }
        if let Some(size) = changes.size {
            self.resize(id, size)?;
        }
        let file = self.file(id);
        let held = self.namespace.hold(id, file.as_ref().map(|file| file.as_fd()))?;
        if changes.sets_owner() {
            held.set_owner(changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            held.set_mode(mode)?;
        }
        if changes.sets_times() {
            held.set_times(changes.accessed, changes.modified)?;
        }
        Ok(())
    }

    pub fn unlink(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        self.not_virtual(parent, name).map_err(|_| Errno::PERM)?;
        self.removed(&self.namespace.unlink(parent, name)?);
        Ok(())
    }

    pub fn rename(&self, from: (NodeId, &OsStr), to: (NodeId, &OsStr), flags: RenameFlags) -> Result<()> {
        let allowed = [from, to].into_iter().try_for_each(|(parent, name)| self.not_virtual(parent, name));
        allowed.map_err(|_| Errno::PERM)?;
        if let Some(removed) = self.namespace.rename(from.0, from.1, to.0, to.1, flags)? {
            self.removed(&removed);
        }
        Ok(())
    }

    fn removed(&self, removed: &Removed) {
        if removed.last {
            self.gone(removed.id);
        }
    }

    pub fn space(&self) -> Result<StatVfs> {
        let names = self.namespace.space()?;
        let (total, free) = {
            let extents = self.extents.lock();
            (extents.bytes() / BLOCK_BYTES, extents.free_bytes() / BLOCK_BYTES)
        };
        Ok(StatVfs {
            f_blocks: total,
            f_bfree: free,
            f_bavail: free,
            f_bsize: BLOCK_BYTES,
            f_frsize: BLOCK_BYTES,
            ..names
        })
    }
}
