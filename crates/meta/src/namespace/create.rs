//! New inodes and new names.

use super::Namespace;
use super::credentials::{Caller, as_caller};
use super::node::{Node, NodeId, ROOT};
use super::remove::TRIES;
use crate::places::Places;
use crate::stub::real::number_at;
use object::host::{descriptor_path, fstat, remembered};
use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Mode, OFlags, RenameFlags, Stat, linkat, mkdirat, mknodat, openat, readlinkat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Limit of inodes that are made in vain for a new one. A guess: removals are under way on a few threads.
const SKIPPED_MAX: usize = 4;

/// A new inode, with its attributes for the kernel.
pub type Made = (Arc<Node>, Stat);

impl Namespace {
    /// Creates a regular file and opens its stub. `EXIST` if the name is taken.
    pub fn create(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
    ) -> Result<(Arc<Node>, Stat, OwnedFd)> {
        let directory = self.directory(parent)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let (stat, fd) = self.make_new(&directory, name, || {
            let fd = as_caller(caller, || openat(&*directory, name, flags, mode))?;
            let stat = if self.seen.is_some() { remembered(&fd)? } else { fstat(&fd)? };
            Ok((stat, fd))
        })?;
        Ok((self.created(parent, name, &stat)?, stat, fd))
    }

    /// Creates a file that is not opened, a fifo, a socket or a device.
    pub fn make_node(&self, caller: Caller, parent: NodeId, name: &OsStr, mode: u32, device: Dev) -> Result<Made> {
        let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        self.make_unopened(parent, name, |directory| as_caller(caller, || mknodat(directory, name, kind, mode, device)))
    }

