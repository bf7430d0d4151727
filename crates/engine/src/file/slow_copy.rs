//! Slow copies below segments that were moved to a fast tier: moving those back costs nothing.
//!
//! A copy equals its segment until the segment is written: then it is stale and gets removed. Only this table lists
//! copies: the file's record doesn't name their objects, so nothing reads or writes them. A restart forgets all copies,
//! and the mover's records name the objects to remove. So a crash can lose copies, but no bytes of a file.
//!
//! Writers report their ranges while they hold `io` shared. Copies are added and used while it is held exclusively.

use parking_lot::Mutex;
use policy::layout::{Object, Segment};
use policy::{FileId, ObjectId, TargetId};
use std::collections::{BTreeMap, HashSet};
use std::ops::{Range, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Location of an object.
pub(crate) type Lies = (TargetId, ObjectId);

/// The copy of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowCopy {
    /// Objects of the segment that the copy equals.
    pub fast: Vec<ObjectId>,
    /// The segment that the copy would become.
    pub segment: Segment,
}

/// Copies of a volume.
#[derive(Debug, Default)]
pub struct SlowCopies {
    inner: Mutex<Inner>,
    /// Number of copies. Most volumes have none, and their writes check only this.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Copies by file and start of the segment.
    copies: BTreeMap<(FileId, u64), SlowCopy>,
    /// Useless copies, to be removed.
    stale: Vec<(FileId, u64, SlowCopy)>,
    /// Number of copies that a layout took back.
    returned: u64,
    /// Segments that lost their copy, since the last [`SlowCopies::take_gone`].
    gone: Vec<(FileId, u64)>,
}

impl Inner {
    /// Makes the selected copies in a range of keys stale.
    fn retire(&mut self, keys: impl RangeBounds<(FileId, u64)>, which: impl Fn(&(FileId, u64), &SlowCopy) -> bool) {
        for ((file, start), copy) in self.copies.extract_if(keys, |at, copy| which(at, copy)) {
            self.stale.push((file, start, copy));
            self.gone.push((file, start));
        }
    }
}

impl SlowCopies {
    /// Number of copies.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there are no copies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a copy.
    pub(crate) fn keep(&self, file: FileId, copy: SlowCopy) {
        self.change(|inner| {
            let start = copy.segment.start;
            if let Some(before) = inner.copies.insert((file, start), copy) {
                inner.stale.push((file, start, before));
            }
        });
    }

    /// The copy of a segment, if it is still equal.
    pub(crate) fn of(&self, file: FileId, segment: &Segment) -> Option<Segment> {
        let inner = self.inner.lock();
        let copy = inner.copies.get(&(file, segment.start))?;
        let same = segment.end == copy.segment.end && segment.objects.iter().map(|o| &o.id).eq(&copy.fast);
        same.then(|| copy.segment.clone())
    }

    /// Drops a copy that became a segment or was removed otherwise.
    pub(crate) fn release(&self, file: FileId, start: u64) {
        self.change(|inner| {
            inner.copies.remove(&(file, start));
            inner.returned += 1;
        });
    }

    /// Makes copies of a written range stale.
    pub(crate) fn written(&self, file: FileId, range: &Range<u64>) {
        if self.is_empty() {
            return;
        }
        self.change(|inner| {
            // Copies of a file don't overlap, so at most one begins before the range and reaches into it.
            let before = inner.copies.range((file, 0)..=(file, range.start)).next_back();
            let from = before.map_or((file, range.start), |(at, _)| *at);
            inner.retire(from..(file, range.end), |_, copy| range.start < copy.segment.end);
        });
    }

    /// Makes the selected copies stale.
    pub(crate) fn forget(&self, which: impl Fn(&(FileId, u64), &SlowCopy) -> bool) {
        self.change(|inner| inner.retire(.., which));
    }

    /// Stale copies that are not recorded as garbage so far.
    pub(crate) fn stale(&self) -> Vec<(FileId, u64, SlowCopy)> {
        self.inner.lock().stale.clone()
    }

