//! Users that have a file open, and the one charged for the descriptors of its objects. It is the last user that opened
//! the file for writing, else the first. After that user closed it, another holder is charged.

use crate::{Error, Result};
use engine::file::Payer;
use object::admission::{Admission, Held};
use parking_lot::Mutex;
use policy::shares::Refusal;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Errno for a user that may not open more files: the system's own for its limit of open files.
pub fn errno(_: Refusal) -> Errno {
    Errno::NFILE
}

/// The users of one open file.
pub struct Holders {
    admission: Arc<Admission>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Number of opens by user.
    users: BTreeMap<u32, usize>,
    objects: Option<Held>,
}

/// One open of a file by a user, closed when dropped.
pub struct Entered {
    holders: Arc<Holders>,
    handle: Held,
}

impl Holders {
    /// Makes an empty set of holders.
    pub fn new(admission: Arc<Admission>) -> Arc<Holders> {
        Arc::new(Holders { admission, inner: Mutex::default() })
    }

    /// Adds an open by a user of a file that has `objects` objects now. `handle` is the admission of the open itself.
    pub fn enter(self: &Arc<Self>, handle: Held, writable: bool, objects: u64) -> Result<Entered> {
        let uid = handle.uid();
        let mut inner = self.inner.lock();
        match &mut inner.objects {
            Some(held) if held.uid() == uid || !writable => held.set(objects),
            _ => inner.objects = Some(self.admission.take(uid, objects).map_err(errno)?),
        }
        *inner.users.entry(uid).or_default() += 1;
        drop(inner);
        Ok(Entered { holders: self.clone(), handle })
    }

    fn leave(&self, uid: u32) {
        let mut inner = self.inner.lock();
        match inner.users.get_mut(&uid) {
            Some(n) if *n > 1 => return *n -= 1,
            _ => inner.users.remove(&uid),
        };
        let next = inner.users.keys().next().copied();
        match &inner.objects {
            Some(held) if held.uid() == uid => {
                let n = held.n();
                inner.objects = next.map(|next| self.admission.force(next, n));
            }
            _ => {}
        }
    }
}

impl Payer for Holders {
    fn admit(&self, objects: u64) -> Result<()> {
        let inner = self.inner.lock();
        inner
            .objects
            .as_ref()
            .map_or(Ok(()), |held| held.admits(objects))
            .map_err(|refusal| Error::from(errno(refusal)))
    }

    fn has(&self, objects: u64) {
        if let Some(held) = &mut self.inner.lock().objects {
            held.set(objects);
        }
    }
}

impl Entered {
    /// User that opened it.
    pub fn uid(&self) -> u32 {
        self.handle.uid()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.holders.leave(self.handle.uid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_answered_for_by_one_who_has_the_file_open() {
        let all = Admission::new(100, 0);
        let own = rustix::process::geteuid().as_raw();
        let (a, b) = (own + 1, own + 2);
        let held = |uid| all.take(uid, 1).unwrap();
        let holders = Holders::new(all.clone());
        let first = holders.enter(held(a), false, 4).unwrap();
        let second = holders.enter(held(b), false, 4).unwrap();
        assert_eq!(all.used(), 2 + 4, "objects are counted once");
        let writer = holders.enter(held(b), true, 4).unwrap();
        holders.has(20);
        assert_eq!(all.used(), 3 + 20);
        assert_eq!(holders.admit(60).unwrap_err().errno(), Errno::NFILE, "b answers for what it makes grow");
        drop(writer);
        assert_eq!(all.used(), 2 + 20, "b still has it open");
        drop(second);
        assert_eq!(all.used(), 1 + 20);
        drop(first);
        assert_eq!(all.used(), 0);
    }
}
