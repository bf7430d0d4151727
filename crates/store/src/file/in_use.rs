//! The mark of a file that is in use: a second name in `open/`, for what a record cannot tell whoever comes after a crash.
//!
//! Set while the kernel writes the file alone, while several mirrors are written, and while it is moved. Where several nodes have the
//! volume each has marks of its own: those of a node that is over are settled by another, and nobody takes away one that somebody needs.
//! The last link of a file may be a mark: whoever takes that away removes the objects.

use super::File;
use crate::stub::{InUse, Mark};
use crate::{Error, Result};
use policy::cluster::Standing;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Whether the mark is set for good: mirrors may be written.
    pub(super) fn is_marked_in_use(&self) -> bool {
        let claims = self.claims.lock();
        claims.mark_durable && claims.mark.is_some_and(|mark| self.is_own(mark))
    }

    /// Whether nobody takes a mark for one of a node that is over.
    fn is_own(&self, mark: InUse) -> bool {
        let cluster = self.cluster().zip(mark.node);
        cluster.is_none_or(|(cluster, node)| cluster.standing(node) != Standing::Lost)
    }

    /// How many names lead to the file: the stub's `links` without its mark in `open/`, counted while no mark comes or goes.
    pub(crate) fn names(&self, links: impl FnOnce() -> u64) -> u64 {
        let claims = self.claims.lock();
        let marked = claims.mark.is_some_and(|mark| self.stub.has_mark(mark));
        links().saturating_sub(u64::from(marked))
    }

    /// Whether no name leads to the file any more. `links` counts the stub's links while no mark comes or goes through
    /// this file; in doubt it has a name, and where another node has a mark it is that node's to find out.
    pub(crate) fn is_nameless(&self, links: impl FnOnce() -> Option<u64>) -> bool {
        let claims = self.claims.lock();
        match links() {
            Some(0) => true,
            Some(1) => claims.mark.is_some_and(|mark| self.stub.has_mark(mark)),
            _ => false,
        }
    }

    /// Marks a file before it is moved, or one with several mirrors before it is written: after a crash they may differ.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        let Some(file) = self.id() else { return Ok(()) };
        let node = self.cluster().map(|cluster| cluster.me()).transpose()?;
        let mark = InUse { file, node };
        let mut claims = self.claims.lock();
        if claims.mark != Some(mark) || !claims.mark_durable {
            self.stub.mark_in_use(mark, Mark::Durable)?;
            // One of a number that this node had is another's to settle.
            (claims.mark, claims.mark_durable) = (Some(mark), true);
        }
        Ok(())
    }

    /// Takes the mark away when nothing writes any more; what the mirrors hold is synced first.
    pub(crate) fn settle_mark(&self) {
        let Some(mark) = self.claims.lock().mark else { return };
        let _io = self.io.write();
        // A move is found by its mark after a crash; its end takes it away.
        if !self.claims.lock().is_at_rest() {
            return;
        }
        self.learn_how_it_lies(mark);
        let view = self.view();
        // If the mark stays, the next start takes one mirror for the true one, which is right for equal ones too.
        if self.sync_objects(&view).and_then(|()| self.stub.sync()).is_ok() {
            self.take_away(mark);
        }
    }

    /// Removes the mark when nothing asks for it any more: one mirror, no writer in the kernel.
    pub(crate) fn unmark_if_simple(&self) {
        let several = self.view().in_sync().nth(1).is_some();
        let mark = self.claims.lock().mark.filter(|_| !several && !self.kernel_writes.load(Ordering::Acquire));
        if let Some(mark) = mark {
            self.learn_how_it_lies(mark);
            self.take_away(mark);
        }
    }

    /// Others may have changed it. Once the last link went nobody can ask.
    fn learn_how_it_lies(&self, mark: InUse) {
        if mark.node.is_some()
            && let Err(error) = self.look_again()
        {
            tracing::debug!("how a file lies now is not known: {error}");
        }
    }

    /// If the mark stays, whoever settles it finds a file that is settled.
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

    /// For a file found in `open/` after a crash, here or of another node: settles the size, and keeps one mirror in sync where several may
    /// differ. Whether the mark may go.
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
}

impl Drop for File {
    fn drop(&mut self) {
        self.settle_mark();
        if let Err(error) = self.end_writing() {
            tracing::debug!("a file goes on saying that this node writes it: {error}");
        }
        if self.lost_its_last_link.load(Ordering::Acquire)
            && let Err(error) = self.remove_objects()
        {
            tracing::warn!("the objects of a removed file stay; `entrepot check` will find them: {error}");
        }
    }
}
