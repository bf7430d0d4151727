//! Looking names up in a directory tree that other nodes change, too: with few calls to its server.
//!
//! The kernel of a FUSE client that remembers nothing asks the server for a name and, once more, for the attributes that came with it. A name
//! is looked up here by a descriptor without rights (`O_PATH`), which is one look, and its attributes are those that came with it. Those of a
//! file that is in use on this node, or of which this node changed something meanwhile, are asked for: what came may be older.
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Descriptors that are kept. A guess: one for each thread of the mount that is between two requests of one call.
const KEPT_MAX: usize = 32;
/// How long attributes answer the request that follows the look, from before the look on. A guess: twice what a look takes in a fast network and
/// the kernel to send the request. A process that hears within that time what another node changed looks anew, unless it has the file by a
/// descriptor without rights.
pub const FRESH: Duration = Duration::from_millis(1);

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
pub(super) struct LastSeen {
    all: Mutex<VecDeque<Seen>>,
    /// Counts when this node begins and ends to change attributes of a file, whichever.
    changes: AtomicU64,
}

/// This node changes attributes of a file until this is dropped.
pub(crate) struct Changing<'a>(Option<&'a LastSeen>);

impl<'a> Changing<'a> {
    fn begin(seen: Option<&'a LastSeen>) -> Changing<'a> {
        seen.iter().for_each(|seen| seen.count());
        Changing(seen)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|seen| seen.count());
    }
}

impl LastSeen {
    fn count(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn put(&self, seen: Seen) {
        let mut all = self.all.lock();
        let old = all.iter().position(|one| one.id == seen.id).and_then(|at| all.remove(at));
        let first = if all.len() < KEPT_MAX { None } else { all.pop_front() };
        all.push_back(seen);
        drop(all);
        drop((old, first)); // closed outside the lock
    }

    /// The newest that is meant, with its attributes if they are fresh.
    fn take(&self, meant: impl Fn(&Seen) -> bool) -> Option<(Arc<OwnedFd>, Option<Stat>)> {
        let mut all = self.all.lock();
        let seen = all.iter_mut().rev().find(|seen| meant(seen))?;
        let stat = seen.stat.take().filter(|(_, asked)| asked.elapsed() < FRESH).map(|(stat, _)| stat);
        Some((seen.fd.clone(), stat))
    }

    fn forget(&self, id: NodeId) {
        let mut all = self.all.lock();
        let gone = all.iter().position(|seen| seen.id == id).and_then(|at| all.remove(at));
        drop(all);
        drop(gone);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        drop(all);
    }
}

impl Namespace {
    /// What a name leads to now, on a FUSE mount that remembers nothing.
    pub(super) fn look(
        &self,
        seen: &LastSeen,
        (parent, directory): (NodeId, &OwnedFd),
        name: &OsStr,
        in_use: impl Fn(&Stat) -> bool,
    ) -> Result<Stat> {
        let (before, mut asked) = (seen.changes.load(Ordering::Acquire), Instant::now());
        let fd = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let mut stat = remembered(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(stat);
        }
        if in_use(&stat) || seen.changes.load(Ordering::Acquire) != before {
            asked = Instant::now();
            stat = fstat(&fd)?;
        }
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

    /// Attributes of a file change until this is dropped.
    pub(crate) fn changing(&self) -> Changing<'_> {
        Changing::begin(self.seen.as_ref())
    }

    /// The same of one whose attributes nothing is to answer for any more.
    pub(crate) fn changing_of(&self, id: NodeId) -> Changing<'_> {
        self.seen.iter().for_each(|seen| seen.forget(id));
        self.changing()
    }
}
