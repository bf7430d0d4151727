//! Locks on a stub in memory.

use crate::Result;
use crate::stub::locks::{Bytes, Held, Kind, Locker};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Locks of all owners with a descriptor for locks.
#[derive(Default)]
pub(super) struct Locks {
    held: BTreeMap<u64, Held>,
    next: u64,
    pub refuses: Option<Errno>,
}

impl Locks {
    pub fn len(&self) -> usize {
        self.held.len()
    }
}

struct MemoryLocker(u64, Arc<Mutex<Locks>>);

pub(super) fn open(locks: &Arc<Mutex<Locks>>) -> Box<dyn Locker> {
    let mut all = locks.lock();
    all.next += 1;
    let number = all.next;
    all.held.insert(number, Held::default());
    Box::new(MemoryLocker(number, locks.clone()))
}

impl Locker for MemoryLocker {
    fn lock(&self, bytes: &Bytes, kind: Option<Kind>) -> Result<bool> {
        let is_free = kind.map_or(Ok(None), |kind| self.in_the_way(bytes, kind))?.is_none();
        if is_free {
            let mut all = self.1.lock();
            all.held.entry(self.0).or_default().set(bytes, kind);
        }
        Ok(is_free)
    }

    fn in_the_way(&self, bytes: &Bytes, kind: Kind) -> Result<Option<(Bytes, Kind)>> {
        let all = self.1.lock();
        match all.refuses {
            Some(errno) => Err(errno.into()),
            None => {
                Ok(all.held.iter().filter(|(n, _)| **n != self.0).find_map(|(_, held)| held.in_the_way(bytes, kind)))
            }
        }
    }
}

impl Drop for MemoryLocker {
    fn drop(&mut self) {
        self.1.lock().held.remove(&self.0);
    }
}
