//! The segments of a drive's buffer: their ranges, and the parts that are not on the medium yet.

use super::model::Buffer;

/// One segment: it holds sectors `[start, end)`; if `dirty`, `[dirty_start, end)` wait to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// First sector held.
    pub start: u64,
    /// Sector behind the last one held.
    pub end: u64,
    /// First sector not yet on the medium.
    pub dirty_start: u64,
    /// Whether any sector is not yet on the medium.
    pub dirty: bool,
    /// Time since which it is dirty.
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
    /// Creates empty segments.
    pub fn new(limits: Buffer) -> Segments {
        Segments { segments: vec![Segment::default(); limits.segments], limits, clock: 0 }
    }

    /// Returns the segment `index`.
    pub fn get(&self, index: usize) -> Segment {
        self.segments[index]
    }

    /// Returns the segment that holds `sector`, or ends just before it.
    pub fn reaching(&self, sector: u64) -> Option<usize> {
        let holds = |segment: &Segment| segment.start <= sector && sector <= segment.end && segment.start < segment.end;
        // A segment that holds the sector is preferred to one that ends before it.
        let inside = self.segments.iter().position(|segment| holds(segment) && sector < segment.end);
        inside.or_else(|| self.segments.iter().position(holds))
    }

    /// Marks `index` as the most recently used.
    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
    }

    /// Empties the least recently used clean segment, to start at `sector`. `None` if all are dirty.
    pub fn reuse(&mut self, sector: u64) -> Option<usize> {
        let clean = self.segments.iter().enumerate().filter(|(_, segment)| !segment.dirty);
        let (index, _) = clean.min_by_key(|(_, segment)| segment.used)?;
        self.segments[index] = Segment { start: sector, end: sector, ..Segment::default() };
        self.touch(index);
        Some(index)
    }

    /// Extends `index` to `end`; if it is too long, sectors at its front are dropped.
    pub fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        debug_assert!(!segment.dirty);
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.limits.segment_sectors));
    }

    /// Extends `index` by `count` sectors at its front, except where newer data wait to be written.
    pub fn extend_front(&mut self, index: usize, count: u64) {
        let from = self.segments[index].start;
        let before = self.segments.iter().filter(|other| other.dirty && other.start < from);
        let waiting = before.map(|other| other.end.min(from));
        let start = (from - count.min(from)).max(waiting.max().unwrap_or(0));
        self.segments[index].start = start;
    }

    /// Writes `[sector, end)` into `index`, which reaches `sector`; it waits for the medium from `now_ns` on.
    pub fn write(&mut self, index: usize, sector: u64, end: u64, now_ns: u64) {
        let segment = &mut self.segments[index];
        if !segment.dirty {
            segment.dirty = true;
            segment.dirty_start = sector;
            segment.dirty_since_ns = now_ns;
            // Sectors behind the written range are dropped: a segment is dirty to its end.
            segment.end = end;
        }
        segment.dirty_start = segment.dirty_start.min(sector);
        segment.end = segment.end.max(end);
        let oldest = segment.end.saturating_sub(self.limits.segment_sectors);
        segment.start = segment.start.max(oldest).min(segment.dirty_start);
        self.touch(index);
    }

    /// Returns whether `[sector, end)` can be added to the dirty range of `index`, or start one there.
    pub fn takes_write(&self, index: usize, sector: u64, end: u64) -> bool {
        let segment = &self.segments[index];
        let first = if segment.dirty { segment.dirty_start.min(sector) } else { sector };
        let joined = !segment.dirty || segment.dirty_start <= end;
        joined && segment.end.max(end) - first <= self.limits.segment_sectors
    }

    /// Returns the segment that has been dirty for longest.
    pub fn oldest_dirty(&self) -> Option<usize> {
        let dirty = self.segments.iter().enumerate().filter(|(_, segment)| segment.dirty);
        dirty.min_by_key(|(_, segment)| segment.dirty_since_ns).map(|(index, _)| index)
    }

    /// Number of dirty segments.
    pub fn dirty(&self) -> usize {
        self.segments.iter().filter(|segment| segment.dirty).count()
    }

    /// Marks `index` as clean: its data are on the medium.
    pub fn written(&mut self, index: usize) {
        self.segments[index].dirty = false;
    }

    /// Drops `[sector, end)` from all segments except `except`. Returns a dirty segment that overlaps instead: it
    /// must be written first.
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

    /// Panics if an invariant of the segments is broken.
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
