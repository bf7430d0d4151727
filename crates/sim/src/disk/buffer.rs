//! The segments of a drive's buffer: which ranges it holds, which of them are not on the medium yet.

use super::model::Buffer;

/// One segment: sectors `[start, end)`; of them `[dirty_start, end)` wait to be written if `dirty`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// First sector held.
    pub start: u64,
    /// The sector behind the last one held.
    pub end: u64,
    /// First sector not yet on the medium.
    pub dirty_start: u64,
    /// Whether something is not yet on the medium.
    pub dirty: bool,
    /// Since when it waits.
    pub dirty_since_ns: u64,
    used: u64,
}

/// All segments of one drive.
#[derive(Debug)]
pub struct Segments {
    segments: Vec<Segment>,
    limits: Buffer,
    clock: u64,
}

impl Segments {
    /// Empty segments.
    pub fn new(limits: Buffer) -> Segments {
        Segments { segments: vec![Segment::default(); limits.segments], limits, clock: 0 }
    }

    /// The segment called `index`.
    pub fn get(&self, index: usize) -> Segment {
        self.segments[index]
    }

    /// The segment that holds `sector`, or ends just before it.
    pub fn reaching(&self, sector: u64) -> Option<usize> {
        let holds = |segment: &Segment| segment.start <= sector && sector <= segment.end && segment.start < segment.end;
        // Holding the sector counts more than ending before it.
        let inside = self.segments.iter().position(|segment| holds(segment) && sector < segment.end);
        inside.or_else(|| self.segments.iter().position(holds))
    }

    /// Use `index`: it becomes the last to be reused.
    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
    }

    /// Empty the least recently used segment that is clean, to start at `sector`. `None` if all are dirty.
    pub fn reuse(&mut self, sector: u64) -> Option<usize> {
        let clean = self.segments.iter().enumerate().filter(|(_, segment)| !segment.dirty);
        let (index, _) = clean.min_by_key(|(_, segment)| segment.used)?;
        self.segments[index] = Segment { start: sector, end: sector, ..Segment::default() };
        self.touch(index);
        Some(index)
    }

    /// `index` now holds everything up to `end`; what no longer fits is forgotten from its front.
    pub fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        debug_assert!(!segment.dirty);
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.limits.segment_sectors));
    }

    /// `count` sectors before those of `index` were read as well; not where newer data waits to be written.
    pub fn extend_front(&mut self, index: usize, count: u64) {
        let from = self.segments[index].start;
        let before = self.segments.iter().filter(|other| other.dirty && other.start < from);
        let waiting = before.map(|other| other.end.min(from));
        let start = (from - count.min(from)).max(waiting.max().unwrap_or(0));
        self.segments[index].start = start;
    }

    /// `[sector, end)` was written into `index`, which reaches `sector`, and waits for the medium since `now_ns`.
    pub fn write(&mut self, index: usize, sector: u64, end: u64, now_ns: u64) {
        let segment = &mut self.segments[index];
        if !segment.dirty {
            segment.dirty = true;
            segment.dirty_start = sector;
            segment.dirty_since_ns = now_ns;
            // What followed the written range is forgotten: a segment is dirty to its end.
            segment.end = end;
        }
        segment.dirty_start = segment.dirty_start.min(sector);
        segment.end = segment.end.max(end);
        let oldest = segment.end.saturating_sub(self.limits.segment_sectors);
        segment.start = segment.start.max(oldest).min(segment.dirty_start);
        self.touch(index);
    }

    /// Whether `[sector, end)` can be added to what waits in `index`, or start waiting there.
    pub fn takes_write(&self, index: usize, sector: u64, end: u64) -> bool {
        let segment = &self.segments[index];
        let first = if segment.dirty { segment.dirty_start.min(sector) } else { sector };
        let joined = !segment.dirty || segment.dirty_start <= end;
        joined && segment.end.max(end) - first <= self.limits.segment_sectors
    }

    /// The segment whose data waits longest.
    pub fn oldest_dirty(&self) -> Option<usize> {
        let dirty = self.segments.iter().enumerate().filter(|(_, segment)| segment.dirty);
        dirty.min_by_key(|(_, segment)| segment.dirty_since_ns).map(|(index, _)| index)
    }

    /// How many segments wait for the medium.
    pub fn dirty(&self) -> usize {
        self.segments.iter().filter(|segment| segment.dirty).count()
    }

    /// What waited in `index` is on the medium.
    pub fn written(&mut self, index: usize) {
        self.segments[index].dirty = false;
    }

    /// Forget `[sector, end)` everywhere but in `except`. A dirty segment that overlaps is named instead: it has to be
    /// written first.
    pub fn forget(&mut self, sector: u64, end: u64, except: Option<usize>) -> Option<usize> {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if Some(index) == except || segment.end <= sector || end <= segment.start {
                continue;
            }
            if segment.dirty {
                return Some(index);
            }
            if segment.start < sector {
                segment.end = sector;
            } else {
                segment.start = end.min(segment.end);
            }
        }
        None
    }

    /// Panic unless the segments make sense.
    pub fn check(&self) {
        for (index, segment) in self.segments.iter().enumerate() {
            assert!(segment.start <= segment.end, "segment {index} ends before it starts: {segment:?}");
            let held = segment.end - segment.start;
            assert!(held <= self.limits.segment_sectors, "segment {index} holds {held} sectors: {segment:?}");
            if segment.dirty {
                let dirty = segment.dirty_start..segment.end;
                assert!(segment.start <= dirty.start && dirty.start < dirty.end, "segment {index}: {segment:?}");
            }
        }
        assert!(self.dirty() <= self.limits.write_segments_max, "{} dirty segments", self.dirty());
    }
}
