//! Locks of users on a file shared by several nodes. The shared file system decides about each.
//!
//! ```text
//!   owner ── a process, or an open file ──> its descriptor of the stub ──> the shared file system, all nodes
//!                                           ranges that it has locked    : kept here
//! ```
//! The table here returns local conflicts, with the process, at once. It never grants a lock: only the shared file
//! system does, also between two owners on this node.

use super::File;
use crate::{Error, Result};
use meta::stub::locks::{Bytes, Held, Kind, LAST, Locker};
use object::admission;
use parking_lot::Mutex;
use policy::cluster::locks::Refusal;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lock owner, by a number from the kernel.
pub type Owner = u64;

/// A requested lock.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Owner of the lock.
    pub owner: Owner,
    /// Handle of the request; the lock ends with the handle.
    pub handle: u64,
    /// Process that is reported as the holder to other owners.
    pub process: u32,
    /// Range of the lock.
    pub bytes: Bytes,
    /// Shared or exclusive; `None` unlocks.
    pub kind: Option<Kind>,
}

/// Result of a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The lock was granted or released.
    Done,
    /// Another owner has a conflicting lock.
    Refused(Refusal),
}

/// A conflicting lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTheWay {
    /// Range of that lock.
    pub bytes: Bytes,
    /// Shared or exclusive.
    pub kind: Kind,
    /// Process that holds the lock; 0 if it is on another node.
    pub process: u32,
}

/// Admissions of a user: of the locked ranges (one at first), and of the descriptor.
pub type Admitted = (admission::Held, admission::Held);
/// Admits a user's range and descriptor.
pub type Admit<'a> = &'a (dyn Fn() -> Result<Admitted> + Sync);

/// The locks of a file.
#[derive(Default)]
pub(super) struct Locks(Mutex<BTreeMap<Owner, Arc<One>>>);

/// State of one lock owner.
struct One {
    /// Held during a call of the owner; `None` once the owner is removed from the table.
    locker: Mutex<Option<OneLocker>>,
    known: Mutex<Known>,
    /// Whether the file was closed: all locks are about to be released.
    closed: AtomicBool,
}

struct OneLocker {
    locker: Box<dyn Locker>,
    ranges: admission::Held,
    _descriptor: admission::Held,
}

#[derive(Default)]
struct Known {
    held: Held,
    /// Locks of calls that were answered: the owner relies on these.
    answered: Held,
    /// Number of calls that got a lock and have no answer yet.
    unanswered: usize,
    /// Set if a call that got a lock was given up: more than `answered` may be held.
    exceeds: bool,
    handle: Option<u64>,
    process: u32,
}

impl Locks {
    /// A conflicting lock of another owner on this node.
    fn in_the_way(&self, owner: Owner, bytes: &Bytes, kind: Kind) -> Option<(InTheWay, bool)> {
        let all = self.0.lock();
        all.iter().filter(|(other, _)| **other != owner).find_map(|(_, one)| {
            let known = one.known.lock();
            let (bytes, kind) = known.held.in_the_way(bytes, kind)?;
            Some((InTheWay { bytes, kind, process: known.process }, one.closed.load(Ordering::Acquire)))
        })
    }

    fn get(&self, owner: Owner) -> Option<Arc<One>> {
        self.0.lock().get(&owner).cloned()
    }

    /// Removes an owner without locks from the table.
    fn remove(&self, owner: Owner, one: &Arc<One>) {
        let mut all = self.0.lock();
        if all.get(&owner).is_some_and(|listed| Arc::ptr_eq(listed, one)) {
            all.remove(&owner);
        }
    }
}

