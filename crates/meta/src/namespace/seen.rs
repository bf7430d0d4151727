//! Lookups in a directory tree that other nodes change, too, with few calls to its server.
//!
//! The kernel of a FUSE client without a cache asks the server for a name and, once more, for the attributes that came
//! with it. Here a name is looked up by a descriptor without rights (`O_PATH`), in one call that also brings the
//! attributes. They may be too old if the file is in use on this node or the node just changed it: then they are
//! fetched again.
//!
//! The latest lookups are kept a moment for the next request of the same system call: for their attributes, once, or to
//! open the file.

use super::Namespace;
use super::node::NodeId;
use object::host::{descriptor_path, fstat, remembered};
use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, openat};
use rustix::io::Result;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Limit of kept descriptors. A guess: one for each thread of the mount that is between two requests of one call.
const KEPT_MAX: usize = 32;
/// Validity of attributes, from before their lookup on. A guess: twice the time of a lookup in a fast network and of
/// the kernel's next request. Within this span only a process with a descriptor without rights may miss a
/// change by another node; others look the file up again.
pub const FRESH: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct LookupResult {
    id: NodeId,
    parent: NodeId,
    name: OsString,
    fd: Arc<OwnedFd>,
    /// Its attributes and the time of the request for them, until they are used.
    stat: Option<(Stat, Instant)>,
}

/// The latest lookups.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    all: Mutex<VecDeque<LookupResult>>,
    /// Counts the begin and end of each change of attributes by this node.
    changes: AtomicU64,
}

/// Guard of a change of attributes of a file by this node.
pub struct Changing<'a>(Option<&'a LastSeen>);

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

    fn put(&self, seen: LookupResult) {
        let mut all = self.all.lock();
        let old = all.iter().position(|one| one.id == seen.id).and_then(|at| all.remove(at));
        let first = if all.len() < KEPT_MAX { None } else { all.pop_front() };
        all.push_back(seen);
        drop(all);
        drop((old, first)); // closed outside the lock
    }

    /// Newest match, with its attributes if they are fresh.
    fn take(&self, meant: impl Fn(&LookupResult) -> bool) -> Option<(Arc<OwnedFd>, Option<Stat>)> {
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
    /// Looks a name up now, on a FUSE mount without a cache.
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
        seen.put(LookupResult { id, parent, name, fd: Arc::new(fd), stat: Some((stat, asked)) });
        Ok(stat)
    }

    /// File that was looked up just now under a name. Returned once.
    pub(super) fn just_named(&self, parent: NodeId, name: &OsStr) -> Option<(Arc<OwnedFd>, Stat)> {
        let (fd, stat) = self.seen.as_ref()?.take(|seen| seen.parent == parent && seen.name == name)?;
        Some((fd, stat?))
    }

    /// Attributes of a file that was looked up just now. Returned once.
    pub(super) fn just_seen(&self, id: NodeId) -> Option<Stat> {
        self.seen.as_ref()?.take(|seen| seen.id == id)?.1
    }

    /// Opens a file that was looked up lately, under any name. `None` if that is impossible: open it by name then.
    pub(super) fn open_seen(&self, id: NodeId, flags: OFlags) -> Option<OwnedFd> {
        let (fd, _) = self.seen.as_ref()?.take(|seen| seen.id == id)?;
        openat(CWD, descriptor_path(&fd), flags | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Guard of a change of attributes of any file.
    pub fn changing(&self) -> Changing<'_> {
        Changing::begin(self.seen.as_ref())
    }

    /// Guard of a change of one file, whose kept attributes are dropped.
    pub fn changing_of(&self, id: NodeId) -> Changing<'_> {
        self.seen.iter().for_each(|seen| seen.forget(id));
        self.changing()
    }
}
