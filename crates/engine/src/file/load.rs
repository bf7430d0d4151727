//! Requests to a file by size, and which of several mirrors a read takes. A request is counted with one atomic addition
//! on its own thread, without a lock or a clock.
//!
//! The last requests are kept in a ring of [`WINDOW`] places, 1 KiB for each file in use from its first request on. The
//! ring has no lock: of two simultaneous requests one may be lost, and a reader may see the offset of one with the
//! length of another. A hint tolerates that.

use super::{Access, File, View};
use object::counters::Tally;
use parking_lot::RwLock;
use policy::pattern::features::WINDOW;
use policy::stripe::forks::{Chooser, Queue};
use policy::stripe::profile::{CLASSES, Count, Counts, class_of};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Load counters of one file.
#[derive(Default)]
pub struct Load {
    reads: [Tally; CLASSES],
    writes: [Tally; CLASSES],
    /// Number of requests so far; also the next place in the ring.
    came: AtomicU32,
    ring: OnceLock<Box<Ring>>,
    /// Whether there is a chooser; without one, reads check only this flag.
    chooses: AtomicBool,
    chooser: RwLock<Option<Arc<Chooser>>>,
}

/// Requests by their sequence number: offset, and length with the kind in its last bit.
struct Ring([(AtomicU64, AtomicU64); WINDOW]);

impl Ring {
    fn put(&self, at: u32, access: Access) {
        let (offset, len) = &self.0[at as usize % WINDOW];
        offset.store(access.offset, Ordering::Relaxed);
        len.store(access.len << 1 | u64::from(access.write), Ordering::Relaxed);
    }

    fn get(&self, at: u32) -> Access {
        let (offset, len) = &self.0[at as usize % WINDOW];
        let len = len.load(Ordering::Relaxed);
        Access { write: len & 1 == 1, offset: offset.load(Ordering::Relaxed), len: len >> 1 }
    }
}

impl Load {
    /// Counts a request of an application.
    pub fn count(&self, access: Access) {
        let at = self.came.load(Ordering::Relaxed);
        self.came.store(at.wrapping_add(1), Ordering::Relaxed);
        let empty = || Box::new(Ring([const { (AtomicU64::new(0), AtomicU64::new(0)) }; WINDOW]));
        self.ring.get_or_init(empty).put(at, access);
        let counts = if access.write { &self.writes } else { &self.reads };
        counts[class_of(access.len)].add(access.len);
    }

    /// The last requests, oldest first.
    pub fn recent(&self) -> Vec<Access> {
        let Some(ring) = self.ring.get() else { return Vec::new() };
        let came = self.came.load(Ordering::Relaxed);
        // After four billion requests the counter wraps, and the window restarts.
        let there = came.min(WINDOW as u32);
        (came - there..came).map(|at| ring.get(at)).collect()
    }

    /// Counts since the last call; `None` if there are none.
    pub fn take(&self) -> Option<Box<Counts>> {
        let mut counts: Option<Box<Counts>> = None;
        for class in 0..CLASSES {
            let ((reads, read), (writes, wrote)) = (self.reads[class].take(), self.writes[class].take());
            if reads + writes > 0 {
                counts.get_or_insert_default()[class] = Count { reads, writes, bytes: read + wrote };
            }
        }
        counts
    }

    /// Sets the chooser by which reads select a mirror; without one they take the first.
    pub fn set_chooser(&self, chooser: Option<Chooser>) {
        let mut there = self.chooser.write();
        self.chooses.store(chooser.is_some(), Ordering::Relaxed);
        *there = chooser.map(Arc::new);
    }

    /// Whether reads choose among mirrors.
    pub(super) fn chooses(&self) -> bool {
        self.chooses.load(Ordering::Relaxed)
    }

    fn chooser(&self) -> Option<Arc<Chooser>> {
        if self.chooses() { self.chooser.read().clone() } else { None }
    }
}

impl File {
    /// Load counters of the file.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Preferred mirror of a read: with a chooser the one in sync with the smallest predicted response time, otherwise
    /// the first in sync.
    pub(super) fn preferred(&self, view: &View, offset: u64, len: usize) -> Option<usize> {
        let first = view.in_sync().next()?;
        let (Some(layout), Some(chooser)) = (&view.layout, self.load.chooser()) else { return Some(first) };
        let cost = |mirror: usize| {
            let pieces = layout.mirrors[mirror].pieces(mirror, offset, len as u64);
            // A device serves all its parts of a request in one operation: count no device twice.
            let most = layout.mirrors[mirror].segments.iter().map(|s| s.objects.len()).max().unwrap_or(1);
            let queues = pieces
                .take(most)
                .map(|piece| view.slot(piece.at).target(&self.pool).map_or_else(|_| Queue::default(), |of| of.queue()));
            chooser.cost_s(len as u64, queues)
        };
        view.in_sync().map(|mirror| (cost(mirror), mirror)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, mirror)| mirror)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_size_and_taken_once() {
        let load = Load::default();
        for (write, len) in [(false, 4096), (false, 4096), (true, 1 << 20)] {
            load.count(Access { write, offset: 7, len });
        }
        let counts = load.take().expect("something was asked");
        assert_eq!((counts[0].reads, counts[0].writes, counts[0].bytes), (2, 0, 8192));
        assert_eq!((counts[8].reads, counts[8].writes, counts[8].bytes), (0, 1, 1 << 20));
        assert!(load.take().is_none());
    }

    #[test]
    fn the_last_requests_are_kept_in_their_order() {
        let load = Load::default();
        let access = |n: u64| Access { write: n.is_multiple_of(3), offset: n * 10, len: n + 1 };
        assert!(load.recent().is_empty());
        let request = |n: u64| Access { write: n.is_multiple_of(3), offset: n * 10, len: n + 1 };
        (0..20).for_each(|n| load.count(access(n)));
        assert_eq!(load.recent(), (0..20).map(request).collect::<Vec<_>>());
        (20..500).for_each(|n| load.count(access(n)));
        assert_eq!(load.recent(), (500 - WINDOW as u64..500).map(request).collect::<Vec<_>>());
    }
}