impl File {
    /// Locks or unlocks bytes for an owner. Never waits for other owners; the shared file system may take its time. A
    /// holder sees all writes made before the previous holder released its lock. [`File::lock_answered`] or
    /// [`File::lock_given_up`] must follow for a lock that was granted, and then [`File::restore_locks`].
    ///
    /// # Errors
    /// `NOLCK` where locks do not reach the other nodes, or the user has too many.
    pub fn lock(self: &Arc<Self>, wanted: &Wanted, admit: Admit<'_>) -> Result<Locked> {
        let Some(kind) = wanted.kind else { return self.unlock(wanted.owner, &wanted.bytes).map(|()| Locked::Done) };
        if !self.cluster().is_some_and(|cluster| cluster.locks_reach()) {
            return Err(Errno::NOLCK.into());
        }
        loop {
            if let Some((_, closed)) = self.locks.in_the_way(wanted.owner, &wanted.bytes, kind) {
                return Ok(Locked::Refused(if closed { Refusal::Closed } else { Refusal::Here }));
            }
            let one = self.locker_of(wanted.owner, admit)?;
            if one.closed.load(Ordering::Acquire) {
                // The kernel may have reused the number for another process; its locks must not end with those of the
                // first.
                return Ok(Locked::Refused(Refusal::Closed));
            }
            let mut asked = one.locker.lock();
            let Some(OneLocker { locker, ranges, .. }) = asked.as_mut() else { continue };
            // The new range, and one more if it splits an existing range.
            let room = ranges.resize(one.known.lock().held.len() as u64 + 2);
            room.map_err(|_| Error::from(Errno::NOLCK))?;
            let done = locker.lock(&wanted.bytes, Some(kind));
            let mut known = one.known.lock();
            if matches!(done, Ok(true)) {
                known.held.set(&wanted.bytes, Some(kind));
                known.unanswered += 1;
                (known.handle, known.process) = (Some(wanted.handle), wanted.process);
            }
            ranges.set(known.held.len().max(1) as u64);
            drop(known);
            drop(asked);
            if !done? {
                return Ok(Locked::Refused(Refusal::Elsewhere));
            }
            if let Err(error) = self.refresh() {
                self.lock_given_up(wanted.owner);
                self.restore_locks(wanted.owner)?;
                return Err(error);
            }
            return Ok(Locked::Done);
        }
    }

    fn locker_of(&self, owner: Owner, admit: Admit<'_>) -> Result<Arc<One>> {
        if let Some(one) = self.locks.get(owner) {
            return Ok(one);
        }
        let (ranges, _descriptor) = admit()?;
        let new = OneLocker { ranges, _descriptor, locker: self.stub.locker()? };
        let new = One { locker: Mutex::new(Some(new)), known: Mutex::default(), closed: AtomicBool::new(false) };
        Ok(self.locks.0.lock().entry(owner).or_insert_with(|| Arc::new(new)).clone())
    }

    fn unlock(&self, owner: Owner, bytes: &Bytes) -> Result<()> {
        let Some(one) = self.locks.get(owner) else { return Ok(()) };
        let mut locker = one.locker.lock();
        let Some(OneLocker { locker: asked, ranges, .. }) = locker.as_mut() else { return Ok(()) };
        let all = one.known.lock().held.len() as u64;
        // Unlocking a part of a range may leave two.
        ranges.resize(all + 1).map_err(|_| Error::from(Errno::NOLCK))?;
        asked.lock(bytes, None)?;
        let mut known = one.known.lock();
        known.held.set(bytes, None);
        known.answered.set(bytes, None);
        ranges.set(known.held.len().max(1) as u64);
        if known.held.is_empty() {
            drop(known);
            self.locks.remove(owner, &one);
            *locker = None;
        }
        Ok(())
    }

    /// Records that the owner is about to get the answer that a lock was granted.
    pub fn lock_answered(&self, wanted: &Wanted) {
        let Some(one) = self.locks.get(wanted.owner) else { return };
        let mut known = one.known.lock();
        if known.unanswered > 0 {
            known.unanswered -= 1;
            known.answered.set(&wanted.bytes, wanted.kind);
        }
    }

    /// Records that a lock was granted after the call was answered with an error.
    pub fn lock_given_up(&self, owner: Owner) {
        let Some(one) = self.locks.get(owner) else { return };
        let mut known = one.known.lock();
        if known.unanswered > 0 {
            known.unanswered -= 1;
            known.exceeds = true;
        }
    }

