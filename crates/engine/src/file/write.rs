//! Writes: into the stub while the file is small, otherwise into all mirrors in sync; then the size, then the
//! acknowledgement.

use super::overflow::Refused;
use super::{File, MirrorWrites, View, target_error};
use crate::{Error, Result};
use object::target::TargetError;
use policy::TargetId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A mirror that could not take a write.
#[derive(Clone)]
pub(super) struct Missed {
    pub mirror: usize,
    pub target: TargetId,
    pub error: TargetError,
}

/// Condition that must be cleared before a write.
enum Obstacle {
    Convert,
    Grow,
    CleanTail,
    ReduceToOne,
    MarkInUse,
    /// An object of an emptied file is under recovery.
    Rebuild,
    /// A target that is full or read-only.
    Refused(Error),
    /// Mirrors that missed the write must become stale.
    Missed,
    /// The write must be repeated: another node changed the layout, or is changing it.
    Behind,
}

impl File {
    /// Writes all of `data`.
    pub fn write(self: &Arc<Self>, offset: u64, data: &[u8]) -> Result<()> {
        let written = self.write_repeatedly(offset, data);
        // Beside other writers only a node that has the file alone knows which bytes lie beyond the end.
        if written.is_err()
            && self.is_shared()
            && !self.tail_clean.load(Ordering::Acquire)
            && let Err(error) = self.clean_tail()
        {
            tracing::debug!("bytes of a failed write may lie beyond the end of a file: {error}");
        }
        written
    }

    fn write_repeatedly(self: &Arc<Self>, offset: u64, data: &[u8]) -> Result<()> {
        let end = Self::check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        self.may_reach(end)?;
        let mut refused = Refused::default();
        loop {
            self.ready_to_modify()?;
            self.begin_writing(end)?;
            let obstacle = {
                let _io = self.io.read();
                if self.is_guarded() {
                    continue; // a source or checksums were added since `ready_to_modify`
                }
                // The view is at least as new as the right, or the right ends.
                let Some(right) = self.may_write(end) else { continue };
                let view = self.view();
                match self.obstacle(&view, end) {
                    None => {
                        let written = self.write_in(&view, offset, data);
                        self.forget(offset, data.len() as u64); // a failed write may have changed some bytes
                        match written {
                            Err(error) if refused.add(&error) => Obstacle::Refused(error),
                            Err(Error::Busy(_)) if self.has_missed() => Obstacle::Missed,
                            // A mirror could not be marked stale in a layout that changed.
                            Err(Error::Busy(_)) if self.is_shared() => Obstacle::Behind,
                            written if self.may_acknowledge(&right)? => return written,
                            _ => Obstacle::Behind,
                        }
                    }
                    Some(obstacle) => obstacle,
                }
            };
            self.clear(obstacle, end, &refused)?;
        }
    }

    fn clear(self: &Arc<Self>, obstacle: Obstacle, end: u64, refused: &Refused) -> Result<()> {
        match obstacle {
            Obstacle::Convert => self.convert(end),
            Obstacle::Grow => self.grow(end),
            Obstacle::CleanTail => self.clean_tail(),
            Obstacle::ReduceToOne => self.reduce_to_one(),
            Obstacle::MarkInUse => self.mark_in_use(),
            Obstacle::Rebuild => self.rebuild_emptied(),
            Obstacle::Missed => self.mark_missed(),
            Obstacle::Behind => Ok(()),
            Obstacle::Refused(error) => match self.overflow(end, refused) {
                Ok(true) => Ok(()),
                Ok(false) => Err(error),
                Err(other) => {
                    tracing::debug!("a write cannot go elsewhere: {other}");
                    Err(error)
                }
            },
        }
    }

    /// Writes at the end; returns the offset.
    pub fn append(self: &Arc<Self>, data: &[u8]) -> Result<u64> {
        let _append = self.append.lock();
        if self.is_shared() {
            return self.append_alone(data);
        }
        let offset = self.size();
        self.write(offset, data)?;
        Ok(offset)
    }

