//! From a node to a descriptor or name for a system call.

use super::Namespace;
use super::node::{NodeId, ROOT};
use object::host::remembered;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Limit of reopened ancestors of a directory: a longer chain must be a loop.
pub(super) const DEPTH_MAX: usize = 4096;
/// Limit of retries of a stale name while renames are under way.
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
                // The directory was renamed since, so use the path that waits for renames.
                _ => Arc::new(self.pinned(node.id)?),
            };
            self.nodes.opened(&node, fd.clone());
        }
        Ok(fd)
    }

    /// Descriptor (`O_PATH`) of any node, checked to be that node.
    pub(crate) fn pinned(&self, id: NodeId) -> Result<OwnedFd> {
        if id == ROOT {
            return self.root().try_clone().map_err(|_| Errno::MFILE);
        }
        if let Some(directory) = self.node(id)?.directory() {
            return directory.try_clone().map_err(|_| Errno::MFILE);
        }
        self.open(id, OFlags::PATH)
    }

    /// Opens a node by its last known name, checked to be that node. A regular file whose mode forbids an ordinary
    /// user's daemon to write is refused with `ACCESS`, as by the namespace.
    pub fn open(&self, id: NodeId, flags: OFlags) -> Result<OwnedFd> {
        if let Some(fd) = self.open_seen(id, flags) {
            return Ok(fd);
        }
        self.retrying(id, |directory, name| {
            let fd = openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            self.is(id, &remembered(&fd)?).then_some(fd).ok_or(Errno::STALE)
        })
    }

    /// Opens the stub of a regular file, for writing too where the namespace permits it.
    pub fn open_stub(&self, id: NodeId) -> Result<OwnedFd> {
        match self.open(id, OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => self.open(id, OFlags::RDONLY),
            done => done,
        }
    }

    /// Runs `act` with the directory and name of a node. Retries if the name changed during the call.
    pub(super) fn retrying<T>(&self, id: NodeId, act: impl Fn(BorrowedFd<'_>, &OsStr) -> Result<T>) -> Result<T> {
        use std::os::fd::AsFd;
        let node = self.node(id)?;
        for _ in 0..TRIES {
            // With ESTALE the kernel looks the name up again: a rename may have put another file there.
            let (parent, name) = node.name().ok_or(Errno::STALE)?;
            match act(self.directory(parent)?.as_fd(), &name) {
                Err(Errno::STALE | Errno::NOENT) => {
                    // Waits for a rename under way. If the name is still the same, another node or process removed it.
                    let _settled = self.renames.read();
                    if node.name().is_some_and(|now| now == (parent, name.clone())) {
                        self.lost.add(parent, &name);
                        self.nodes.remove_name(id, parent, &name);
                    }
                }
                done => return done,
            }
        }
        Err(Errno::STALE)
    }
}