    /// Releases locks of calls that were given up, once all calls of the owner are answered. Another call of the owner
    /// for the same bytes keeps its lock.
    pub fn restore_locks(&self, owner: Owner) -> Result<()> {
        let is_due = |known: &Known| known.exceeds && known.unanswered == 0;
        let Some(one) = self.locks.get(owner).filter(|one| is_due(&one.known.lock())) else { return Ok(()) };
        let mut locker = one.locker.lock();
        let Some(OneLocker { locker: asked, ranges, .. }) = locker.as_mut() else { return Ok(()) };
        let answered = Some(one.known.lock()).filter(|known| is_due(known)).map(|known| known.answered.clone());
        let Some(answered) = answered else { return Ok(()) };
        for (bytes, kind) in answered.all() {
            asked.lock(&bytes, kind)?; // weaker than what is held, so that nobody is in the way
        }
        ranges.set(answered.len().max(1) as u64);
        let is_empty = answered.is_empty();
        let mut known = one.known.lock();
        (known.held, known.exceeds) = (answered, false);
        drop(known);
        if is_empty {
            self.locks.remove(owner, &one);
            *locker = None;
        }
        Ok(())
    }

    /// Cleans up after a call of an owner that got no lock: closes the descriptor unless it has other locks.
    pub fn lock_not_taken(&self, owner: Owner) {
        let Some(one) = self.locks.get(owner) else { return };
        // If another call of the owner is running, it does this cleanup at its end.
        let Some(mut locker) = one.locker.try_lock() else { return };
        if one.known.lock().held.is_empty() {
            self.locks.remove(owner, &one);
            *locker = None;
        }
    }

    /// A conflicting lock, on any node.
    pub fn in_the_way(&self, owner: Owner, bytes: &Bytes, kind: Kind) -> Result<Option<InTheWay>> {
        if let Some((found, _)) = self.locks.in_the_way(owner, bytes, kind) {
            return Ok(Some(found));
        }
        let show = |found: Option<(Bytes, Kind)>| found.map(|(bytes, kind)| InTheWay { bytes, kind, process: 0 });
        if let Some(one) = self.locks.get(owner)
            && let Some(locker) = &*one.locker.lock()
        {
            return locker.locker.in_the_way(bytes, kind).map(show);
        }
        self.stub.locker()?.in_the_way(bytes, kind).map(show)
    }

    /// Marks the locks of a process that closed the file; returns whether it had any. [`File::give_locks_back`] must
    /// follow.
    pub fn has_closed(&self, owner: Owner) -> bool {
        let one = self.locks.get(owner);
        one.inspect(|one| one.closed.store(true, Ordering::Release)).is_some()
    }

    /// Marks the locks that end with a handle; returns their owners. [`File::give_locks_back`] must follow for each.
    pub fn have_closed(&self, handle: u64) -> Vec<Owner> {
        let all = self.locks.0.lock();
        let ends = |one: &Arc<One>| one.known.lock().handle == Some(handle);
        let ended = all.iter().filter(|(_, one)| ends(one));
        ended.inspect(|(_, one)| one.closed.store(true, Ordering::Release)).map(|(owner, _)| *owner).collect()
    }

    /// Releases all locks of an owner.
    pub fn give_locks_back(&self, owner: Owner) {
        let Some(one) = self.locks.get(owner) else { return };
        let mut locker = one.locker.lock();
        if let Some(OneLocker { locker, .. }) = locker.take()
            && !one.known.lock().held.is_empty()
            && let Err(error) = locker.lock(&(0..=LAST), None)
        {
            // Closing the descriptor releases them anyway, at a time that the shared file system chooses.
            tracing::debug!("locks of a closed file are not given back at once: {error}");
        }
        self.locks.remove(owner, &one);
    }
}

#[cfg(test)]
mod tests;
