//! What is asked of a file, by size: counted where it is asked, without a lock or a look at the clock, and taken over by whoever
//! looks now and then. And the other way round: which of several mirrors a read takes.

use super::{Access, File, View};
use parking_lot::RwLock;
use policy::stripe::forks::Chooser;
use policy::stripe::profile::{CLASSES, Counts, class_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The counters of one file.
#[derive(Default)]
pub struct Load {
    reads: [AtomicU32; CLASSES],
    writes: [AtomicU32; CLASSES],
    bytes: [AtomicU64; CLASSES],
    /// Whether there is a chooser: all that most files look at.
    chooses: AtomicBool,
    chooser: RwLock<Option<Arc<Chooser>>>,
}

impl Load {
    /// A request of an application.
    pub fn count(&self, access: Access) {
        let class = class_of(access.len);
        let requests = if access.write { &self.writes } else { &self.reads };
        requests[class].fetch_add(1, Ordering::Relaxed);
        self.bytes[class].fetch_add(access.len, Ordering::Relaxed);
    }

    /// What was counted since the last time; `None`: nothing.
    pub fn take(&self) -> Option<Box<Counts>> {
        let mut counts: Option<Box<Counts>> = None;
        for class in 0..CLASSES {
            // Most classes of most files are never asked for: looking is cheaper than taking.
            if self.bytes[class].load(Ordering::Relaxed) == 0 {
                continue;
            }
            let count = &mut counts.get_or_insert_default()[class];
            count.reads = self.reads[class].swap(0, Ordering::Relaxed).into();
            count.writes = self.writes[class].swap(0, Ordering::Relaxed).into();
            count.bytes = self.bytes[class].swap(0, Ordering::Relaxed);
        }
        counts
    }

    /// From now on reads choose among mirrors with this; without one they take the first.
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
    /// What is asked of it.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// The mirror that a read takes if it can: of several in sync the one with the smallest predicted response time, if somebody
    /// knows the devices; else the first.
    pub(super) fn preferred(&self, view: &View, offset: u64, len: usize) -> Option<usize> {
        let first = view.in_sync().next()?;
        let (Some(layout), Some(chooser)) = (&view.layout, self.load.chooser()) else { return Some(first) };
        let cost = |mirror: usize| {
            let pieces = layout.mirrors[mirror].pieces(mirror, offset, len as u64);
            // A device that a request comes back to after a round serves it in one go: count no device twice.
            let most = layout.mirrors[mirror].segments.iter().map(|s| s.objects.len()).max().unwrap_or(1);
            let (mut span, mut queue) = (0, 0);
            for piece in pieces.take(most) {
                span += 1;
                queue =
                    queue.max(view.slot(piece.at).target(&self.pool).map_or(0, |target| target.counters().under_way()));
            }
            chooser.cost_s(len as u64, span, queue)
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
}