    /// Drops stale copies that are recorded as garbage now.
    pub(crate) fn forget_stale(&self, remembered: &[(FileId, u64, SlowCopy)]) {
        let first = |copy: &SlowCopy| copy.segment.objects.first().map(|object| object.id);
        let remembered: HashSet<_> = remembered.iter().map(|(_, _, copy)| first(copy)).collect();
        self.inner.lock().stale.retain(|(_, _, copy)| !remembered.contains(&first(copy)));
    }

    /// Number of copies that a layout took back: each time a layout names objects that it did not name before.
    pub(crate) fn returned(&self) -> u64 {
        self.inner.lock().returned
    }

    /// Segments that lost their copy since the last call.
    pub(crate) fn take_gone(&self) -> Vec<(FileId, u64)> {
        std::mem::take(&mut self.inner.lock().gone)
    }

    /// Objects of all copies, which must not be removed as garbage.
    pub fn objects(&self) -> Vec<ObjectId> {
        if self.is_empty() {
            return Vec::new();
        }
        let inner = self.inner.lock();
        inner.copies.values().flat_map(|copy| copy.segment.objects.iter().map(|o| o.id)).collect()
    }

    /// Locations of the objects of all copies, including stale ones.
    pub(crate) fn lies(&self) -> Vec<Lies> {
        let inner = self.inner.lock();
        let copies = inner.copies.values().chain(inner.stale.iter().map(|(_, _, copy)| copy));
        copies.flat_map(|copy| lies(&copy.segment)).collect()
    }

    /// Objects of all copies of one file.
    pub(crate) fn objects_of(&self, file: FileId) -> Vec<ObjectId> {
        if self.is_empty() {
            return Vec::new();
        }
        let inner = self.inner.lock();
        let copies = inner.copies.range((file, 0)..=(file, u64::MAX));
        copies.flat_map(|(_, copy)| copy.segment.objects.iter().map(|o| o.id)).collect()
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        change(&mut inner);
        self.count.store(inner.copies.len(), Ordering::Release);
    }
}

/// Locations of a segment's objects.
pub(crate) fn lies(segment: &Segment) -> Vec<Lies> {
    segment.objects.iter().map(|object: &Object| (object.target, object.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: u64, object: u64) -> Segment {
        let object = Object::whole(ObjectId(object), TargetId(1));
        Segment { start, end: start + 100, stripe_size: 4096, objects: vec![object] }
    }

    #[test]
    fn a_copy_is_of_use_until_its_segment_is_written_or_lies_elsewhere() {
        let copies = SlowCopies::default();
        let (one, other) = (FileId(1), FileId(2));
        for (start, slow) in [(0, 10), (100, 11)] {
            copies.keep(one, SlowCopy { fast: vec![ObjectId(slow + 10)], segment: segment(start, slow) });
        }
        assert_eq!(copies.of(one, &segment(100, 21)), Some(segment(100, 11)));
        assert_eq!(copies.of(one, &segment(100, 99)), None, "the segment was moved by somebody else");
        assert_eq!(copies.of(other, &segment(100, 21)), None);
        assert_eq!(copies.objects(), [ObjectId(10), ObjectId(11)]);
        copies.written(other, &(0..200));
        copies.written(one, &(150..151));
        copies.written(one, &(200..300));
        assert_eq!((copies.len(), copies.of(one, &segment(100, 21))), (1, None));
        let stale: Vec<_> = copies.stale().into_iter().map(|(file, start, _)| (file, start)).collect();
        assert_eq!((stale, copies.take_gone()), (vec![(one, 100)], vec![(one, 100)]));
        copies.forget_stale(&copies.stale());
        copies.release(one, 0);
        assert_eq!(copies.returned(), 1);
        assert!(copies.is_empty() && copies.stale().is_empty(), "what is in use is nobody's garbage");
    }
}
