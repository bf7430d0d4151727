//! The access log: what applications did, written by their threads and taken by the loop.

use parking_lot::Mutex;
use policy::tier::{Region, Tier};
use policy::{FileId, Time};

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
pub struct AccessLog(Mutex<Recorded>);

/// Records since the last look, in their order.
#[derive(Default)]
pub struct Recorded {
    pub accesses: Vec<Access>,
    /// Files with new segments on the fast tier.
    pub laid_out: Vec<FileId>,
    /// Files that were removed, after the accesses to them.
    pub removed: Vec<FileId>,
    /// Number of dropped accesses.
    pub lost: u64,
}

impl AccessLog {
    /// Records an access. Returns whether it is the first since the last look.
    pub fn access(&self, access: Access) -> bool {
        let mut recorded = self.0.lock();
        let is_first = recorded.accesses.is_empty();
        if recorded.accesses.len() < WAITING_MAX {
            recorded.accesses.push(access);
        } else {
            recorded.lost += 1;
        }
        is_first
    }

    /// Records that a file has new segments on the fast tier.
    pub fn laid_out(&self, file: FileId) {
        push(&mut self.0.lock().laid_out, file);
    }

    /// Records that a file was removed.
    pub fn removed(&self, file: FileId) {
        push(&mut self.0.lock().removed, file);
    }

    /// Takes the records.
    pub fn take(&self) -> Recorded {
        std::mem::take(&mut *self.0.lock())
    }
}

fn push(list: &mut Vec<FileId>, file: FileId) {
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
        let recorded = log.take();
        assert_eq!((recorded.accesses.len(), recorded.lost), (WAITING_MAX, 3));
        assert!(log.access(access(7)));
        let recorded = log.take();
        assert_eq!((recorded.accesses, recorded.lost), (vec![access(7)], 0));
    }
}
