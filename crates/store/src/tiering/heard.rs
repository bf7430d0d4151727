//! What applications did, noted by their threads and taken by ours.

use parking_lot::Mutex;
use policy::Time;
use policy::tier::{Location, Tier};
use std::sync::atomic::{AtomicU64, Ordering};

/// Accesses that wait to be looked at. A guess: half a second of a hundred thousand a second.
const WAITING_MAX: usize = 1 << 16;

/// Segments that were laid out and wait to be looked at; beyond that, the next access to each tells.
const LAID_OUT_MAX: usize = 1 << 16;

/// A segment that was just laid out on the fast tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaidOut {
    /// The segment.
    pub location: Location,
    /// Its bytes.
    pub segment_bytes: u64,
}

/// An access to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When.
    pub at: Time,
    /// The segment.
    pub location: Location,
    /// Where it lay.
    pub tier: Tier,
    /// Bytes of the segment.
    pub segment_bytes: u64,
    /// Bytes of the access that lie in it.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

/// Bounded: what finds no room is counted and forgotten, since an application never waits for this.
#[derive(Default)]
pub struct Heard {
    waiting: Mutex<Vec<Access>>,
    laid_out: Mutex<Vec<LaidOut>>,
    removed: Mutex<Vec<u64>>,
    lost: AtomicU64,
}

impl Heard {
    /// Notes one.
    pub fn note(&self, access: Access) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push(access);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes a new segment on the fast tier.
    pub fn note_laid_out(&self, segment: LaidOut) {
        let mut laid_out = self.laid_out.lock();
        if laid_out.len() < LAID_OUT_MAX {
            laid_out.push(segment);
        }
    }

    /// The new segments on the fast tier, in their order.
    pub fn take_laid_out(&self) -> Vec<LaidOut> {
        std::mem::take(&mut *self.laid_out.lock())
    }

    /// Notes a file that is gone.
    pub fn note_removed(&self, file: u64) {
        let mut removed = self.removed.lock();
        if removed.len() < LAID_OUT_MAX {
            removed.push(file);
        }
    }

    /// The files that are gone.
    pub fn take_removed(&self) -> Vec<u64> {
        std::mem::take(&mut *self.removed.lock())
    }

    /// All, in their order.
    pub fn take(&self) -> Vec<Access> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// How many were forgotten since this was last asked.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_its_bound_it_forgets_and_says_so() {
        let heard = Heard::default();
        let access = |block| Access {
            at: Time(block),
            location: Location { file: 1, segment: block },
            tier: Tier::Slow,
            segment_bytes: 1,
            bytes: 1,
            write: false,
        };
        (0..WAITING_MAX as u64 + 3).for_each(|block| heard.note(access(block)));
        assert_eq!((heard.take().len(), heard.take_lost(), heard.take_lost()), (WAITING_MAX, 3, 0));
        heard.note(access(7));
        assert_eq!(heard.take(), [access(7)]);
    }
}
