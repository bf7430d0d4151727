//! The access log: what applications did, written by their threads and taken by the loop.

use parking_lot::Mutex;
use policy::tier::{Region, Tier};
use policy::{FileId, Time};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum of unprocessed accesses. A guess: half a second at a hundred thousand accesses per second.
const WAITING_MAX: usize = 1 << 16;

/// Limit of queued files that were laid out or removed; those beyond it are reported by their next access.
const FILES_MAX: usize = 1 << 16;

/// An access to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time of the access.
    pub at: Time,
    /// File that was accessed.
    pub file: FileId,
    /// The index of its segment.
    pub segment: u64,
    /// Tier of the segment at the access.
    pub tier: Tier,
    /// Bytes of the access that lie in the segment.
    pub bytes: u64,
    /// Whether the access reads or writes.
    pub region: Region,
    /// Whether this is the last segment that the request touches.
    pub ends_request: bool,
}

/// Log of accesses. It is bounded, since an application never waits for it: excess accesses are counted and dropped.
#[derive(Default)]
pub struct AccessLog {
    accesses: Mutex<Vec<Access>>,
    laid_out: Mutex<Vec<FileId>>,
    removed: Mutex<Vec<FileId>>,
    lost: AtomicU64,
}

impl AccessLog {
    /// Records an access. Returns whether it is the first since the last look.
    pub fn access(&self, access: Access) -> bool {
        let mut accesses = self.accesses.lock();
        let is_first = accesses.is_empty();
        if accesses.len() < WAITING_MAX {
            accesses.push(access);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_first
    }

    /// Records that a file has new segments on the fast tier.
    pub fn laid_out(&self, file: FileId) {
        push(&self.laid_out, file);
    }

    /// Records that a file was removed.
    pub fn removed(&self, file: FileId) {
        push(&self.removed, file);
    }

    /// Takes the accesses, in their order.
    pub fn take_accesses(&self) -> Vec<Access> {
        std::mem::take(&mut *self.accesses.lock())
    }

    /// Takes the files with new segments on the fast tier, in their order.
    pub fn take_laid_out(&self) -> Vec<FileId> {
        std::mem::take(&mut *self.laid_out.lock())
    }

    /// Takes the removed files.
    pub fn take_removed(&self) -> Vec<FileId> {
        std::mem::take(&mut *self.removed.lock())
    }

    /// Number of accesses dropped since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

fn push(list: &Mutex<Vec<FileId>>, file: FileId) {
    let mut list = list.lock();
    if list.len() < FILES_MAX && list.last() != Some(&file) {
        list.push(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_its_bound_it_forgets_and_says_so() {
        let log = AccessLog::default();
        let access = |segment| Access {
            at: Time(segment),
            file: FileId(1),
            segment,
            tier: Tier::Slow,
            bytes: 1,
            region: Region::Read,
            ends_request: true,
        };
        (0..WAITING_MAX as u64 + 3).for_each(|segment| _ = log.access(access(segment)));
        assert_eq!((log.take_accesses().len(), log.take_lost(), log.take_lost()), (WAITING_MAX, 3, 0));
        assert!(log.access(access(7)));
        assert_eq!(log.take_accesses(), [access(7)]);
    }
}
