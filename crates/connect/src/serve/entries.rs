//! Names, attributes and directories as the server has them.

use super::Shared;
use crate::names::Looked;
use crate::opened::Opened;
use crate::status::ATTRIBUTE;
use fuser::{
    FileHandle, FopenFlags, ReplyAttr, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyOpen, ReplyStatfs,
};
use parking_lot::Mutex;
use policy::connections::Operation;
use rustix::fs::{OFlags, RenameFlags, Stat, XattrFlags, fstat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use store::mount::answer::{self, Changes};
use store::mount::convert::{attributes, errno};
use store::namespace::attributes::ACL;
use store::namespace::{Caller, Listing, Namespace, Node, NodeId, ROOT};

/// An open directory. When its connection breaks it is opened again and goes on at the same position.
pub struct Directory {
    id: NodeId,
    listing: Mutex<Listing>,
}

impl Shared {
    fn ask<T>(&self, act: impl Fn(&Namespace) -> Result<T>) -> Result<T> {
        self.world.names.run(Operation::Read, act)
    }

    pub fn lookup(&self, parent: NodeId, name: &OsStr, reply: ReplyEntry) {
        let found = self.ask(|tree| tree.lookup(parent, name)).map(|(node, stat)| {
            let stat = self.settled(node.id, stat);
            (node, stat)
        });
        self.entry(found, reply);
    }

    /// Answers with a node whose reference was counted.
    fn entry(&self, made: Result<(Arc<Node>, Stat)>, reply: ReplyEntry) {
        answer::entry(made, self.options.ttl(), |id, stat| attributes(id, &stat), reply);
    }

    /// Makes something that gets a name. If its connection broke on the way and something of that name is there, nobody knows whose
    /// it is, and that is an error.
    pub fn make(
        &self,
        parent: NodeId,
        name: &OsStr,
        reply: ReplyEntry,
        make: impl Fn(&Namespace) -> Result<(Arc<Node>, Stat)>,
    ) {
        self.entry(self.world.names.run_or_look(Operation::Make, make, |tree| absent(tree, parent, name)), reply);
    }

    /// Takes a name away. If its connection broke on the way, the name tells whether it was done.
    pub fn unmake(&self, parent: NodeId, name: &OsStr, unmake: impl Fn(&Namespace) -> Result<()>) -> Result<()> {
        let look = |tree: &Namespace| match is_there(tree, parent, name) {
            Ok(true) => Looked::NotDone,
            Ok(false) => Looked::Done(()),
            Err(_) => Looked::Unknown,
        };
        self.world.names.run_or_look(Operation::Unmake, unmake, look)
    }

    pub fn rename(&self, from: (NodeId, &OsStr), to: (NodeId, &OsStr), flags: fuser::RenameFlags) -> Result<()> {
        let flags = RenameFlags::from_bits_retain(flags.bits());
        let rename = |tree: &Namespace| tree.rename(from.0, from.1, to.0, to.1, flags).map(|_| ());
        let look = |tree: &Namespace| match (is_there(tree, from.0, from.1), is_there(tree, to.0, to.1)) {
            (Ok(true), _) if !flags.contains(RenameFlags::EXCHANGE) => Looked::NotDone,
            (Ok(false), Ok(true)) => Looked::Done(()),
            _ => Looked::Unknown,
        };
        self.world.names.run_or_look(Operation::Unmake, rename, look)
    }

    pub fn attr(&self, stat: Result<(NodeId, Stat)>, reply: ReplyAttr) {
        match stat {
            Ok((id, stat)) => reply.attr(&self.options.attr_timeout, &attributes(id, &stat)),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Attributes by name; of a file that has none any more, through whoever has it open.
    pub fn stat(&self, id: NodeId) -> Result<(NodeId, Stat)> {
        self.world.writes.settle(id);
        let named = self.ask(|tree| tree.stat(id));
        let stat = match named {
            Err(Errno::NOENT | Errno::STALE) => match self.nameless(id) {
                Some(file) => fstat(file.mounted()),
                None => named,
            },
            named => named,
        };
        stat.map(|stat| (id, stat))
    }

    /// Size and times as they are after what is on its way.
    fn settled(&self, id: NodeId, stat: Stat) -> Stat {
        let behind = self.world.writes.settle(id);
        behind.then(|| self.stat(id).ok()).flatten().map_or(stat, |(_, stat)| stat)
    }

    /// A descriptor of a file that is open.
    fn nameless(&self, id: NodeId) -> Option<Arc<Opened>> {
        self.open.lock().get(&id)?.iter().find_map(|file| file.any())
    }

    pub fn change(&self, caller: Caller, id: NodeId, changes: &Changes) -> Result<()> {
        self.world.writes.settle(id);
        let change = |tree: &Namespace, nameless: Option<BorrowedFd<'_>>| {
            if let Some(size) = changes.size {
                match nameless {
                    Some(fd) => rustix::fs::ftruncate(fd, size)?,
                    None => rustix::fs::ftruncate(tree.open(id, OFlags::WRONLY)?, size)?,
                }
            }
            let held = tree.hold(id, nameless)?;
            // Privileges go with a truncation as with a write, for whoever may not keep them.
            if changes.size.is_some() || changes.sets_owner() {
                held.drop_privileges(caller)?;
            }
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
        };
        match self.world.names.run(Operation::Write, |tree| change(tree, None)) {
            Err(error @ (Errno::NOENT | Errno::STALE)) => {
                let file = self.nameless(id).ok_or(error)?;
                change(self.world.names.tree(), Some(file.mounted()))
            }
            done => done,
        }
    }

    pub fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>> {
        self.ask(|tree| tree.read_symlink(id))
    }

    pub fn open_directory(&self, id: NodeId, reply: ReplyOpen) {
        match self.ask(|tree| tree.list(id)) {
            Ok(listing) => {
                let number = self.directories.insert(Arc::new(Directory { id, listing: Mutex::new(listing) }));
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn close_directory(&self, handle: FileHandle) {
        self.directories.remove(handle.0);
    }

    /// Does something with an open directory; if its connection broke, with the same directory over another one.
    fn listed<T>(&self, handle: FileHandle, act: impl Fn(&Namespace, &mut Listing) -> Result<T>) -> Result<T> {
        let directory = self.directories.get(handle.0).ok_or(Errno::BADF)?;
        let mut listing = directory.listing.lock();
        match act(self.world.names.tree(), &mut listing) {
            Err(error)
                if crate::broken::is_broken(error) || matches!(error, Errno::STALE | Errno::XDEV | Errno::BADFD) =>
            {
                let listing = std::cell::RefCell::new(&mut *listing);
                self.ask(|tree| {
                    let mut listing = listing.borrow_mut();
                    **listing = tree.list(directory.id)?;
                    act(tree, &mut listing)
                })
            }
            done => done,
        }
    }

    pub fn read_directory(&self, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let filled = std::cell::RefCell::new((offset, reply));
        let done = self.listed(handle, |tree, listing| {
            let (offset, reply) = &mut *filled.borrow_mut();
            answer::fill(listing, tree, offset, reply)
        });
        let (_, reply) = filled.into_inner();
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn read_directory_plus(&self, handle: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let filled = std::cell::RefCell::new((offset, reply));
        let done = self.listed(handle, |tree, listing| {
            let (offset, reply) = &mut *filled.borrow_mut();
            let attr = |id, stat| attributes(id, &self.settled(id, stat));
            answer::fill_plus(listing, tree, offset, self.options.ttl(), attr, reply)
        });
        let (_, reply) = filled.into_inner();
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn sync_directory(&self, handle: FileHandle) -> Result<()> {
        match self.listed(handle, |_, listing| listing.sync()) {
            // Some file systems have nothing to do for a directory, and say so.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            done => done,
        }
    }

    pub fn space(&self, reply: ReplyStatfs) {
        match self.ask(Namespace::space) {
            Ok(s) => {
                let narrow = |wide: u64| u32::try_from(wide).unwrap_or(u32::MAX);
                let (block, fragment) = (narrow(s.f_bsize), narrow(s.f_frsize));
                let name_max = narrow(s.f_namemax);
                reply.statfs(s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, block, name_max, fragment);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// An attribute. One of the mount point is ours: what the connections do.
    pub fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        if id == ROOT && name == ATTRIBUTE {
            return serde_json::to_vec(&self.world.status()).map_err(|_| Errno::IO);
        }
        self.ask(|tree| tree.attribute(id, name))
    }

    pub fn attributes(&self, id: NodeId) -> Result<Vec<u8>> {
        self.ask(|tree| tree.attributes(id))
    }

    pub fn set_attribute(&self, caller: Caller, id: NodeId, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        if id == ROOT && name == ATTRIBUTE {
            return Err(Errno::PERM);
        }
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let operation = if flags.is_empty() { Operation::Write } else { Operation::Make };
        self.world.names.run(operation, |tree| tree.set_attribute(id, name, value, flags))?;
        if name == ACL {
            return self.world.names.run(Operation::Write, |tree| tree.hold(id, None)?.drop_setgid(caller));
        }
        Ok(())
    }

    pub fn remove_attribute(&self, id: NodeId, name: &OsStr) -> Result<()> {
        self.world.names.run(Operation::Unmake, |tree| tree.remove_attribute(id, name))
    }
}

/// Whether a name is there.
fn is_there(tree: &Namespace, parent: NodeId, name: &OsStr) -> Result<bool> {
    match tree.lookup(parent, name) {
        Ok((node, _)) => {
            tree.forget(node.id, 1);
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is not there was not made.
pub(super) fn absent<T>(tree: &Namespace, parent: NodeId, name: &OsStr) -> Looked<T> {
    match is_there(tree, parent, name) {
        Ok(false) => Looked::NotDone,
        _ => Looked::Unknown,
    }
}
