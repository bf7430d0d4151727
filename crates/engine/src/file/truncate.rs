//! Truncation, and the rule that bytes beyond the end of a file never come back.
//!
//! The stub's size is set first: from then on nothing reads beyond it. The objects are cut at once. Objects that cannot
//! be cut (absent target, killed daemon) are cut before the file is next extended, and durably. Otherwise a loss of
//! power could keep the new size and lose the bytes below it. If a target fails then, its mirror becomes stale or,
//! without another mirror, the extension fails.

use super::nodes::Exclusive;
use super::snapshot::Cutting;
use super::write::Missed;
use super::{File, Happened, SIZE_MAX, View};
use crate::{Error, Result};
use object::target::{Handle, TargetError};
use policy::layout::{Segment, object_len};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Sets the size. Bytes beyond it are dropped; added bytes are zeros.
    pub fn truncate(self: &Arc<Self>, size: u64) -> Result<()> {
        self.set_size(size)?;
        if size == 0 {
            self.tell(Happened::Emptied);
        }
        Ok(())
    }

    fn set_size(self: &Arc<Self>, size: u64) -> Result<()> {
        if size > SIZE_MAX {
            return Err(Error::Namespace(Errno::FBIG));
        }
        self.refresh()?;
        if size == self.size() && !(size == 0 && self.is_hurt()) {
            self.was_modified();
            return Ok(());
        }
        self.may_reach(size)?;
        self.ready_to_change(size == 0)?;
        let alone = self.alone_to_change(size == 0)?;
        let set = self.set_size_alone(size, &alone);
        if set.is_err() {
            self.give_up_cut(alone.holds().unwrap_or(false));
        }
        set
    }

    fn set_size_alone(self: &Arc<Self>, size: u64, alone: &Exclusive<'_>) -> Result<()> {
        if size > 0 {
            self.settle_past_writes()?;
        } else {
            self.drop_past_writes();
        }
        let old = self.size();
        self.watch_range(size.min(old), size.max(old) - size.min(old));
        if size > old {
            self.clean_tail_in()?;
        } else {
            self.begin_cut(size)?;
            self.tail_clean.store(self.view().layout.is_none(), Ordering::Release);
        }
        self.will_outgrow_stub(size)?;
        if !alone.holds()? {
            return Err(Error::Elsewhere("this node lost its lease before it cut the file".into()));
        }
        if size > 0 {
            self.rebuild_partial()?;
        }
        let cut = self.set_size_in(size)?;
        // While the kernel writes the object, its length is the size.
        let cut = Some(cut).filter(|_| self.kernel_writes.load(Ordering::Acquire));
        self.was_modified();
        // Objects that cannot be cut now are cut before the file is next extended.
        let changed = if size > old || alone.holds()? { self.cut_or_grown(size, old) } else { Ok(()) };
        drop(cut);
        self.forget(size.min(old), u64::MAX);
        changed
    }

    /// Sets the size in the stub and in memory. No read is valid before the returned guard is dropped.
    fn set_size_in(&self, size: u64) -> Result<Cutting<'_>> {
        let _extend = self.extend.lock();
        let cut = self.cuts.begin();
        let set = || self.after_stub_change(self.stub.set_size(size));
        self.charged(self.size.load(Ordering::Acquire), size, set)?;
        self.size.store(size, Ordering::Release);
        self.held.set_in_stub(size);
        self.stub_lost.cut(0, size);
        Ok(cut)
    }

    /// Marks the stub inline before a file without objects exceeds the inline size. The mark shows that no layout was
    /// lost.
    pub(super) fn will_outgrow_stub(&self, size: u64) -> Result<()> {
        if size <= self.pool.inline_bytes_ever() || self.view().layout.is_some() {
            return Ok(());
        }
        self.stub.mark_inline(true).inspect(|()| self.stub_changed())
    }

    /// Adapts the objects to the new size. The caller holds `io` exclusively.
    fn cut_or_grown(self: &Arc<Self>, size: u64, old: u64) -> Result<()> {
        if size < old {
            let view = self.view();
            let missed = self.cut(&view, size, old);
            if size == 0 && (!missed.is_empty() || self.is_hurt()) {
                if let Err(error) = self.rebuild_empty(missed.first().map(|m| m.target)) {
                    tracing::debug!(%error, "an emptied file keeps its lost objects for now");
                }
            } else if missed.is_empty() && view.layout.is_some() {
                self.end_cut()?;
            }
        } else if size == 0 && self.is_hurt() {
            self.rebuild_empty(None)?;
        }
        self.follow_size(size)
    }

    /// Marks a truncation that other nodes finish if this one is over: bytes of objects beyond the end do not count.
    fn begin_cut(&self, size: u64) -> Result<()> {
        let Some(holds) = self.holds().filter(|_| self.view().layout.is_some()) else { return Ok(()) };
        // The mark ends the settlement of the size from the objects.
        self.settle_size_alone(holds)?;
        self.stub.set_cut_to(Some(size))
    }

    /// Removes the mark: no object holds bytes beyond the end.
    pub(super) fn end_cut(&self) -> Result<()> {
        if self.is_shared() {
            self.stub.set_cut_to(None)?;
        }
        self.tail_clean.store(true, Ordering::Release);
        self.held.cleaned();
        Ok(())
    }

    /// Removes bytes of objects beyond the end of the file.
    pub(super) fn clean_tail(&self) -> Result<()> {
        let alone = self.alone()?;
        if alone.holds()? { self.clean_tail_in() } else { Ok(()) }
    }

    /// As [`File::clean_tail`]; the caller holds `io` exclusively.
    pub(super) fn clean_tail_in(&self) -> Result<()> {
        // While the kernel writes by itself, object and file have the same end, and a cut could remove new bytes.
        if self.tail_clean.load(Ordering::Acquire) || self.kernel_writes.load(Ordering::Acquire) {
            return Ok(());
        }
        self.settle_past_writes()?;
        self.cut_tail()
    }

    /// Cuts every object that reaches beyond the end. The caller holds `io` exclusively.
    pub(super) fn cut_tail(&self) -> Result<()> {
        let view = self.view();
        let missed = self.cut(&view, self.size(), self.size());
        self.settle_missed(&view, missed, 0)?;
        self.end_cut()
    }

    /// Cuts the objects of all mirrors in sync to the need of a file of `size` bytes; returns the mirrors that failed.
    /// Bytes beyond `old`, which never belonged to the file, are removed durably before this returns.
    pub(super) fn cut(&self, view: &View, size: u64, old: u64) -> Vec<Missed> {
        let lens = |segment: &Segment, index| Some((object_len(segment, index, size), object_len(segment, index, old)));
        let cut = |h: &dyn Handle, (keep, had): (u64, u64)| match h.len()? {
            len if len > keep.max(had) => h.set_len(keep).and_then(|()| h.sync()),
            len if len > keep => h.set_len(keep),
            _ => Ok(()),
        };
        self.each_object(view, lens, cut, |slot, (keep, _), cut| {
            // A missing object had no byte of the file: create it again, empty. If it exists after all, it is emptied.
            // A file that is being emptied gets new objects instead.
            let emptied = size == 0 && old > 0;
            let is_missing = keep == 0 && !emptied && cut == Err(TargetError::Io(Errno::NOENT));
            let is_lost = is_missing && self.holds().is_none_or(|holds| holds.shows_all_names());
            let cut = if is_lost { slot.make_empty(&self.pool) } else { cut };
            if cut.is_ok() {
                self.pool.lost.cut(slot.id.0, keep);
            }
            cut
        })
    }
}
