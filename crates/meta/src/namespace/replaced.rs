//! Names that other nodes replace by rename. A shared file system may report such a name as absent for a moment. The
//! file may also be removed between the kernel's lookup and the next request.
//!
//! A name that this node found lately is looked up again a few times before it is reported absent; other names cost
//! nothing. A name whose file was removed between two requests is recorded, so that the mount keeps the next file under
//! it open ([`Namespace::was_lost`]).

use super::Namespace;
use super::node::NodeId;
use parking_lot::Mutex;
use policy::Time;
use policy::cluster::names::{Miss, pause};
use rustix::fs::Stat;
use rustix::io::{Errno, Result};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Number of remembered names, a power of two. A guess: 32 KiB, and more names than a node looks up in two seconds at
/// the speed of a shared file system.
const SLOTS: usize = 4096;
/// Limit of recorded replacements. A guess: one for each thread of the mount that is between two requests.
const LOST_MAX: usize = 32;
/// Age up to which a loss counts. A guess: the next request comes at once.
pub const LOST: Duration = Duration::from_secs(1);

/// Names that this node found lately.
pub(super) struct Replaced {
    /// `None` in tests, where time stands still.
    began: Option<Instant>,
    /// Upper half of the name's hash, and the lower half of the milliseconds since the begin.
    seen: Box<[AtomicU64]>,
}

/// Names whose file was removed between the kernel's lookup and its next request.
#[derive(Default)]
pub(super) struct Lost {
    names: Mutex<VecDeque<(NodeId, OsString, Instant)>>,
    /// Length of `names`.
    len: AtomicUsize,
}

impl Replaced {
    pub(super) fn new() -> Replaced {
        Replaced::since(Some(Instant::now()))
    }