    /// As `append`, where other nodes may append: only an exclusive claim shows the current end.
    ///
    /// If the lease was lost after the bytes were written, another node may have settled the size from the objects: the
    /// file may have the bytes by then.
    fn append_alone(self: &Arc<Self>, data: &[u8]) -> Result<u64> {
        let (mut refused, mut grew_at) = (Refused::default(), None);
        loop {
            let alone = self.alone_to_change(false)?;
            let view = self.view();
            let size = self.size();
            let offset = grew_at.filter(|offset| *offset < size).unwrap_or(size);
            let end = Self::check_range(offset, data.len() as u64)?;
            if offset < size && !self.has(&view, offset, data) {
                return Err(Error::Elsewhere(
                    "this node lost its lease while it appended: the bytes may be there in part".into(),
                ));
            }
            if data.is_empty() || offset < size {
                if alone.holds()? {
                    return Ok(offset);
                }
                continue;
            }
            let obstacle = match self.obstacle(&view, end) {
                Some(obstacle) => obstacle,
                None if !alone.holds()? => continue,
                None => match self.write_beyond(&view, offset, data) {
                    Err(error) if refused.add(&error) => Obstacle::Refused(error),
                    written => {
                        self.forget(offset, data.len() as u64);
                        grew_at = Some(offset);
                        if !alone.holds()? {
                            self.tail_clean.store(false, Ordering::Release); // the landed bytes lie beyond the end
                            continue;
                        }
                        written?;
                        self.extend_to(end)?;
                        if alone.holds()? {
                            self.was_modified();
                            return Ok(offset);
                        }
                        continue;
                    }
                },
            };
            drop(alone);
            self.clear(obstacle, end, &refused)?;
        }
    }

    /// Whether the file has these bytes at an offset. The caller holds `io`.
    fn has(self: &Arc<Self>, view: &View, offset: u64, data: &[u8]) -> bool {
        let mut there = vec![0; data.len()];
        self.size() - offset >= data.len() as u64
            && self.read_in(view, offset, &mut there, false).is_ok()
            && data == there
    }

    /// First condition to clear before the file can be written up to `end` under this view.
    fn obstacle(&self, view: &View, end: u64) -> Option<Obstacle> {
        let Some(layout) = &view.layout else {
            return (end > self.pool.inline_bytes_max).then_some(Obstacle::Convert);
        };
        if self.size() == 0 && view.has_partial() {
            return Some(Obstacle::Rebuild);
        }
        // After an unfinished truncation another node could cut bytes that are written now.
        if !self.tail_clean.load(Ordering::Acquire) && (end > self.size() || self.held.has_stale_cut()) {
            return Some(Obstacle::CleanTail);
        }
        if view.in_sync().any(|m| layout.mirrors[m].covered() < end) {
            return Some(Obstacle::Grow);
        }
        if view.in_sync().nth(1).is_some() {
            match self.mirror_writes() {
                MirrorWrites::Stale => return Some(Obstacle::ReduceToOne),
                MirrorWrites::Sync if !self.is_marked_in_use() => return Some(Obstacle::MarkInUse),
                MirrorWrites::Sync => {}
            }
        }
        None
    }

    /// Whether a write up to `end` would go straight to its objects.
    pub(super) fn is_unobstructed(&self, view: &View, end: u64) -> bool {
        !self.is_guarded() && self.obstacle(view, end).is_none()
    }

    /// Writes without obstacles. The caller holds `io`.
    pub(super) fn write_in(self: &Arc<Self>, view: &View, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset + data.len() as u64;
        let mut start = offset;
        for next in self.ordered_starts(view, offset..end).into_iter().chain([end]) {
            let part = (start - offset) as usize..(next - offset) as usize;
            self.write_beyond(view, start, &data[part])?;
            start = next;
        }
        if view.layout.is_some() {
            self.extend_to(end)?;
            self.was_modified();
        }
        Ok(())
    }

