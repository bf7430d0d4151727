//! Freeing, zeroing and reserving ranges.
//!
//! The bytes that a file range has on one object are one range of that object, however many stripes it crosses.

use super::write::Missed;
use super::{File, Slot, View, target_error};
use crate::Result;
use object::target::{Handle, Pending, TargetError};
use policy::TargetId;
use policy::layout::{OPEN_END, Segment, object_len};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Range of object `index` that corresponds to `range` of the file.
pub(crate) fn object_range(segment: &Segment, index: usize, range: &Range<u64>) -> Range<u64> {
    let clamp = |offset: u64| if segment.end == OPEN_END { offset } else { offset.min(segment.end) };
    object_len(segment, index, clamp(range.start))..object_len(segment, index, clamp(range.end))
}

impl File {
    /// Frees a range, which then reads as zeros. The size stays.
    pub fn punch(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        let end = Self::check_range(offset, len)?;
        let _alone = self.alone_to_change(false)?;
        let punched = self.punch_in(offset..end.min(self.size()));
        self.forget(offset, len);
        punched?;
        self.was_modified();
        Ok(())
    }

    /// Makes a range zero, growing the file unless `keep_size`.
    pub fn zero(self: &Arc<Self>, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        let end = Self::check_range(offset, len)?;
        self.may_reach(if keep_size { 0 } else { end })?;
        let _alone = self.alone_to_change(false)?;
        let punched = self.punch_in(offset..end.min(self.size()));
        self.forget(offset, len);
        punched?;
        self.was_modified();
        if keep_size || end <= self.size() {
            return Ok(());
        }
        self.watch_range(self.size(), end - self.size());
        self.clean_tail_in()?;
        self.will_outgrow_stub(end)?;
        self.extend_without_bytes(end)?;
        self.follow_growth(end)
    }

    /// Extends the file by a hole, whose size no object shows to other nodes. The caller has the file alone.
    fn extend_without_bytes(&self, end: u64) -> Result<()> {
        self.extend_to(end)?;
        self.holds().map_or(Ok(()), |holds| self.settle_size_alone(holds))
    }

    /// Reserves space for a range, growing the file unless `keep_size`. Small files keep their bytes in the stub, where
    /// nothing is reserved.
    ///
    /// # Errors
    /// `OPNOTSUPP` for space beyond the end of a file that counts for a quota.
    pub fn allocate(self: &Arc<Self>, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        let end = Self::check_range(offset, len)?;
        if keep_size && end > self.size() && self.has_payers() {
            // The reserved space would not be charged to any quota.
            return Err(Errno::OPNOTSUPP.into());
        }
        self.may_reach(end)?;
        self.ready_to_modify()?;
        if end > self.pool.inline_bytes_max {
            self.convert(end)?;
            let covered =
                |v: &View| v.in_sync().all(|m| v.layout.as_ref().is_some_and(|l| l.mirrors[m].covered() >= end));
            if !covered(&self.view()) {
                self.grow(end)?;
            }
        }
        let _alone = self.alone_to_change(false)?;
        self.clean_tail_in()?;
        let view = self.view();
        if let Some(target) = self.room_lacks_on(&view, &(offset..end)) {
            return Err(target_error(target, TargetError::Io(Errno::NOSPC)));
        }
        // An object that reaches beyond the end would extend the file where its length is taken for the size.
        let allocate: fn(&dyn Handle, Range<u64>) -> Result<(), Errno> = if keep_size {
            |h, r| h.reserve(r.start, r.end - r.start)
        } else {
            |h, r| h.allocate(r.start, r.end - r.start)
        };
        let missed = self.each_range(&view, offset..end, allocate);
        self.settle_missed(&view, missed, end)?;
        if !keep_size {
            self.watch_range(self.size().min(end), end.saturating_sub(self.size()));
            self.extend_without_bytes(end)?;
            self.was_modified();
            self.follow_growth(end)?;
        }
        Ok(())
    }

    /// A target without room for a range, if every mirror has one; existing space counts. The operation then fails at
    /// once, since reservations on other targets would stay. Smaller shortages fail later.
    fn room_lacks_on(&self, view: &View, range: &Range<u64>) -> Option<TargetId> {
        let mut lacking = None;
        for mirror in view.in_sync() {
            let mut short = None;
            // Targets on one file system share its free space.
            let mut needs: BTreeMap<(Option<u64>, TargetId), (u64, u64)> = BTreeMap::new();
            for (segment, index, slot) in view.placed(mirror) {
                let part = object_range(segment, index, range);
                if part.is_empty() {
                    continue;
                }
                let there = slot.run(&self.pool, |h| h.allocated()).ok()?;
                let space = self.pool.targets.get(slot.target_id)?.run(|medium| medium.space()).ok()?;
                let shared = space.device.map_or(slot.target_id, |_| TargetId(0));
                let (needed, free) = needs.entry((space.device, shared)).or_insert((0, space.free_bytes));
                *needed += (part.end - part.start).saturating_sub(there);
                if *needed > *free {
                    short = Some(slot.target_id);
                }
            }
            lacking = Some(short?);
        }
        lacking
    }

    /// Frees a range. The caller holds `io` exclusively.
    fn punch_in(&self, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.watch_range(range.start, range.end - range.start);
        let view = self.view();
        if view.layout.is_none() {
            let punched = self.stub.punch(range.start, range.end - range.start);
            self.stub_changed();
            return punched;
        }
        let missed = self.each_range(&view, range, |h, r| {
            let end = r.end.min(h.len()?);
            if end > r.start { h.punch(r.start, end - r.start) } else { Ok(()) }
        });
        self.settle_missed(&view, missed, 0)
    }

    /// Runs `op` on the object ranges of a file range, on all mirrors in sync in parallel; returns the mirrors that
    /// missed it.
    fn each_range(
        &self,
        view: &View,
        range: Range<u64>,
        op: fn(&dyn Handle, Range<u64>) -> Result<(), Errno>,
    ) -> Vec<Missed> {
        let part =
            |segment: &Segment, index| Some(object_range(segment, index, &range)).filter(|part| !part.is_empty());
        self.each_object(view, part, op, |_, _, done| done)
    }

    /// Runs `op` on the objects of all mirrors in sync in parallel, where `part` returns an argument for it. `ended`
    /// may replace its result. Returns the mirrors that missed it.
    pub(super) fn each_object<P: Clone + Send + 'static>(
        &self,
        view: &View,
        part: impl Fn(&Segment, usize) -> Option<P>,
        op: fn(&dyn Handle, P) -> Result<(), Errno>,
        ended: impl Fn(&Slot, P, Result<(), TargetError>) -> Result<(), TargetError>,
    ) -> Vec<Missed> {
        let (mut missed, mut pending) = (Vec::new(), Vec::new());
        for mirror in view.in_sync() {
            for (segment, index, slot) in view.placed(mirror) {
                let Some(part) = part(segment, index) else { continue };
                slot.unsynced.changed();
                let given = part.clone();
                pending.push((mirror, slot, part, slot.submit(&self.pool, move |h| op(h, given))));
            }
        }
        for (mirror, slot, part, submitted) in pending {
            if let Err(error) = ended(slot, part, submitted.and_then(Pending::wait)) {
                missed.push(Missed { mirror, target: slot.target_id, error });
            }
        }
        missed.dedup_by_key(|m| m.mirror);
        missed
    }
}
