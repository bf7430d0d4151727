//! Looking names up in a directory tree that other nodes change, too: with few calls to its server.
//!
//! The kernel of a FUSE client that remembers nothing asks the server for a name and, once more, for the attributes that came with it. A name
//! is looked up here by a descriptor without rights (`O_PATH`), which is one look, and a directory's attributes are those that came with it.
//! Those of a file are asked for: others of this node may have changed what the kernel knows while the look was under way.
//!
//! What was looked up last is kept a moment for what the same system call of a user asks next: its attributes, once, or to be opened.

use super::Namespace;
use super::node::NodeId;
use crate::host::{descriptor_path, remembered};
use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Result;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Descriptors that are kept. A guess: one for each thread of the mount that is between two requests of one call.
const KEPT_MAX: usize = 32;
/// How long attributes answer the request that follows the look. A guess: many times what the kernel takes to send it, and less than
/// a message of a user from another node that changed them takes.
const FRESH: Duration = Duration::from_micros(500);

/// What was looked up.
#[derive(Debug)]
struct Seen {
    id: NodeId,
    parent: NodeId,
    name: OsString,
    fd: Arc<OwnedFd>,
    /// Its attributes and when they were asked for, until they are used.
    stat: Option<(Stat, Instant)>,
}

/// What was looked up last.
#[derive(Debug, Default)]
pub(super) struct LastSeen(Mutex<VecDeque<Seen>>);

impl LastSeen {
    fn put(&self, seen: Seen) {
        let mut all = self.0.lock();
        let old = all.iter().position(|one| one.id == seen.id).and_then(|at| all.remove(at));
        let first = if all.len() < KEPT_MAX { None } else { all.pop_front() };
        all.push_back(seen);
        drop(all);
        drop((old, first)); // closed outside the lock
    }

    /// The newest that is meant, with its attributes if they are fresh.
    fn take(&self, meant: impl Fn(&Seen) -> bool) -> Option<(Arc<OwnedFd>, Option<Stat>)> {
        let mut all = self.0.lock();
        let seen = all.iter_mut().rev().find(|seen| meant(seen))?;
        let stat = seen.stat.take().filter(|(_, asked)| asked.elapsed() < FRESH).map(|(stat, _)| stat);
        Some((seen.fd.clone(), stat))
    }

    fn forget(&self, id: NodeId) {
        let mut all = self.0.lock();
        let gone = all.iter().position(|seen| seen.id == id).and_then(|at| all.remove(at));
        drop(all);
        drop(gone);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }
}

impl Namespace {
    /// What a name leads to now, on a FUSE mount that remembers nothing.
    pub(super) fn look(&self, seen: &LastSeen, (parent, directory): (NodeId, &OwnedFd), name: &OsStr) -> Result<Stat> {
        let fd = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let mut stat = remembered(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(stat);
        }
        let asked = Instant::now();
        stat = fstat(&fd)?;
        let (id, name) = (self.id_of(stat.st_ino), name.to_owned());
        seen.put(Seen { id, parent, name, fd: Arc::new(fd), stat: Some((stat, asked)) });
        Ok(stat)
    }

    /// The file that was looked up just now under a name, once.
    pub(super) fn just_named(&self, parent: NodeId, name: &OsStr) -> Option<(Arc<OwnedFd>, Stat)> {
        let (fd, stat) = self.seen.as_ref()?.take(|seen| seen.parent == parent && seen.name == name)?;
        Some((fd, stat?))
    }

    /// The attributes of a file that was looked up just now, once.
    pub(super) fn just_seen(&self, id: NodeId) -> Option<Stat> {
        self.seen.as_ref()?.take(|seen| seen.id == id)?.1
    }

    /// Opens a file that was looked up lately, whatever its name is by now. `None` where that cannot be: it is opened by name, then.
    pub(super) fn open_seen(&self, id: NodeId, flags: OFlags) -> Option<OwnedFd> {
        let (fd, _) = self.seen.as_ref()?.take(|seen| seen.id == id)?;
        openat(CWD, descriptor_path(&fd), flags | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Its attributes are about to change.
    pub(crate) fn forget_seen(&self, id: NodeId) {
        if let Some(seen) = &self.seen {
            seen.forget(id);
        }
    }
}
