//! Copies the content of new objects, holes as holes.

use super::mend::Proven;
use super::progress::Active;
use super::transform::Stop;
use super::{Mover, Step};
use crate::file::{File, NewObjects, Paged, Seek, Slot, View, object_range, parts};
use crate::stats::Metric;
use crate::{Error, Result};
use object::target::{Handle, Pending};
use policy::TargetId;
use policy::layout::{Layout, Piece, Position, Segment};
use policy::ranges::RangeSet;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Minimum and maximum size of a step: a row of stripes in the file's layout, so that all devices read at the same
/// time. The bounds are guesses: large enough to stripe, small enough to throttle and to keep in memory.
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=4 << 20;

/// Starts the write-back, so that the device writes while the next bytes are fetched, and the sync at the end finds
/// little. With `stepwise`, waits until the device has written.
fn write_out(handle: &dyn Handle, offset: u64, len: u64, stepwise: bool) {
    handle.begin_sync(offset, len);
    if stepwise {
        handle.end_sync(offset, len);
    }
}

/// Waits until the new objects hold the bytes that their workers received.
fn wait_for_all(pending: Vec<(TargetId, Pending<()>)>) -> Result<(), Stop> {
    for (target, written) in pending {
        written.wait().map_err(|error| Error::Target { target, error })?;
    }
    Ok(())
}

/// Parameters of a move's copy.
pub(super) struct Copy<'a> {
    pub mover: &'a Mover,
    pub pace: Option<&'a dyn super::Pace>,
    pub file: &'a Arc<File>,
    /// Source of the bytes.
    pub view: &'a View,
    /// New layout: objects of it that are in `made` are written.
    pub new: &'a Layout,
    pub made: &'a NewObjects<'a>,
    pub active: &'a Active,
    /// Verified reader, where only some mirrors have the right bytes. Holes are read as data in this case.
    pub proof: Option<&'a Proven<'a>>,
}

