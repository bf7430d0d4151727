//! The mark of a file in use: a second name in `open/`. After a crash it leads to files whose record may be incomplete.
//!
//! A node sets it while the kernel writes the file alone, while several mirrors are written, and during a move. With
//! several nodes each sets its own marks. Another node settles the marks of a node whose lease ended, and never removes
//! a mark in use. The last link of a file may be a mark: the node that removes it removes the objects. While another
//! node may have the file open they stay; the next start finds them.

use super::File;
use crate::{Error, Result};
use meta::stub::{InUse, Mark};
use policy::cluster::Standing;
use policy::layout::Layout;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Wait for nodes that have closed a removed file and still hold it. A guess: a recall takes milliseconds.
const RELEASE_WAIT: Duration = Duration::from_millis(200);

impl File {
    /// Whether the mark is durable, so that mirrors may be written.
    pub(super) fn is_marked_in_use(&self) -> bool {
        let claims = self.claims.lock();
        claims.mark_durable && claims.mark.is_some_and(|mark| self.is_own(mark))
    }

    /// Whether no node may treat the mark as left behind by an ended lease.
    fn is_own(&self, mark: InUse) -> bool {
        let cluster = self.cluster().zip(mark.node);
        cluster.is_none_or(|(cluster, node)| cluster.standing(node) != Standing::Lost)
    }

    /// Number of names of the file: the stub's `links` without its mark in `open/`, counted while no mark is set or
    /// removed.
    pub fn names(&self, links: impl FnOnce() -> u64) -> u64 {
        let claims = self.claims.lock();
        links().saturating_sub(u64::from(self.has_mark_of(claims.mark)))
    }

    /// Whether the stub has this node's mark. With one node, the mark may be left from the previous daemon, or from an
    /// earlier [`File`] that is about to remove it.
    fn has_mark_of(&self, claimed: Option<InUse>) -> bool {
        let alone = || self.id().filter(|_| self.cluster().is_none()).map(|file| InUse { file, node: None });
        claimed.or_else(alone).is_some_and(|mark| self.stub.has_mark(mark))
    }

    /// Whether no name of the file is left. `links` counts the stub's links while no mark is set or removed through
    /// this file. In doubt the file has a name; a node with a mark decides for itself.
    pub fn is_nameless(&self, links: impl Fn() -> Option<u64>) -> bool {
        let claims = self.claims.lock();
        match links() {
            Some(0) => true,
            // An earlier `File` may remove its mark between the two looks.
            Some(1) => self.has_mark_of(claims.mark) || links() == Some(0),
            _ => false,
        }
    }

    /// Sets the mark before a move, or before a write to several mirrors: after a crash they may differ.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        let Some(file) = self.id() else { return Ok(()) };
        let node = self.cluster().map(|cluster| cluster.me()).transpose()?;
        let mark = InUse { file, node };
        let mut claims = self.claims.lock();
        if claims.mark != Some(mark) || !claims.mark_durable {
            self.stub.mark_in_use(mark, Mark::Durable)?;
            // Other nodes settle marks under earlier numbers of this node.
            (claims.mark, claims.mark_durable) = (Some(mark), true);
        }
        Ok(())
    }

    /// Removes the mark when nothing writes the file any more; syncs the mirrors first.
    pub fn settle_mark(&self) {
        let Some(mark) = self.claims.lock().mark else { return };
        let _io = self.io.write();
        // A mark leads to an interrupted move after a crash; the end of the move removes it.
        if !self.claims.lock().is_at_rest() {
            return;
        }
        if self.settle_past_writes().is_err() {
            return; // a later use or the next start reads the size from the object
        }
        self.learn_layout(mark);
        let view = self.view();
        // If the mark stays, the next start keeps one mirror, which is correct for equal mirrors, too.
        if self.sync_objects(&view).and_then(|()| self.stub.sync()).is_ok() {
            self.take_away(mark);
        }
    }

    /// Removes the mark when it is not needed any more: one mirror, no writer in the kernel.
    pub(crate) fn unmark_if_simple(&self) {
        let several = self.view().in_sync().nth(1).is_some();
        let mark = self.claims.lock().mark.filter(|_| !several && !self.kernel_writes.load(Ordering::Acquire));
        if let Some(mark) = mark {
            self.learn_layout(mark);
            self.take_away(mark);
        }
    }

    /// Removes a mark. If that fails, its later settlement finds a settled file.
    fn take_away(&self, mark: InUse) {
        let mut claims = self.claims.lock();
        if claims.mark != Some(mark) || self.stub.mark_in_use(mark, Mark::None).is_err() {
            return;
        }
        claims.take_mark();
        if mark.node.is_some() && self.stub.links() == Some(0) {
            self.lost_its_last_link.store(true, Ordering::Release);
        }
    }

    /// Settles a file found in `open/` after a crash of any node: updates the size, and keeps one mirror in sync where
    /// several may differ. Returns whether the mark may be removed.
    pub fn settle_after_crash(self: &Arc<Self>) -> Result<bool> {
        let _alone = self.exclusive()?;
        let view = self.view();
        let single = view.layout.as_ref().is_some_and(|l| l.single_object().is_some());
        if single && self.stub.kernel_writes()? {
            let slot = view.all().next().expect("a single object");
            let len =
                slot.run(&self.pool, |h| h.len()).map_err(|error| Error::Target { target: slot.target_id, error })?;
            self.extend_to(len)?;
        }
        if view.in_sync().nth(1).is_some() && !self.keep_one_mirror()? {
            return Ok(false); // they still may differ
        }
        self.stub.set_kernel_writes(false)?;
        self.stub.sync()?;
        Ok(true)
    }

    /// Updates the layout before the last link of a file is removed: another node may have changed it, and its objects
    /// go with the file.
    fn learn_layout(&self, mark: InUse) {
        if mark.node.is_none() || self.stub.links() != Some(1) {
            return;
        }
        let _record = self.record.lock();
        let newest = self.stub.layout();
        let is_newer = |layout: &Layout| self.layout().is_none_or(|known| known.generation < layout.generation);
        let learned =
            newest.and_then(|layout| layout.filter(is_newer).map_or(Ok(()), |layout| self.install(Some(layout))));
        if let Err(error) = learned {
            tracing::debug!("the current layout of a file is unknown: {error}");
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.settle_mark();
        if let Some(holds) = self.holds() {
            holds.closed(self);
        }
        if !self.lost_its_last_link.load(Ordering::Acquire) {
            return;
        }
        if self.is_held_elsewhere(RELEASE_WAIT) {
            tracing::info!(
                "the objects of a removed file stay, since other nodes may use them; the next start removes them"
            );
        } else if let Err(error) = self.remove_objects() {
            tracing::warn!("the objects of a removed file stay; `entrepot check` will find them: {error}");
        }
    }
}
