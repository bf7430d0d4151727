//! Objects of a file on their targets: access for repair, and removal.
//!
//! Removal and publication exclude each other by `io`. A concurrent change of the layout publishes nothing afterwards,
//! and its maker removes its new objects: the removal does not find them.

use super::{File, Pool};
use crate::Result;
use meta::stub::InUse;
use object::target::TargetError;
use policy::layout::Position;
use policy::{ObjectId, TargetId};
use std::sync::atomic::Ordering;

impl Pool {
    /// Makes names of objects on a target durable.
    pub(super) fn sync_names(&self, target: TargetId) -> Result<(), TargetError> {
        self.targets.get(target).ok_or(TargetError::Failed)?.run(|medium| medium.sync_names())
    }

    /// Removes an object, or notes it as garbage when its target cannot do it now.
    pub(crate) fn remove_object(&self, target: TargetId, object: ObjectId) {
        if self.making.is_doubtful(object) {
            return;
        }
        self.lost.cut(object.0, 0);
        let removed = self.targets.get(target).map(|t| t.run(move |medium| medium.remove(object)));
        tracing::trace!(%object, %target, ?removed, "an object is removed");
        let garbage = self.garbage.as_ref().filter(|_| !matches!(removed, Some(Ok(()))));
        if garbage.is_some_and(|state| state.garbage_add(&[(target, object)]).is_err()) {
            tracing::warn!(
                "object {object} on target {target} could neither be removed nor recorded as garbage; \
                 it takes space until `entrepot check` finds it"
            );
        }
    }
}

impl File {
    /// After the last unlink and close: removes the objects, or notes them as garbage where the target is away.
    pub fn remove_objects(&self) -> Result<()> {
        let _io = self.io.write();
        self.removed.store(true, Ordering::Release);
        if let Some(id) = self.id().filter(|_| !self.pool.slow_copies.is_empty()) {
            self.pool.slow_copies.forget(|(file, _), _| *file == id);
        }
        for slot in self.view().all() {
            slot.remove(&self.pool);
        }
        self.forget_all();
        match self.id() {
            Some(id) => {
                if let Some(places) = self.pool.places.get() {
                    places.file_is_gone(id);
                }
                self.lost_its_last_link.store(false, Ordering::Release);
                let mark = self.claims.lock().take_mark();
                self.stub.discard(mark.unwrap_or(InUse { file: id, node: None }))
            }
            None => Ok(()),
        }
    }

    /// Whether the objects have been removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Refuses a new layout for a file without objects. The caller holds `io`.
    ///
    /// # Errors
    /// `Busy` if the objects have been removed.
    pub(super) fn check_not_removed(&self) -> Result<()> {
        if self.is_removed() { Err(crate::Error::Busy("the file has been removed".into())) } else { Ok(()) }
    }

    /// Has the objects removed with the last use of the file on this node, unless another node may have it open then.
    pub(crate) fn remove_with_last_use(&self) {
        self.lost_its_last_link.store(true, Ordering::Release);
    }

    /// Bytes that the objects of all mirrors take; `None` without objects, or if one does not respond.
    pub fn allocated(&self) -> Option<u64> {
        let view = self.view();
        view.layout.as_ref()?;
        let asked: Vec<_> = view.all().map(|slot| slot.submit(&self.pool, |h| h.allocated())).collect();
        asked.into_iter().map(|submitted| submitted.and_then(|pending| pending.wait()).ok()).sum()
    }

    /// Does something with the object at a position of the current layout, on a worker of its target (repair).
    pub fn with_object<T, F>(&self, at: Position, object: ObjectId, op: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn object::target::Handle) -> Result<T, rustix::io::Errno> + Send + 'static,
    {
        let view = self.view();
        let there = view.layout.as_ref().and_then(|l| l.object(at)).is_some_and(|o| o.id == object);
        if !there {
            return Err(crate::Error::Busy("the layout changed in between".into()));
        }
        let slot = view.slot(at);
        let done = slot.run(&self.pool, op);
        slot.unsynced.changed();
        done.map_err(|error| crate::Error::Target { target: slot.target_id, error })
    }
}
