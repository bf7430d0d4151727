//! Sizes of files that this node makes longer. Memory is ahead of the stub, which gets the size at a recall, sync, close,
//! or after a while. Other nodes that write the file get it from the objects in between.

use super::{Holds, State};
use crate::file::nodes::holds_lease;
use crate::file::{File, Slot};
use crate::{Error, Result};
use object::target::Reach;
use policy::Time;
use policy::cluster::Node;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Age of a write from which its time differs from that of the stub's growth.
const LATE: Time = Time::from_secs(1);

impl File {
    /// Makes the stub longer: later, or at once beside other nodes that would charge the same bytes, or that would not
    /// reach the objects to settle the size. The caller holds `io`.
    pub(in crate::file) fn set_longer_size(&self, holds: &Holds, end: u64) -> Result<()> {
        let basis = self.held.state.lock().basis;
        let at_once = self.is_out_of_reach() || (self.has_payers() && !holds.is_exclusive(self.key()));
        let Some(basis) = basis.filter(|_| at_once) else {
            self.defer(holds, |state| state.behind = state.behind.max(Some(end)));
            return Ok(());
        };
        // A size from a node whose lease ended would restore bytes that were cut since.
        if !holds.has_lease(basis.node) {
            return Err(Error::Busy("this node has no lease now".into()));
        }
        self.stub.grow_to(end)
    }

    /// Whether some nodes do not reach an object.
    fn is_out_of_reach(&self) -> bool {
        let is_shared = |slot: &Arc<Slot>| slot.target(&self.pool).is_ok_and(|target| target.reach() == Reach::All);
        !self.view().all().all(is_shared)
    }

    /// Defers the end of a write within a size that only the objects show. The node that made the file longer settles it,
    /// unless its write fails and it cuts the bytes.
    pub(in crate::file) fn defer_end(&self, end: u64) {
        let Some(holds) = self.holds() else { return };
        let is_behind = |state: &State| end > state.in_stub && Some(end) > state.behind;
        if self.layout().is_some() && is_behind(&self.held.state.lock()) {
            self.defer(holds, |state| state.behind = state.behind.max(Some(end)));
        }
    }

    /// A failed write left bytes beyond the end.
    pub(in crate::file) fn defer_cut(&self, holds: &Holds) {
        self.defer(holds, |state| state.dirty = true);
    }

    /// Defers a change of the stub or the tail. The file stays in memory until then.
    fn defer(&self, holds: &Holds, set: impl FnOnce(&mut State)) {
        let mut state = self.held.state.lock();
        set(&mut state);
        let listed = std::mem::replace(&mut state.listed, true);
        drop(state);
        if let Some(this) = self.this.upgrade().filter(|_| !listed) {
            holds.behind.lock().push(this);
        }
    }

    /// Sets the size of the stub to the acknowledged one. The hold stays, because the caller holds `io` or drains.
    /// Returns whether the stub has it.
    pub(in crate::file) fn settle_held(&self, holds: &Holds, node: Node) -> Result<bool> {
        let (dirty, stale_cut) = {
            let mut state = self.held.state.lock();
            state.drop_what_others_settled(node);
            if state.is_settled() {
                return Ok(true);
            }
            (state.dirty, state.stale_cut.is_some())
        };
        if !holds.has_lease(node) {
            return Ok(false);
        }
        if stale_cut {
            self.remove_stale_cut()?;
        }
        let extend = self.extend.lock();
        let behind = self.held.state.lock().behind;
        if let Some(end) = behind {
            let modified = self.modified.load(Ordering::Relaxed);
            self.stub.grow_to(end).inspect(|()| self.stub_changed())?;
            let mut state = self.held.state.lock();
            (state.behind, state.in_stub) = (state.behind.filter(|own| *own > end), state.in_stub.max(end));
            drop(state);
            // The growth has set the time of the stub. A write long before keeps its own time.
            if (self.pool.clock)().since(Time(modified)) >= LATE {
                self.settle_times()?;
            } else {
                let _ = self.modified.compare_exchange(modified, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        drop(extend);
        if dirty {
            let basis = self.held.state.lock().basis;
            // Only the size that was read under the present exclusive hold is the true one.
            let alone = basis.is_some_and(|basis| holds.exclusive(self.key()) == Some((basis.node, basis.number)));
            let size = self.size.load(Ordering::Acquire);
            // Objects that cannot be cut now are cut by the next node that makes the file longer.
            if alone && !self.cut(&self.view(), size, size).is_empty() {
                self.stub.set_cut_to(Some(size))?;
            }
            // Bytes beyond the end may be those of other writers, until this node has the file alone.
            self.held.state.lock().dirty = !alone;
        }
        Ok(true)
    }

    /// After a truncation that failed: removes its mark, unless the stub is cut by now. Another node would finish it later,
    /// after new writes. Size and marks are read again at the next use. `alone`: this node still has the file alone.
    pub(in crate::file) fn give_up_cut(&self, alone: bool) {
        let Some(holds) = self.holds() else { return };
        if alone && let Err(error) = self.remove_stale_cut() {
            tracing::debug!("the mark of a failed truncation stays on a stub for now: {error}");
            self.defer(holds, |state| state.stale_cut = state.basis.map(|basis| basis.node));
        }
        let mut state = self.held.state.lock();
        state.basis = state.basis.filter(|_| state.behind.is_some());
    }

    /// This node has the hold of its failed truncation, or a later one, so no other truncates the file.
    fn remove_stale_cut(&self) -> Result<()> {
        if let Some(cut) = self.stub.cut_to()?
            && self.stub.size()? > cut
        {
            self.stub.set_cut_to(None)?;
        }
        self.held.state.lock().stale_cut = None;
        Ok(())
    }

    /// Settles what this file has deferred.
    pub(in crate::file) fn settle_deferred(&self) -> Result<()> {
        let Some(holds) = self.holds() else { return Ok(()) };
        let _io = self.io.read();
        let node = {
            let state = self.held.state.lock();
            let basis = state.basis.filter(|_| state.behind.is_some() || state.dirty).map(|basis| basis.node);
            basis.or(state.stale_cut)
        };
        let (Some(node), Some(cluster)) = (node, self.cluster()) else { return Ok(()) };
        // After a lost lease other nodes settle the size from the objects.
        if holds_lease(cluster, node)? { self.settle_held(holds, node).map(drop) } else { Ok(()) }
    }

    /// As `settle_deferred`; the caller has the file alone.
    pub(in crate::file) fn settle_size_alone(&self, holds: &Holds) -> Result<()> {
        let basis = self.held.state.lock().basis;
        match basis.map_or(Ok(true), |basis| self.settle_held(holds, basis.node))? {
            true => Ok(()),
            false => Err(Error::Elsewhere("this node lost its lease before it cut the file".into())),
        }
    }
}

impl Holds {
    /// Sets the sizes that files have deferred. A failed one is tried again.
    pub fn settle_sizes(&self) {
        let behind = std::mem::take(&mut *self.behind.lock());
        for file in behind {
            let io = file.io.read();
            let node = {
                let mut state = file.held.state.lock();
                state.listed = false;
                state.basis.map(|basis| basis.node).or(state.stale_cut)
            };
            let settled = node.map_or(Ok(true), |node| file.settle_held(self, node));
            drop(io);
            let is_gone = settled.as_ref().is_err_and(|error| file.is_gone(self, error));
            let lost = is_gone || node.is_none_or(|node| !self.is_under(node));
            if !lost && !matches!(settled, Ok(true)) {
                tracing::debug!(?settled, "the size of a file is not in its stub for now");
                file.defer(self, |_| ());
            }
        }
    }
}