    fn since(began: Option<Instant>) -> Replaced {
        Replaced { began, seen: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    fn slot(&self, parent: NodeId, name: &OsStr) -> (&AtomicU64, u64) {
        let mut hasher = DefaultHasher::new();
        (parent, name).hash(&mut hasher);
        let hash = hasher.finish();
        (&self.seen[hash as usize % SLOTS], (hash >> 32 | 1) << 32)
    }

    fn now_ms(&self) -> u64 {
        self.began.map_or(0, |began| began.elapsed().as_millis() as u64 & u64::from(u32::MAX))
    }

    /// Records that a name exists.
    pub(super) fn saw(&self, parent: NodeId, name: &OsStr) {
        let (slot, tag) = self.slot(parent, name);
        slot.store(tag | self.now_ms(), Relaxed);
    }

    /// Records that a name is absent.
    fn forget(&self, parent: NodeId, name: &OsStr) {
        let (slot, tag) = self.slot(parent, name);
        let now = slot.load(Relaxed);
        if now & !u64::from(u32::MAX) == tag {
            let _ = slot.compare_exchange(now, 0, Relaxed, Relaxed);
        }
    }

    /// Time since a name was found.
    fn age(&self, parent: NodeId, name: &OsStr) -> Option<Time> {
        let (slot, tag) = self.slot(parent, name);
        let seen = slot.load(Relaxed);
        let at = (seen & !u64::from(u32::MAX) == tag).then_some(seen & u64::from(u32::MAX))?;
        Some(Time::from_millis(self.now_ms().wrapping_sub(at) & u64::from(u32::MAX)))
    }

    /// Looks a name up by `look`, repeatedly if it existed a moment ago.
    pub(super) fn look_up(&self, parent: NodeId, name: &OsStr, look: impl Fn() -> Result<Stat>) -> Result<Stat> {
        for tries in 0.. {
            let errno = match look() {
                Err(errno @ (Errno::NOENT | Errno::STALE)) => errno,
                done => return done,
            };
            let miss = match errno {
                Errno::STALE => Miss::Stale,
                _ => Miss::Absent { seen: self.age(parent, name) },
            };
            let Some(pause) = pause(tries, miss) else {
                self.forget(parent, name);
                return Err(errno);
            };
            std::thread::sleep(Duration::from_nanos(pause.0));
        }
        unreachable!("the pauses end")
    }
}

impl Lost {
    /// Records that the file under a name went after the kernel had looked it up.
    pub(super) fn add(&self, parent: NodeId, name: &OsStr) {
        let mut names = self.names.lock();
        names.retain(|(p, n, at)| at.elapsed() < LOST && !(*p == parent && n == name));
        if names.len() == LOST_MAX {
            names.pop_front();
        }
        names.push_back((parent, name.to_owned(), Instant::now()));
        self.len.store(names.len(), Ordering::Release);
    }

    fn has(&self, parent: NodeId, name: &OsStr) -> bool {
        if self.len.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut names = self.names.lock();
        names.retain(|(_, _, at)| at.elapsed() < LOST);
        self.len.store(names.len(), Ordering::Release);
        names.iter().any(|(p, n, _)| *p == parent && n == name)
    }
}

impl Namespace {
    /// Records that this node removed a name, so that it is absent at once.
    pub(super) fn is_absent(&self, parent: NodeId, name: &OsStr) {
        self.replaced.iter().for_each(|replaced| replaced.forget(parent, name));
    }

    /// Records that the file of a node went after the kernel had looked it up.
    pub fn lost_name(&self, id: NodeId) {
        if let Some((parent, name)) = self.node(id).ok().and_then(|node| node.former_name()) {
            self.lost.add(parent, &name);
        }
    }

    /// Whether the file of a name was removed or replaced during the last second, just after the kernel had looked it
    /// up.
    pub fn was_lost(&self, parent: NodeId, name: &OsStr) -> bool {
        self.lost.has(parent, name)
    }

    /// Starts that second for a name, or extends it after the file was kept open.
    pub fn mark_lost(&self, parent: NodeId, name: &OsStr) {
        self.lost.add(parent, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// [S-410]
    #[test]
    fn a_name_that_was_there_is_looked_up_again_and_no_other() {
        let replaced = Replaced::since(None);
        let here = rustix::fs::stat(".").expect("a directory");
        let (known, unknown) = (OsStr::new("known"), OsStr::new("unknown"));
        let calls = Cell::new(0);
        let after = |failures: usize, errno| {
            calls.set(0);
            let calls = &calls;
            move || {
                calls.set(calls.get() + 1);
                if calls.get() <= failures { Err(errno) } else { Ok(here) }
            }
        };
        assert_eq!(replaced.look_up(7, unknown, after(9, Errno::NOENT)).err(), Some(Errno::NOENT));
        assert_eq!(calls.get(), 1, "a name that was never there costs one call");
        replaced.saw(7, known);
        assert!(replaced.look_up(7, known, after(3, Errno::NOENT)).is_ok());
        assert_eq!(calls.get(), 4);
        assert!(replaced.look_up(7, unknown, after(2, Errno::STALE)).is_ok());
        assert_eq!(replaced.look_up(8, known, after(9, Errno::NOENT)).err(), Some(Errno::NOENT));
        assert_eq!(calls.get(), 1, "of another directory");
        assert_eq!(replaced.look_up(7, known, after(9, Errno::NOENT)).err(), Some(Errno::NOENT));
        assert_eq!(calls.get(), 6, "it does not come back");
        assert_eq!(replaced.look_up(7, known, after(9, Errno::NOENT)).err(), Some(Errno::NOENT));
        assert_eq!(calls.get(), 1, "and is absent from then on");
    }

    #[test]
    fn a_replacement_is_remembered_by_its_name() {
        let lost = Lost::default();
        let (one, other) = (OsStr::new("one"), OsStr::new("other"));
        assert!(!lost.has(7, one));
        lost.add(7, one);
        assert!(lost.has(7, one) && !lost.has(8, one) && !lost.has(7, other));
    }
}
