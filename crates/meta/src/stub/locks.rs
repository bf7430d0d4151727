//! Locks of users on a stub, kept by the shared file system. Each owner that holds or requests some has an open
//! descriptor of its own, since a lock of an open file description excludes all others.
//!
//! `flock` and `fcntl` locks are one kind here, as on GlusterFS and NFS: `flock` locks the whole file.

use crate::Result;
use crate::stub::real::FdStub;
use object::host::descriptor_path;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Last byte that can be locked.
pub const LAST: u64 = i64::MAX as u64;

/// Range of bytes, with its last one.
pub type Bytes = RangeInclusive<u64>;

/// Mode of a lock, the weaker one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Compatible with other shared locks.
    Shared,
    /// Excludes all other locks.
    Exclusive,
}

impl Kind {
    /// Whether two locks of different owners conflict.
    pub fn excludes(self, other: Kind) -> bool {
        self.max(other) == Kind::Exclusive
    }
}

/// Locks of one owner, which end when this is dropped.
pub trait Locker: Send + Sync {
    /// Locks or releases bytes, replacing the owner's locks on them. Returns false on a conflict with another owner.
    fn lock(&self, bytes: &Bytes, kind: Option<Kind>) -> Result<bool>;
    /// Lock of another owner that conflicts with such a lock.
    fn in_the_way(&self, bytes: &Bytes, kind: Kind) -> Result<Option<(Bytes, Kind)>>;
}

impl FdStub {
    pub(super) fn open_locker(&self) -> Result<Box<dyn Locker>> {
        let (path, mode) = (descriptor_path(&*self.fd()), Mode::empty());
        match open(&path, OFlags::RDWR | OFlags::CLOEXEC, mode) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                Ok(Box::new(open(path, OFlags::RDONLY | OFlags::CLOEXEC, mode)?))
            }
            opened => Ok(Box::new(opened?)),
        }
    }
}

impl Locker for OwnedFd {
    fn lock(&self, bytes: &Bytes, kind: Option<Kind>) -> Result<bool> {
        match ask(self, libc::F_OFD_SETLK, bytes, kind) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            Err(errno) => Err(without(errno).into()),
        }
    }

    fn in_the_way(&self, bytes: &Bytes, kind: Kind) -> Result<Option<(Bytes, Kind)>> {
        let lock = ask(self, libc::F_OFD_GETLK, bytes, Some(kind)).map_err(without)?;
        let kind = match i32::from(lock.l_type) {
            libc::F_UNLCK => return Ok(None),
            libc::F_RDLCK => Kind::Shared,
            _ => Kind::Exclusive,
        };
        let start = lock.l_start as u64;
        let end = if lock.l_len == 0 { LAST } else { start + (lock.l_len as u64 - 1) };
        Ok(Some((start..=end, kind)))
    }
}

/// Maps errors of a file system that has no such locks.
fn without(errno: Errno) -> Errno {
    if matches!(errno, Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) { Errno::NOLCK } else { errno }
}

fn ask(fd: &OwnedFd, command: libc::c_int, bytes: &Bytes, kind: Option<Kind>) -> Result<libc::flock, Errno> {
    let kind = match kind {
        None => libc::F_UNLCK,
        Some(Kind::Shared) => libc::F_RDLCK,
        Some(Kind::Exclusive) => libc::F_WRLCK,
    };
    let (start, end) = (*bytes.start(), *bytes.end());
    let len = if end >= LAST { 0 } else { end - start + 1 };
    loop {
        // SAFETY: zero is a value of each field.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
        (lock.l_start, lock.l_len) = (start as libc::off_t, len as libc::off_t);
        // SAFETY: the file is open, and the lock lives until the call returns.
        if unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw mut lock) } == 0 {
            return Ok(lock);
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO) {
            Errno::INTR => {}
            errno => return Err(errno),
        }
    }
}

/// Locked ranges of one owner, by their first byte. None overlap.
#[derive(Clone, Debug, Default)]
pub struct Held(BTreeMap<u64, (u64, Kind)>);