    /// Starts of the further parts of a write that have to reach the objects one after another. Beside other writers the
    /// end of the objects is that of the file, so no part may be there before the bytes ahead of it.
    fn ordered_starts(&self, view: &View, range: Range<u64>) -> Vec<u64> {
        let mut starts = Vec::new();
        let beside = || self.holds().is_some_and(|holds| !holds.is_exclusive(self.key()));
        if let Some(layout) = view.layout.as_ref().filter(|_| range.end > self.size() && beside()) {
            let pieces = |mirror: usize| layout.mirrors[mirror].pieces(mirror, range.start, range.end - range.start);
            starts.extend(view.in_sync().flat_map(pieces).map(|piece| piece.file_offset));
            starts.retain(|start| *start > range.start);
            starts.sort_unstable();
            starts.dedup();
        }
        starts
    }

    /// Writes without extending the file, if the bytes are in objects. The caller holds `io`.
    fn write_beyond(self: &Arc<Self>, view: &View, offset: u64, data: &[u8]) -> Result<()> {
        self.watch_range(offset, data.len() as u64);
        if view.layout.is_none() {
            return self.write_stub(offset, data);
        }
        let end = offset + data.len() as u64;
        let missed = self.write_mirrors(view, offset, data);
        self.settle_missed(view, missed, end)
    }

    fn write_stub(&self, offset: u64, data: &[u8]) -> Result<()> {
        let (lost, end) = (self.stub_lost.noted(), offset + data.len() as u64);
        // The write extends the stub: where usage is charged, no other write may extend it at the same time.
        let counts = self.is_charged().then(|| self.extend.lock());
        let size = if counts.is_some() { self.size.load(Ordering::Acquire) } else { end };
        let written = self.charged(size, end.max(size), || self.after_stub_change(self.stub.write_at(offset, data)));
        written?;
        self.stub_lost.written(0, offset, data.len() as u64, lost);
        let _extend = counts.unwrap_or_else(|| self.extend.lock());
        self.size.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    /// Marks a written range stale for the mover, if it copies this file, and for slow copies. The caller holds `io`.
    pub(super) fn watch_range(&self, offset: u64, len: u64) {
        if !self.pool.slow_copies.is_empty()
            && len > 0
            && let Some(id) = self.id()
        {
            self.pool.slow_copies.written(id, &(offset..offset.saturating_add(len)));
        }
        if let Some(watch) = self.watch.read().as_ref() {
            watch.add(offset, offset.saturating_add(len));
        }
    }

    /// Marks mirrors stale that missed a change, if another one has it; otherwise returns the first error.
    pub(super) fn settle_missed(&self, view: &View, mut missed: Vec<Missed>, end: u64) -> Result<()> {
        if missed.is_empty() {
            return Ok(());
        }
        if end > self.size() {
            self.landed_in_vain();
        }
        if missed.len() < view.in_sync().count() {
            return self.mark_stale(&missed);
        }
        if missed.len() > 1 {
            self.note(super::Event::MirrorsDiffer);
        }
        let first = missed.swap_remove(0);
        Err(target_error(first.target, first.error))
    }

    /// Extends the file to at least `end`. The caller holds `io`.
    pub(super) fn extend_to(&self, end: u64) -> Result<()> {
        if end <= self.size.load(Ordering::Acquire) {
            self.defer_end(end);
            return Ok(());
        }
        let extend = self.extend.lock();
        let size = self.size.load(Ordering::Acquire);
        if end > size {
            let set = || self.after_stub_change(self.lengthen(end));
            if let Err(e) = self.charged(size, end, set) {
                drop(extend);
                self.landed_in_vain();
                return Err(e);
            }
            self.set_known_size(end);
        }
        Ok(())
    }

    /// Makes the stub longer: at once, or later where other nodes get the size with a hold.
    fn lengthen(&self, end: u64) -> Result<()> {
        let Some(holds) = self.holds() else { return self.stub.set_size(end) };
        if self.view().layout.is_none() {
            // Keep the bytes that other nodes wrote there.
            return if end <= self.stub.size()? { Ok(()) } else { self.stub.grow_to(end) };
        }
        self.set_longer_size(holds, end)
    }

    /// Handles a failed write that left bytes beyond the end. The caller holds `io`.
    fn landed_in_vain(&self) {
        if let Some(holds) = self.holds() {
            self.defer_cut(holds);
        }
        self.tail_clean.store(false, Ordering::Release);
    }
}
