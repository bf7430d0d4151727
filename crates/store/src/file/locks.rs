//! Locks of users on a file that several nodes have: the shared file system decides who has one.
//!
//! ```text
//!   owner ── a process, or an open file ──> its descriptor of the stub ──> the shared file system, all nodes
//!                                           what it has locked           : kept here
//! ```
//! What is kept here says at once who of this node is in the way, and whose process it is. It never gives a lock: that is done by the
//! shared file system alone, also between two of this node.

use super::File;
use crate::admission;
use crate::stub::locks::{Bytes, Held, Kind, LAST, Locker};
use crate::{Error, Result};
use parking_lot::Mutex;
use policy::cluster::locks::Refusal;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who has a lock, by a number that the kernel gives.
pub type Owner = u64;

/// A lock that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// For whom.
    pub owner: Owner,
    /// The handle through which it is wanted: with it the lock goes.
    pub handle: u64,
    /// The process, for those who ask who has it.
    pub process: u32,
    /// What.
    pub bytes: Bytes,
    /// How; `None` gives it back.
    pub kind: Option<Kind>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// It is so.
    Done,
    /// Somebody else has it.
    Refused(Refusal),
}

/// A lock that is in the way of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTheWay {
    /// What is locked.
    pub bytes: Bytes,
    /// How.
    pub kind: Kind,
    /// The process that locked it; 0 if it is on another node.
    pub process: u32,
}

/// What counts for a user: the ranges that are remembered, of which there is one at first, and the descriptor.
pub type Admitted = (admission::Held, admission::Held);
/// Admits a user to both.
pub type Admit<'a> = &'a (dyn Fn() -> Result<Admitted> + Sync);

/// The locks of a file.
#[derive(Default)]
pub(super) struct Locks(Mutex<BTreeMap<Owner, Arc<One>>>);

/// One owner.
struct One {
    /// One call at a time; `None` once it is out of the list.
    locker: Mutex<Option<OneLocker>>,
    known: Mutex<Known>,
    /// Its file was closed: all of it is about to be given back.
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
    handle: Option<u64>,
    process: u32,
}

impl Locks {
    /// What another owner of this node has locked.
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

    /// Takes an owner out of the list that has no lock, or no longer.
    fn remove(&self, owner: Owner, one: &Arc<One>) {
        let mut all = self.0.lock();
        if all.get(&owner).is_some_and(|listed| Arc::ptr_eq(listed, one)) {
            all.remove(&owner);
        }
    }
}

impl File {
    /// Locks bytes for an owner, or gives them back. Nobody waits here for other owners; the shared file system may take its time.
    /// Who has a lock sees from then on what others wrote before they gave theirs back.
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
                // The kernel may have given the number to another, whose locks must not go with those of the first.
                return Ok(Locked::Refused(Refusal::Closed));
            }
            let mut asked = one.locker.lock();
            let Some(OneLocker { locker, ranges, .. }) = asked.as_mut() else { continue };
            // One more, and what is locked there now is cut in two at most.
            let room = ranges.resize(one.known.lock().held.len() as u64 + 2);
            room.map_err(|_| Error::from(Errno::NOLCK))?;
            let done = locker.lock(&wanted.bytes, Some(kind));
            let mut known = one.known.lock();
            if matches!(done, Ok(true)) {
                known.held.set(&wanted.bytes, Some(kind));
                (known.handle, known.process) = (Some(wanted.handle), wanted.process);
            }
            ranges.set(known.held.len().max(1) as u64);
            drop(known);
            drop(asked);
            if !done? {
                return Ok(Locked::Refused(Refusal::Elsewhere));
            }
            if let Err(error) = self.forget_what_others_changed(false) {
                self.unlock(wanted.owner, &wanted.bytes)?;
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
        // A part of a range that is given back may leave two.
        ranges.resize(all + 1).map_err(|_| Error::from(Errno::NOLCK))?;
        asked.lock(bytes, None)?;
        let mut known = one.known.lock();
        known.held.set(bytes, None);
        ranges.set(known.held.len().max(1) as u64);
        if known.held.is_empty() {
            drop(known);
            self.locks.remove(owner, &one);
            *locker = None;
        }
        Ok(())
    }

    /// A call of an owner ended without a lock: what it has open for it goes, unless it has others.
    pub fn lock_not_taken(&self, owner: Owner) {
        let Some(one) = self.locks.get(owner) else { return };
        // Where another call of it is under way, that one ends later.
        let Some(mut locker) = one.locker.try_lock() else { return };
        if one.known.lock().held.is_empty() {
            self.locks.remove(owner, &one);
            *locker = None;
        }
    }

    /// What is in the way of a lock.
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

    /// A process closed the file: whether it had locks. They are to be given back by [`File::give_locks_back`].
    pub fn has_closed(&self, owner: Owner) -> bool {
        let one = self.locks.get(owner);
        one.inspect(|one| one.closed.store(true, Ordering::Release)).is_some()
    }

    /// A handle ended: whose locks end with it. They are to be given back likewise.
    pub fn have_closed(&self, handle: u64) -> Vec<Owner> {
        let all = self.locks.0.lock();
        let ends = |one: &Arc<One>| one.known.lock().handle == Some(handle);
        let ended = all.iter().filter(|(_, one)| ends(one));
        ended.inspect(|(_, one)| one.closed.store(true, Ordering::Release)).map(|(owner, _)| *owner).collect()
    }

    /// Gives back all that an owner has.
    pub fn give_locks_back(&self, owner: Owner) {
        let Some(one) = self.locks.get(owner) else { return };
        let mut locker = one.locker.lock();
        if let Some(OneLocker { locker, .. }) = locker.take()
            && !one.known.lock().held.is_empty()
            && let Err(error) = locker.lock(&(0..=LAST), None)
        {
            // With the descriptor, which is closed now, they go all the same, in the shared file system's own time.
            tracing::debug!("locks of a closed file are not given back at once: {error}");
        }
        self.locks.remove(owner, &one);
    }
}

#[cfg(test)]
mod tests;