impl Held {
    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no range is locked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Locks or releases bytes.
    pub fn set(&mut self, bytes: &Bytes, kind: Option<Kind>) {
        let (mut start, mut end) = (*bytes.start(), *bytes.end());
        let below = self.0.range(..start).next_back().map(|(s, (e, k))| (*s, *e, *k));
        let (first, last) = (below.map_or(start, |(s, ..)| s), end.saturating_add(1));
        let near: Vec<_> = self.0.range(first..=last).map(|(s, (e, k))| (*s, *e, *k)).collect();
        for (s, e, k) in near {
            if Some(k) == kind && e.saturating_add(1) >= start {
                self.0.remove(&s);
                (start, end) = (start.min(s), end.max(e));
            } else if e >= start && s <= end {
                self.0.remove(&s);
                if s < start {
                    self.0.insert(s, (start - 1, k));
                }
                if e > end {
                    self.0.insert(end + 1, (e, k));
                }
            }
        }
        if let Some(kind) = kind {
            self.0.insert(start, (end, kind));
        }
    }

    /// All bytes in order, as ranges with their lock, if any.
    pub fn all(&self) -> Vec<(Bytes, Option<Kind>)> {
        let (mut all, mut next) = (Vec::new(), 0);
        for (&start, &(end, kind)) in &self.0 {
            if next < start {
                all.push((next..=start - 1, None));
            }
            all.push((start..=end, Some(kind)));
            next = end.saturating_add(1);
        }
        if next <= LAST {
            all.push((next..=LAST, None));
        }
        all
    }

    /// First range that conflicts with a lock of another owner.
    pub fn in_the_way(&self, bytes: &Bytes, kind: Kind) -> Option<(Bytes, Kind)> {
        let all = self.0.range(..=*bytes.end()).map(|(s, (e, k))| (*s..=*e, *k));
        all.into_iter().find(|(held, k)| held.end() >= bytes.start() && kind.excludes(*k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind() -> impl Strategy<Value = Option<Kind>> {
        prop_oneof![Just(None), Just(Some(Kind::Shared)), Just(Some(Kind::Exclusive))]
    }

    proptest! {
        /// Compares with one entry for each byte.
        #[test]
        fn ranges_split_and_join_as_bytes_do(steps in prop::collection::vec((0..20u64, 0..8u64, kind()), 1..60)) {
            let (mut held, mut bytes) = (Held::default(), [None; 30]);
            for (start, more, kind) in steps {
                held.set(&(start..=start + more), kind);
                bytes[start as usize..=(start + more) as usize].fill(kind);
                let mut shown = [None; 30];
                for (s, (e, k)) in &held.0 {
                    shown[*s as usize..=*e as usize].fill(Some(*k));
                }
                prop_assert_eq!(shown, bytes);
                prop_assert_eq!(held.len(), bytes.chunk_by(|a, b| a == b).filter(|run| run[0].is_some()).count());
                for wanted in [Kind::Shared, Kind::Exclusive] {
                    let found = held.in_the_way(&(5..=9), wanted);
                    let there = bytes[5..=9].iter().flatten().any(|k| k.excludes(wanted));
                    prop_assert_eq!(found.is_some(), there);
                }
            }
        }
    }

    #[test]
    fn an_open_file_has_locks_of_its_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || -> OwnedFd { open(file.path(), OFlags::RDWR, Mode::empty()).unwrap() };
        let (one, other) = (open(), open());
        assert!(one.lock(&(0..=LAST), Some(Kind::Shared)).unwrap());
        assert!(other.lock(&(10..=19), Some(Kind::Shared)).unwrap());
        assert!(!one.lock(&(0..=LAST), Some(Kind::Exclusive)).unwrap());
        assert_eq!(one.in_the_way(&(5..=LAST), Kind::Exclusive).unwrap(), Some((10..=19, Kind::Shared)));
        assert_eq!(one.in_the_way(&(0..=9), Kind::Exclusive).unwrap(), None);
        assert_eq!(other.in_the_way(&(0..=0), Kind::Exclusive).unwrap(), Some((0..=LAST, Kind::Shared)));
        drop(other);
        assert!(one.lock(&(0..=LAST), Some(Kind::Exclusive)).unwrap());
    }
}
