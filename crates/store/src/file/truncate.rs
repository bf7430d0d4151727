//! Truncation, and the rule that bytes beyond the end of a file never come back.
//!
//! The stub's size is set first: from then on nothing reads what is beyond it. Cutting the objects is tried at once;
//! what could not be cut (a target is away, the daemon was killed) is cut before the file is next extended, and durably,
//! since after a loss of power the new size may be there and what was written below it not. A target that cannot do it
//! then keeps its mirror from being used further or, if it is the only one, the file from being extended.

use super::write::Missed;
use super::{File, Happened, SIZE_MAX, View};
use crate::target::TargetError;
use crate::{Error, Result};
use policy::layout::object_len;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Sets the size. What is cut off is gone; what is added is zeros.
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
        if self.set_size_in_shared_stub(size)? {
            return Ok(());
        }
        let alone = self.alone_to_change(size == 0)?;
        let old = self.size();
        self.watch_range(size.min(old), size.max(old) - size.min(old));
        if size > old {
            self.clean_tail_in()?;
        } else {
            self.begin_cut()?;
            self.tail_clean.store(self.view().layout.is_none(), Ordering::Release);
        }
        self.will_outgrow_stub(size)?;
        if !alone.holds()? {
            return Err(Error::Elsewhere("this node lost its lease before it cut the file".into()));
        }
        {
            let _extend = self.extend.lock();
            let set = || self.stub.set_size(size).inspect(|()| self.stub_changed());
            self.charged(self.size.load(Ordering::Acquire), size, set)?;
            self.set_said(size);
            self.size.store(size, Ordering::Release);
            self.stub_lost.cut(0, size);
        }
        self.was_modified();
        // What cannot be cut now is cut before the file is made longer again.
        let changed = if size > old || alone.holds()? { self.cut_or_grown(size, old) } else { Ok(()) };
        self.forget(size.min(old), u64::MAX);
        changed
    }

    /// The size of a file whose bytes are in its stub is the stub's: where several nodes have the volume it is set as bytes are written
    /// there, with a look afterwards. No if the bytes are elsewhere, or belong there.
    fn set_size_in_shared_stub(self: &Arc<Self>, size: u64) -> Result<bool> {
        while self.is_shared() && self.is_in_stub() && size <= self.pool.inline_bytes_max {
            let current = {
                let _io = self.io.write();
                let view = self.view();
                if view.layout.is_some() {
                    return Ok(false);
                }
                let set = || self.stub.set_size(size).inspect(|()| self.stub_changed());
                self.charged(self.size.load(Ordering::Acquire), size, set)?;
                self.set_said(size);
                self.size.store(size, Ordering::Release);
                self.stub_lost.cut(0, size);
                self.was_modified();
                self.forget(0, u64::MAX);
                self.may_acknowledge(&view)?
            };
            if current {
                return Ok(true);
            }
            self.catch_up()?;
        }
        Ok(false)
    }

    /// Before a file without objects is made longer than bytes are kept in a stub: it has none because none was needed, not because they
    /// were lost.
    pub(super) fn will_outgrow_stub(&self, size: u64) -> Result<()> {
        if size <= self.pool.inline_bytes_ever() || self.view().layout.is_some() {
            return Ok(());
        }
        self.stub.mark_inline(true).inspect(|()| self.stub_changed())
    }

    /// After the size was set: the objects follow it. The caller holds `io` exclusively.
    fn cut_or_grown(self: &Arc<Self>, size: u64, old: u64) -> Result<()> {
        if size < old {
            let view = self.view();
            let missed = self.cut(&view, size, old);
            if size == 0 && (!missed.is_empty() || self.is_hurt()) {
                if let Err(error) = self.rebuild_empty(missed.first().map(|m| m.target)) {
                    tracing::debug!(%error, "an emptied file keeps its lost objects for now");
                }
            } else if missed.is_empty() && view.layout.is_some() {
                self.end_cut();
            }
        } else if size == 0 && self.is_hurt() {
            self.rebuild_empty(None)?;
        }
        self.follow_size(size)
    }

    /// Makes sure that no object holds bytes beyond the end.
    pub(super) fn clean_tail(&self) -> Result<()> {
        let alone = self.exclusive()?;
        if alone.holds()? { self.clean_tail_in() } else { Ok(()) }
    }

    /// As [`File::clean_tail`]; the caller holds `io` exclusively.
    pub(super) fn clean_tail_in(&self) -> Result<()> {
        // While the kernel writes by itself the object ends where the file does, and cutting could hit what it just wrote.
        if self.tail_clean.load(Ordering::Acquire) || self.kernel_writes.load(Ordering::Acquire) {
            return Ok(());
        }
        self.cut_tail()
    }

    /// Cuts every object that reaches beyond the end. The caller holds `io` exclusively.
    pub(super) fn cut_tail(&self) -> Result<()> {
        let view = self.view();
        let missed = self.cut(&view, self.size(), self.size());
        self.settle_missed(&view, missed, 0)?;
        self.end_cut();
        Ok(())
    }

    /// Cuts the objects of all mirrors in sync to what a file of `size` bytes needs; gives the mirrors that could not.
    /// What lies beyond `old`, where no file ever was, goes for good before this returns.
    fn cut(&self, view: &View, size: u64, old: u64) -> Vec<Missed> {
        let Some(layout) = &view.layout else { return Vec::new() };
        let mut pending = Vec::new();
        let mut results: Vec<(usize, policy::TargetId, Result<(), TargetError>)> = Vec::new();
        for mirror in view.in_sync() {
            for (s, segment) in layout.mirrors[mirror].segments.iter().enumerate() {
                for (index, slot) in view.slots[mirror][s].iter().enumerate() {
                    let keep = object_len(segment, index, size);
                    let had = object_len(segment, index, old);
                    slot.unsynced.changed();
                    let cut = slot.submit(&self.pool, move |h| match h.len()? {
                        len if len > keep.max(had) => h.set_len(keep).and_then(|()| h.sync()),
                        len if len > keep => h.set_len(keep),
                        _ => Ok(()),
                    });
                    match cut {
                        Ok(p) => pending.push((mirror, slot, keep, p)),
                        Err(e) => results.push((mirror, slot.target_id, Err(e))),
                    }
                }
            }
        }
        results.extend(pending.into_iter().map(|(m, slot, keep, p)| {
            // What is gone held no byte of the file: it is made again, empty; should it be there after all, it is empty now.
            // A file that is being emptied gets new objects instead.
            let emptied = size == 0 && old > 0;
            let lost = |e: &TargetError| keep == 0 && !emptied && *e == TargetError::Io(Errno::NOENT);
            let cut = p.wait().or_else(|e| if lost(&e) { slot.make_empty(&self.pool) } else { Err(e) });
            if cut.is_ok() {
                self.pool.lost.cut(slot.id.0, keep);
            }
            (m, slot.target_id, cut)
        }));
        let mut missed: Vec<Missed> = Vec::new();
        for (mirror, target, result) in results {
            if let Err(error) = result
                && missed.iter().all(|m| m.mirror != mirror)
            {
                missed.push(Missed { mirror, target, error });
            }
        }
        missed
    }
}
