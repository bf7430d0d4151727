//! From a node to something that a system call can be made on.

use super::Namespace;
use super::node::{NodeId, ROOT};
use crate::host::remembered;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How deep a chain of directories is reopened before it must be a loop.
pub(super) const DEPTH_MAX: usize = 4096;
/// How often a name that does not fit is looked at again while renames are under way.
const TRIES: usize = 8;

impl Namespace {
    /// The descriptor (`O_PATH`) of a directory, reopened through its parents if it was closed to save descriptors.
    pub(crate) fn directory(&self, id: NodeId) -> Result<Arc<OwnedFd>> {
        if id == ROOT {
            return Ok(self.root());
        }
        let mut closed = Vec::new();
        let mut at = id;
        let mut fd = loop {
            if at == ROOT {
                break self.root();
            }
            let node = self.node(at)?;
            if let Some(fd) = node.directory() {
                break fd;
            }
            let (parent, _) = node.name().ok_or(Errno::NOENT)?;
            closed.push(node);
            at = parent;
            if closed.len() > DEPTH_MAX {
                return Err(Errno::LOOP);
            }
        };
        while let Some(node) = closed.pop() {
            let (_, name) = node.name().ok_or(Errno::NOENT)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = openat(&*fd, &name, flags, Mode::empty());
            fd = match below {
                Ok(below) if self.is(node.id, &remembered(&below)?) => Arc::new(below),
                // Renamed meanwhile: take the way that waits for renames.
                _ => Arc::new(self.pinned(node.id)?),
            };
            self.nodes.opened(&node, fd.clone());
        }
        Ok(fd)
    }

    /// A descriptor (`O_PATH`) of any node, surely of that node.
    pub(crate) fn pinned(&self, id: NodeId) -> Result<OwnedFd> {
        if id == ROOT {
            return self.root().try_clone().map_err(|_| Errno::MFILE);
        }
        if let Some(directory) = self.node(id)?.directory() {
            return directory.try_clone().map_err(|_| Errno::MFILE);
        }
        self.open(id, OFlags::PATH)
    }

    /// Opens a node by the name it was last seen under; surely that node. A regular file that may not be written by an
    /// ordinary user's daemon (its mode forbids it) is refused with `ACCESS`, as the namespace says.
    pub fn open(&self, id: NodeId, flags: OFlags) -> Result<OwnedFd> {
        if let Some(fd) = self.open_seen(id, flags) {
            return Ok(fd);
        }
        self.retrying(id, |directory, name| {
            let fd = openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            self.is(id, &remembered(&fd)?).then_some(fd).ok_or(Errno::STALE)
        })
    }

    /// Opens the stub of a regular file, for reading and writing where the namespace lets the daemon.
    pub fn open_stub(&self, id: NodeId) -> Result<OwnedFd> {
        match self.open(id, OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => self.open(id, OFlags::RDONLY),
            done => done,
        }
    }

    /// Runs `act` with the directory and name of a node; again if the name was changed meanwhile.
    pub(super) fn retrying<T>(&self, id: NodeId, act: impl Fn(BorrowedFd<'_>, &OsStr) -> Result<T>) -> Result<T> {
        use std::os::fd::AsFd;
        let node = self.node(id)?;
        for _ in 0..TRIES {
            let Some((parent, name)) = node.name() else { return Err(Errno::NOENT) };
            match act(self.directory(parent)?.as_fd(), &name) {
                Err(Errno::STALE | Errno::NOENT) => {
                    // Wait for a rename that is under way; if the name is still the same, it is gone behind our back.
                    let _settled = self.renames.read();
                    if node.name().is_some_and(|now| now == (parent, name.clone())) {
                        self.nodes.remove_name(id, parent, &name);
                    }
                }
                done => return done,
            }
        }
        Err(Errno::STALE)
    }
}