    /// Creates a directory.
    pub fn make_directory(&self, caller: Caller, parent: NodeId, name: &OsStr, mode: u32) -> Result<Made> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.make_unopened(parent, name, |directory| as_caller(caller, || mkdirat(directory, name, mode)))
    }

    /// Creates a symbolic link.
    pub fn make_symlink(&self, caller: Caller, parent: NodeId, name: &OsStr, target: &OsStr) -> Result<Made> {
        self.make_unopened(parent, name, |directory| as_caller(caller, || symlinkat(target, directory, name)))
    }

    fn make_unopened(&self, parent: NodeId, name: &OsStr, make: impl Fn(&OwnedFd) -> Result<()>) -> Result<Made> {
        let directory = self.directory(parent)?;
        let (stat, ()) = self.make_new(&directory, name, || {
            make(&directory)?;
            Ok((statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?, ()))
        })?;
        Ok((self.created(parent, name, &stat)?, stat))
    }

    /// Makes an inode, and another one while the kernel still refers to a removed one by its number. A local file system
    /// gives a removed file's number to the next file at once, but requests for the removed one may be under way. Files
    /// that were removed beside the mount, as by a purge, may be many and do not count.
    fn make_new<T>(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        make: impl Fn() -> Result<(Stat, T)>,
    ) -> Result<(Stat, T)> {
        let mut held = Vec::new(); // open, so that no other inode gets their numbers
        loop {
            let (stat, made) = make()?;
            let known = self.nodes.get(self.id_of(stat.st_ino)).filter(|_| self.is_local);
            if known.is_none_or(|node| !self.is_removed(&node)) || held.len() == SKIPPED_MAX {
                return Ok((stat, made));
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let removal = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(directory, name, path, Mode::empty()) {
                Ok(fd) if unlinkat(directory, name, removal).is_ok() => held.push(fd),
                _ => return Ok((stat, made)),
            }
        }
    }

    /// Whether an inode lost its last name on this mount. Waits for removals under way.
    fn is_removed(&self, node: &Node) -> bool {
        let is_nameless = || node.name().is_none();
        is_nameless() || {
            let _settled = self.renames.write();
            is_nameless()
        }
    }

    /// Target of a symbolic link.
    pub fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>> {
        let target = self.retrying(id, |directory, name| readlinkat(directory, name, Vec::new()))?;
        Ok(target.into_bytes())
    }

    /// Adds a name to an inode.
    pub fn link(&self, id: NodeId, parent: NodeId, name: &OsStr) -> Result<Made> {
        let from = self.pinned(id)?;
        let directory = self.directory(parent)?;
        let _changing = self.changing();
        if self.quotas.is_on() {
            self.quotas.moves(&fstat(&from)?, || self.path(parent));
        }
        linkat(CWD, descriptor_path(&from), &*directory, name, AtFlags::SYMLINK_FOLLOW)?;
        let stat = fstat(&from)?;
        Ok((self.found(parent, name, &stat)?, stat))
    }

    /// Renames, replaces or exchanges. Returns the replaced inode, if there was one.
    pub fn rename(
        &self,
        parent: NodeId,
        name: &OsStr,
        new_parent: NodeId,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<Option<super::Removed>> {
        self.rename_after((parent, name), (new_parent, new_name), flags, |_| true)
    }

    /// As [`Namespace::rename`]. `before` is called while the inode about to be replaced still has its name. If it
    /// returns `false`, the file was removed, and the next file under the name is examined.
    pub fn rename_after(
        &self,
        (parent, name): (NodeId, &OsStr),
        (new_parent, new_name): (NodeId, &OsStr),
        flags: RenameFlags,
        mut before: impl FnMut(&mut super::Removed) -> bool,
    ) -> Result<Option<super::Removed>> {
        let (from, to) = (self.directory(parent)?, self.directory(new_parent)?);
        let _exclusive = self.renames.write();
        let _changing = self.changing();
        let moved = statat(&*from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.quotas.moves(&moved, || self.path(parent));
        let present = || match statat(&*to, new_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        };
        let mut target = present()?;
        let moved_id = self.id_of(moved.st_ino);
        if flags.contains(RenameFlags::EXCHANGE) {
            let target = target.ok_or(Errno::NOENT)?;
            self.quotas.moves(&target, || self.path(new_parent));
            renameat_with(&*from, name, &*to, new_name, flags)?;
            let target_id = self.id_of(target.st_ino);
            // At no time has a node no name, since other threads open it by its names.
            self.nodes.add_name(moved_id, new_parent, new_name);
            self.nodes.add_name(target_id, parent, name);
            self.nodes.remove_name(moved_id, parent, name);
            self.nodes.remove_name(target_id, new_parent, new_name);
            self.tell_place(&moved, (new_parent, &to), new_name);
            self.tell_place(&target, (parent, &from), name);
            return Ok(None);
        }
        let replaces = |stat: &Stat| stat.st_ino != moved.st_ino && !flags.contains(RenameFlags::NOREPLACE);
        let (mut replaced, mut tries) = (None, 1..TRIES);
        while let Some(stat) = target.filter(replaces) {
            let mut removed = self.about_to_remove(&to, new_name, stat, self.quotas.is_on());
            if (!removed.is_outdated && before(&mut removed)) || tries.next().is_none() {
                replaced = Some(removed);
                break;
            }
            target = present()?;
        }
        renameat_with(&*from, name, &*to, new_name, flags)?;
        if target.is_some_and(|t| t.st_ino == moved.st_ino) {
            // Two names of one inode: renaming one to the other does nothing.
            return Ok(None);
        }
        self.is_absent(parent, name);
        let replaced = replaced.map(|removed| self.now_removed(removed, new_parent, new_name));
        self.nodes.add_name(moved_id, new_parent, new_name);
        self.nodes.remove_name(moved_id, parent, name);
        self.tell_place(&moved, (new_parent, &to), new_name);
        Ok(replaced)
    }

    /// Reports the new place of a moved inode. Runs under the lock of renames, so that the last report is the current
    /// place.
    fn tell_place(&self, moved: &Stat, (parent, directory): (NodeId, &OwnedFd), name: &OsStr) {
        let Some(places) = &self.places else { return };
        let above = self.inode_of(parent);
        self.tell_way_to(places, parent);
        match FileType::from_raw_mode(moved.st_mode) {
            FileType::Directory => places.directory_is(moved.st_ino, above, name),
            FileType::RegularFile => {
                if let Ok(Some(file)) = number_at(directory, name) {
                    places.file_is(file, above, name);
                }
            }
            _ => {}
        }
    }

    /// Reports the place of a directory and of those above it, if unknown.
    fn tell_way_to(&self, places: &Places, mut directory: NodeId) {
        while directory != ROOT && !places.knows(directory) {
            let Some((above, name)) = self.node(directory).ok().and_then(|node| node.name()) else { return };
            places.directory_is(directory, self.inode_of(above), &name);
            directory = above;
        }
    }
}
