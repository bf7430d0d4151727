//! Sizes of files that this node makes longer. Under an exclusive hold memory is ahead of the stub, which gets the size at
//! a recall, sync, close, or after a while.

use super::Holds;
use crate::file::File;
use crate::file::nodes::holds_lease;
use crate::{Error, Result};
use policy::Time;
use policy::cluster::Node;
use std::sync::atomic::Ordering;

/// Age of a write from which its time differs from that of the stub's growth.
const LATE: Time = Time::from_secs(1);

impl File {
    /// Makes the stub longer: later under an exclusive hold, at once beside other nodes. The caller holds `io`.
    pub(in crate::file) fn set_longer_size(&self, holds: &Holds, end: u64) -> Result<()> {
        let is_alone = holds.is_exclusive(self.key());
        let basis = self.held.state.lock().basis;
        let Some(basis) = basis.filter(|_| !is_alone) else {
            self.defer(holds, true, false);
            return Ok(());
        };
        // A size from a node whose lease ended would restore bytes that were cut since.
        if !holds.has_lease(basis.node) {
            return Err(Error::Busy("this node has no lease now".into()));
        }
        self.stub.grow_to(end)
    }

    /// Defers the size of the stub, or the cut of the tail. The file stays in memory until then.
    pub(in crate::file) fn defer(&self, holds: &Holds, behind: bool, dirty: bool) {
        let mut state = self.held.state.lock();
        let listed = state.behind >= behind && state.dirty >= dirty;
        (state.behind, state.dirty) = (state.behind || behind, state.dirty || dirty);
        drop(state);
        if let Some(this) = self.this.upgrade().filter(|_| !listed) {
            holds.behind.lock().push(this);
        }
    }

    /// Sets the size of the stub to the acknowledged one. The hold stays, because the caller holds `io` or drains.
    /// Returns whether the stub has it.
    pub(in crate::file) fn settle_held(&self, holds: &Holds, node: Node) -> Result<bool> {
        let (behind, dirty) = {
            let state = self.held.state.lock();
            (state.behind, state.dirty)
        };
        if !(behind || dirty) {
            return Ok(true);
        }
        if !holds.has_lease(node) {
            return Ok(false);
        }
        let extend = self.extend.lock();
        let size = self.size.load(Ordering::Acquire);
        if behind {
            let modified = self.modified.load(Ordering::Relaxed);
            self.stub.grow_to(size).inspect(|()| self.stub_changed())?;
            self.held.state.lock().behind = false;
            // The growth has set the time of the stub. A write long before keeps its own time.
            if (self.pool.clock)().since(Time(modified)) >= LATE {
                self.settle_times()?;
            } else {
                let _ = self.modified.compare_exchange(modified, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        drop(extend);
        if dirty {
            let alone = holds.is_exclusive(self.key());
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

    /// Settles what this file has deferred.
    pub(in crate::file) fn settle_deferred(&self) -> Result<()> {
        let Some(holds) = self.holds() else { return Ok(()) };
        let _io = self.io.read();
        let node = {
            let state = self.held.state.lock();
            state.basis.filter(|_| state.behind || state.dirty).map(|basis| basis.node)
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
            let node = file.held.state.lock().basis.map(|basis| basis.node);
            let settled = node.map_or(Ok(true), |node| file.settle_held(self, node));
            drop(io);
            let lost = node.is_none_or(|node| !self.is_under(node));
            if !lost && !matches!(settled, Ok(true)) {
                tracing::debug!(?settled, "the size of a file is not in its stub for now");
                self.behind.lock().push(file);
            }
        }
    }
}