impl Copy<'_> {
    /// Ranges of the file on new objects, ascending and disjoint.
    pub fn ranges(&self) -> RangeSet {
        let is_new = |s: &&Segment| s.objects.iter().any(|object| self.made.slot(object).is_some());
        let mut ranges = RangeSet::default();
        for segment in self.new.mirrors.iter().flat_map(|m| &m.segments).filter(is_new) {
            ranges.insert(segment.start..segment.end);
        }
        ranges
    }

    /// Copies a range of the file, up to the end of the file. `fresh` objects are empty, so holes need no punching;
    /// without `throttled`, writers are waiting.
    pub fn range(&self, range: Range<u64>, fresh: bool, throttled: bool) -> Result<(), Stop> {
        let end = range.end.min(self.file.size());
        if self.proof.is_none() {
            self.make_holes_known(&(range.start..end));
        }
        let mut at = range.start;
        while at < end {
            let data = self.next(at..end, Seek::Data)?;
            if data > at && !fresh {
                self.punch(at..data)?;
            }
            let hole = if data < end { self.next(data..end, Seek::Hole)?.max(data + 1) } else { end };
            at = data;
            while at < hole {
                let len = self.step_bytes(at).min(hole - at);
                if throttled {
                    self.mover.paced(self.pace, len)?;
                }
                self.chunk(at, len)?;
                at += len;
                self.mover.step(Step::ChunkCopied)?;
            }
        }
        Ok(())
    }

    /// Syncs the objects of a range where the file system may report unwritten data as a hole.
    fn make_holes_known(&self, range: &Range<u64>) {
        for (segment, index, slot) in self.view.in_sync().take(1).flat_map(|mirror| self.view.placed(mirror)) {
            if !object_range(segment, index, range).is_empty() {
                // An object that cannot be queried counts as all data.
                let _ = slot.run(self.file.pool(), |h| if h.knows_holes() { Ok(()) } else { h.sync() });
            }
        }
    }

    /// Start of the next data or hole, at most the end of the range.
    fn next(&self, range: Range<u64>, what: Seek) -> Result<u64> {
        if self.proof.is_some() {
            return Ok(if what == Seek::Data { range.start } else { range.end });
        }
        let Some(mirror) = self.view.in_sync().next() else { return Ok(range.start) };
        let found = self.file.seek_mirror(self.view, mirror, range.clone(), what, true)?;
        Ok(found.unwrap_or(range.end).max(range.start))
    }

    /// Bytes of the next step at an offset.
    fn step_bytes(&self, at: u64) -> u64 {
        let first = self.view.in_sync().next();
        let mirror = first.and_then(|mirror| self.view.layout.as_ref()?.mirrors.get(mirror));
        let segment = mirror.and_then(|mirror| mirror.segments.iter().find(|segment| at < segment.end));
        let row = segment.map_or(0, |segment| segment.stripe_size.saturating_mul(segment.objects.len() as u64));
        row.clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end()).min(self.paced_bytes().unwrap_or(u64::MAX)).max(1)
    }

    fn paced_bytes(&self) -> Option<u64> {
        self.pace.and_then(|pace| pace.step_bytes())
    }

    /// Copies a step to the new objects: reads contiguous bytes at once, from all devices at the same time, and writes
    /// to each object once. A device that positions would do so for each stripe, which costs more than the copy
    /// through memory.
    fn chunk(&self, offset: u64, len: u64) -> Result<(), Stop> {
        for (m, mirror) in self.new.mirrors.iter().enumerate() {
            let wanted: Vec<Piece> =
                mirror.pieces(m, offset, len).filter(|piece| self.slot(piece.at).is_some()).collect();
            let (mut at, mut pieces) = (0, Vec::with_capacity(wanted.len()));
            let mut read = Paged::zeroed(wanted.iter().map(|piece| piece.len as usize).sum());
            for run in wanted.chunk_by(|a, b| a.file_offset + a.len == b.file_offset) {
                let (first, begin) = (run[0].file_offset, at);
                at += run.iter().map(|piece| piece.len as usize).sum::<usize>();
                self.read(first, &mut read[begin..at])?;
                let in_memory =
                    |piece: &Piece| Piece { file_offset: begin as u64 + piece.file_offset - first, ..*piece };
                pieces.extend(run.iter().map(in_memory));
            }
            self.active.done_bytes.fetch_add(at as u64, Ordering::Relaxed);
            self.mover.stats.add(Metric::MoverBytes, at as u64);
            let (mut pending, parts) = (Vec::new(), parts(0, pieces.into_iter()));
            for part in &parts {
                let slot = self.slot(part.at).expect("only pieces of new objects");
                let bytes = if parts.len() == 1 { std::mem::take(&mut read) } else { part.gather(&read) };
                pending.push((slot.target_id, self.put(slot, part.object_offset, bytes)?));
            }
            wait_for_all(pending)?;
        }
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match self.proof {
            Some(proven) => proven.read(offset, bytes),
            None => self.file.read_view(self.view, offset, bytes),
        }
    }

    /// Passes bytes to the worker that writes them.
    fn put(&self, slot: &Arc<Slot>, offset: u64, bytes: Paged) -> Result<Pending<()>> {
        let stepwise = self.paced_bytes().is_some();
        let is_hole = self.proof.is_some() && bytes.iter().all(|byte| *byte == 0);
        let write = move |h: &dyn Handle| {
            if is_hole {
                return Ok(());
            }
            h.write_at(offset, &bytes)?;
            write_out(h, offset, bytes.len() as u64, stepwise);
            Ok(())
        };
        let error = |error| Error::Target { target: slot.target_id, error };
        slot.submit(self.file.pool(), write).map_err(error)
    }

    fn slot(&self, at: Position) -> Option<&Arc<Slot>> {
        self.made.slot(self.new.object(at)?)
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        self.each(
            |segment, index| object_range(segment, index, &range),
            |h, part| {
                let end = part.end.min(h.len()?);
                if end > part.start { h.punch(part.start, end - part.start) } else { Ok(()) }
            },
        )
    }

    /// Truncates the new objects to the file's size.
    pub fn cut(&self) -> Result<()> {
        let size = self.file.size();
        self.each(
            |segment, index| 0..policy::layout::object_len(segment, index, size),
            |h, part| {
                if h.len()? > part.end { h.set_len(part.end) } else { Ok(()) }
            },
        )
    }

    fn each(
        &self,
        part: impl Fn(&Segment, usize) -> Range<u64>,
        op: fn(&dyn Handle, Range<u64>) -> Result<(), Errno>,
    ) -> Result<()> {
        for segment in self.new.mirrors.iter().flat_map(|m| &m.segments) {
            for (index, object) in segment.objects.iter().enumerate() {
                let Some(slot) = self.made.slot(object) else { continue };
                let part = part(segment, index);
                slot.run(self.file.pool(), move |h| op(h, part))
                    .map_err(|error| Error::Target { target: slot.target_id, error })?;
            }
        }
        Ok(())
    }
}
