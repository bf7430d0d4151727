//! Names and attributes, passed on to the backing directory; `.stats` at the root shows what the device did.

use super::Shared;
use crate::extents::BLOCK_BYTES;
use fuser::{
    FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs,
};
use parking_lot::Mutex;
use rustix::fs::{RenameFlags, Stat, XattrFlags, fstat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use store::mount::answer::{self, Changes, Ttl};
use store::mount::convert::{attributes, errno};
use store::namespace::{Namespace, Node, NodeId, ROOT, Removed};

/// How long the kernel may believe names and attributes: nobody else is to change the backing directory.
pub(super) const TTL: Duration = Duration::from_secs(1);
/// Name of the virtual file.
const STATS_NAME: &str = ".stats";
/// Its node number, which no file system gives.
pub(super) const STATS_ID: NodeId = u64::MAX - 1;

impl Shared {
    pub fn lookup(&self, parent: NodeId, name: &OsStr, reply: ReplyEntry) {
        if parent == ROOT && name == STATS_NAME {
            return reply.entry(&TTL, &stats_attributes(), Generation(0));
        }
        found(self.namespace.lookup(parent, name), reply);
    }

    /// Makes something that gets a name.
    pub fn make(
        &self,
        parent: NodeId,
        name: &OsStr,
        reply: ReplyEntry,
        make: impl FnOnce(&Namespace) -> Result<(Arc<Node>, Stat)>,
    ) {
        found(self.not_virtual(parent, name).and_then(|()| make(&self.namespace)), reply);
    }

    /// The virtual file's name is taken.
    pub(super) fn not_virtual(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        if parent == ROOT && name == STATS_NAME { Err(Errno::EXIST) } else { Ok(()) }
    }

    fn stat(&self, id: NodeId) -> Result<FileAttr> {
        if id == STATS_ID {
            return Ok(stats_attributes());
        }
        let stat = match self.file(id) {
            Some(file) => fstat(&*file)?,
            None => self.namespace.stat(id)?,
        };
        Ok(attributes(id, &stat))
    }

    pub fn getattr(&self, id: NodeId, reply: ReplyAttr) {
        match self.stat(id) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn set_attributes(&self, id: NodeId, changes: &Changes, reply: ReplyAttr) {
        let changed = self.change(id, changes).and_then(|()| self.stat(id));
        match changed {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn change(&self, id: NodeId, changes: &Changes) -> Result<()> {
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

    pub fn unlink(&self, parent: NodeId, name: &OsStr, reply: ReplyEmpty) {
        let virtual_file = self.not_virtual(parent, name).map_err(|_| Errno::PERM);
        let removed = virtual_file.and_then(|()| self.namespace.unlink(parent, name));
        answer::done(removed.map(|removed| self.removed(&removed)), reply);
    }

    pub fn rename(&self, from: (NodeId, &OsStr), to: (NodeId, &OsStr), flags: fuser::RenameFlags, reply: ReplyEmpty) {
        let flags = RenameFlags::from_bits_retain(flags.bits());
        let allowed = [from, to].into_iter().try_for_each(|(parent, name)| self.not_virtual(parent, name));
        let renamed =
            allowed.map_err(|_| Errno::PERM).and_then(|()| self.namespace.rename(from.0, from.1, to.0, to.1, flags));
        let done = renamed.map(|replaced| {
            if let Some(removed) = replaced {
                self.removed(&removed);
            }
        });
        answer::done(done, reply);
    }

    fn removed(&self, removed: &Removed) {
        if removed.last {
            self.gone(removed.id);
        }
    }

    pub fn open_directory(&self, id: NodeId, reply: ReplyOpen) {
        match self.namespace.list(id) {
            Ok(listing) => {
                let number = self.directories.insert(Arc::new(Mutex::new(listing)));
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn read_directory(&self, handle: FileHandle, mut offset: u64, mut reply: ReplyDirectory) {
        let listing = self.directories.get(handle.0).ok_or(Errno::BADF);
        let filled = listing.and_then(|it| answer::fill(&mut it.lock(), &self.namespace, &mut offset, &mut reply));
        match filled {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn sync_directory(&self, handle: FileHandle) -> Result<()> {
        let listing = self.directories.get(handle.0).ok_or(Errno::BADF)?;
        if self.sync { listing.lock().sync() } else { Ok(()) }
    }

    pub fn space(&self, reply: ReplyStatfs) {
        let names = match self.namespace.space() {
            Ok(names) => names,
            Err(error) => return reply.error(errno(error)),
        };
        let (total, free) = {
            let extents = self.extents.lock();
            (extents.bytes() / BLOCK_BYTES, extents.free_bytes() / BLOCK_BYTES)
        };
        let name_max = u32::try_from(names.f_namemax).unwrap_or(255);
        let block = BLOCK_BYTES as u32;
        reply.statfs(total, free, free, names.f_files, names.f_ffree, block, name_max, block);
    }

    pub fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        if id == STATS_ID {
            return Err(Errno::NODATA);
        }
        self.namespace.attribute(id, name)
    }

    pub fn attributes(&self, id: NodeId) -> Result<Vec<u8>> {
        if id == STATS_ID { Ok(Vec::new()) } else { self.namespace.attributes(id) }
    }

    pub fn set_attribute(&self, id: NodeId, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        if id == STATS_ID {
            return Err(Errno::PERM);
        }
        self.namespace.set_attribute(id, name, value, XattrFlags::from_bits_retain(flags as u32))
    }

    pub fn remove_attribute(&self, id: NodeId, name: &OsStr) -> Result<()> {
        if id == STATS_ID {
            return Err(Errno::PERM);
        }
        self.namespace.remove_attribute(id, name)
    }
}

/// Answers with a node whose reference was counted.
fn found(made: Result<(Arc<Node>, Stat)>, reply: ReplyEntry) {
    answer::entry(made, Ttl { entry: TTL, attr: TTL }, |id, stat| attributes(id, &stat), reply);
}

fn stats_attributes() -> FileAttr {
    FileAttr {
        ino: INodeNo(STATS_ID),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0o444,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
