//! Names, attributes and directories of the server.

use super::Shared;
use crate::broken::is_broken;
use crate::names::Looked;
use crate::opened::Opened;
use meta::namespace::{Caller, Listing, Namespace, NodeId};
use node::mount::answer::Changes;
use parking_lot::Mutex;
use policy::connections::Operation;
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::{Errno, Result};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// An open directory. When its connection breaks it is reopened and continues at the same position.
pub struct Directory {
    pub id: NodeId,
    pub listing: Mutex<Listing>,
}

impl Shared {
    pub fn ask<T>(&self, act: impl Fn(&Namespace) -> Result<T>) -> Result<T> {
        self.names.run(Operation::Read, act)
    }

    /// Removes a name. If its connection breaks on the way, the name shows whether the removal was done.
    pub fn unmake(&self, parent: NodeId, name: &OsStr, unmake: impl Fn(&Namespace) -> Result<()>) -> Result<()> {
        let look = |tree: &Namespace| match is_there(tree, parent, name) {
            Ok(true) => Looked::NotDone,
            Ok(false) => Looked::Done(()),
            Err(_) => Looked::Unknown,
        };
        self.names.run_or_look(Operation::Unmake, unmake, look)
    }

    /// Returns attributes by name; of an unlinked file, through an open descriptor.
    pub fn stat(&self, id: NodeId) -> Result<Stat> {
        self.world.writes.settle(id);
        let named = self.ask(|tree| tree.stat(id));
        match named {
            Err(Errno::NOENT | Errno::STALE) => match self.nameless(id) {
                Some(file) => fstat(file.mounted()),
                None => named,
            },
            named => named,
        }
    }

    /// Returns size and times after all pending writes.
    pub fn settled(&self, id: NodeId, stat: Stat) -> Stat {
        let behind = self.world.writes.settle(id);
        behind.then(|| self.stat(id).ok()).flatten().unwrap_or(stat)
    }

    /// Returns a descriptor of an open file.
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
            // A truncation drops setuid and setgid as a write does, unless the caller may keep them.
            if changes.size.is_some() || changes.sets_owner() {
                held.drop_privileges(caller)?;
            }
            if changes.sets_owner() {
                held.set_owner(changes.uid, changes.gid)?;
            }
            if let Some(mode) = changes.mode {
                held.set_mode_for(caller, mode)?;
            }
            if changes.sets_times() {
                held.set_times(changes.accessed, changes.modified)?;
            }
            Ok(())
        };
        match self.names.run(Operation::Write, |tree| change(tree, None)) {
            Err(error @ (Errno::NOENT | Errno::STALE)) => {
                let file = self.nameless(id).ok_or(error)?;
                change(&self.names.tree, Some(file.mounted()))
            }
            done => done,
        }
    }

    /// Runs an operation on an open directory; if its connection broke, on the same directory over another one.
    pub fn listed(&self, handle: u64, act: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()> {
        let directory = self.directories.get(handle).ok_or(Errno::BADF)?;
        let mut listing = directory.listing.lock();
        match act(&mut listing, &self.names.tree) {
            Err(error) if is_broken(error) || matches!(error, Errno::STALE | Errno::XDEV | Errno::BADFD) => {
                let again = RefCell::new((&mut *listing, act));
                self.ask(|tree| {
                    let (listing, act) = &mut *again.borrow_mut();
                    **listing = tree.list(directory.id)?;
                    act(listing, tree)
                })
            }
            done => done,
        }
    }
}

/// Returns whether a name exists.
pub(super) fn is_there(tree: &Namespace, parent: NodeId, name: &OsStr) -> Result<bool> {
    match tree.lookup(parent, name) {
        Ok((node, _)) => {
            tree.forget(node.id, 1);
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns `NotDone` if the name does not exist.
pub(super) fn absent<T>(tree: &Namespace, parent: NodeId, name: &OsStr) -> Looked<T> {
    match is_there(tree, parent, name) {
        Ok(false) => Looked::NotDone,
        _ => Looked::Unknown,
    }
}
