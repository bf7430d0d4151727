//! Slow copies that are kept below segments that were moved to a fast tier, so that moving them back costs nothing.
//!
//! A copy is equal to its segment until the segment is written: then it is stale, and goes. Only this table knows of it; the file's record
//! does not name its objects, so nothing reads or writes them, and a restart forgets all copies (the mover's records say which objects
//! to remove then). So a crash can lose copies, and never bytes of a file.
//!
//! Writers tell of what they write while they hold `io` shared, and copies come and are used while it is held exclusively.

use parking_lot::Mutex;
use policy::layout::{Object, Segment};
use policy::{FileId, ObjectId, TargetId};
use std::collections::{BTreeMap, HashSet};
use std::ops::{Range, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object and where it lies.
pub(crate) type Lies = (TargetId, ObjectId);

/// The copy of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowCopy {
    /// The objects of the segment that it is equal to.
    pub fast: Vec<ObjectId>,
    /// The segment as it would be made of the copy.
    pub segment: Segment,
}

/// The copies of a volume.
#[derive(Debug, Default)]
pub struct SlowCopies {
    inner: Mutex<Inner>,
    /// How many there are: most volumes have none, and a write looks no further then.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    /// By file and start of the segment.
    copies: BTreeMap<(FileId, u64), SlowCopy>,
    /// Copies that are of no use any more and wait to be removed.
    stale: Vec<(FileId, u64, SlowCopy)>,
    /// How many copies a layout took back.
    returned: u64,
    /// Segments that lost their copy, until somebody asks.
    gone: Vec<(FileId, u64)>,
}

impl Inner {
    /// Makes those copies stale, of the ones with such keys, that are meant.
    fn retire(&mut self, keys: impl RangeBounds<(FileId, u64)>, which: impl Fn(&(FileId, u64), &SlowCopy) -> bool) {
        for ((file, start), copy) in self.copies.extract_if(keys, |at, copy| which(at, copy)) {
            self.stale.push((file, start, copy));
            self.gone.push((file, start));
        }
    }
}

impl SlowCopies {
    /// How many copies there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy is there from now on.
    pub(crate) fn keep(&self, file: FileId, copy: SlowCopy) {
        self.change(|inner| {
            let start = copy.segment.start;
            if let Some(before) = inner.copies.insert((file, start), copy) {
                inner.stale.push((file, start, before));
            }
        });
    }

    /// The copy of a segment, if it is equal to it.
    pub(crate) fn of(&self, file: FileId, segment: &Segment) -> Option<Segment> {
        let inner = self.inner.lock();
        let copy = inner.copies.get(&(file, segment.start))?;
        let same = segment.end == copy.segment.end && segment.objects.iter().map(|o| &o.id).eq(&copy.fast);
        same.then(|| copy.segment.clone())
    }

    /// The copy of the segment that starts there is in use now, or was removed otherwise: it is no copy any more.
    pub(crate) fn release(&self, file: FileId, start: u64) {
        self.change(|inner| {
            inner.copies.remove(&(file, start));
            inner.returned += 1;
        });
    }

    /// A range of a file is written: copies of it are stale.
    pub(crate) fn written(&self, file: FileId, range: &Range<u64>) {
        if self.is_empty() {
            return;
        }
        self.change(|inner| {
            // Copies of segments that the file has do not overlap, and no others are ever used.
            let before = inner.copies.range((file, 0)..=(file, range.start)).next_back();
            let from = before.map_or((file, range.start), |(at, _)| *at);
            inner.retire(from..(file, range.end), |_, copy| range.start < copy.segment.end);
        });
    }

    /// These copies are of no use any more.
    pub(crate) fn forget(&self, which: impl Fn(&(FileId, u64), &SlowCopy) -> bool) {
        self.change(|inner| inner.retire(.., which));
    }

    /// Copies that wait to be removed.
    pub(crate) fn stale(&self) -> Vec<(FileId, u64, SlowCopy)> {
        self.inner.lock().stale.clone()
    }

    /// These are remembered as garbage.
    pub(crate) fn forget_stale(&self, remembered: &[(FileId, u64, SlowCopy)]) {
        let first = |copy: &SlowCopy| copy.segment.objects.first().map(|object| object.id);
        let remembered: HashSet<_> = remembered.iter().map(|(_, _, copy)| first(copy)).collect();
        self.inner.lock().stale.retain(|(_, _, copy)| !remembered.contains(&first(copy)));
    }

    /// How many copies a layout took back so far: then it names objects again that it did not name before.
    pub(crate) fn returned(&self) -> u64 {
        self.inner.lock().returned
    }

    /// The segments that lost their copy since this was last asked.
    pub(crate) fn take_gone(&self) -> Vec<(FileId, u64)> {
        std::mem::take(&mut self.inner.lock().gone)
    }

    /// The objects of all copies: nobody may remove them as garbage.
    pub fn objects(&self) -> Vec<ObjectId> {
        if self.is_empty() {
            return Vec::new();
        }
        let inner = self.inner.lock();
        inner.copies.values().flat_map(|copy| copy.segment.objects.iter().map(|o| o.id)).collect()
    }

    /// Where the objects of all copies lie, of those that wait to be removed, too.
    pub(crate) fn lies(&self) -> Vec<Lies> {
        let inner = self.inner.lock();
        let copies = inner.copies.values().chain(inner.stale.iter().map(|(_, _, copy)| copy));
        copies.flat_map(|copy| lies(&copy.segment)).collect()
    }

    /// The same of one file's copies.
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

/// Where the objects of a segment lie.
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
