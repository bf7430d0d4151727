//! Operations for the mover: receive writes, read an old view, swap the layout while writers are excluded.

use super::read::Failure;
use super::{ByteRanges, File, NewObjects, View};
use crate::{Error, Result};
use policy::layout::Layout;
use std::ops::Range;
use std::sync::Arc;

impl File {
    /// Sends the range of every later write to `watch`.
    pub(crate) fn watch(&self, watch: Arc<ByteRanges>) -> Result<()> {
        self.begin_copy()?;
        let _io = self.io.write(); // running writes have ended
        *self.watch.write() = Some(watch);
        Ok(())
    }

    /// Ends the effect of [`File::watch`].
    pub(crate) fn unwatch(&self) {
        *self.watch.write() = None;
    }

    /// Takes the ranges of `watch`. All their writes have ended: a running write would land after a copy of its range.
    pub(crate) fn take_written(&self, watch: &ByteRanges) -> Vec<Range<u64>> {
        let _io = self.io.write();
        watch.take()
    }

    /// Fills `buf` by the layout of `view`, whether or not it is still current.
    pub(crate) fn read_view(self: &Arc<Self>, view: &View, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self.read_in(view, offset, buf, false) {
            Ok(_) => Ok(()),
            Err(Failure::Again) => Err(Error::Busy("a part of the file is being recovered".into())),
            Err(Failure::Final(e)) => Err(e),
        }
    }

    /// Replaces the layout of `view` while writers are excluded. `finish` updates the new objects before, and `then`
    /// sees the new layout before the next write. Returns `None` without a change if the layout of `view` is outdated.
    pub(crate) fn swap_layout<'a, E: From<Error>>(
        &self,
        view: &Arc<View>,
        new: Layout,
        made: &mut NewObjects<'a>,
        finish: impl FnOnce(&Layout, &NewObjects<'a>) -> Result<(), E>,
        then: impl FnOnce(&Layout),
    ) -> Result<Option<Arc<Layout>>, E> {
        let _alone = self.exclusive()?;
        self.check_unpinned()?;
        if !self.same_view(view) || !self.is_copy_good()? {
            return Ok(None);
        }
        finish(&new, made)?;
        let record = self.record.lock();
        let layout = self.replace(&record, view, new)?;
        made.keep(&self.view());
        then(&layout);
        for slot in self.view().all() {
            if made.was_made(slot.id) {
                slot.set_durable(true);
            }
        }
        Ok(Some(layout))
    }

    /// Keeps the new objects beside the layout of `view`, while writers are excluded. `finish` checks that they are
    /// still equal, and `then` runs before the next write. Returns whether the layout of `view` was current.
    pub(crate) fn leave_beside<'a, E: From<Error>>(
        &self,
        view: &Arc<View>,
        made: &mut NewObjects<'a>,
        finish: impl FnOnce(&NewObjects<'a>) -> Result<(), E>,
        then: impl FnOnce(),
    ) -> Result<bool, E> {
        let _io = self.io.write();
        self.check_unpinned()?;
        self.check_not_removed()?;
        // Copies in no layout are known on this node only: writers on other nodes would not invalidate them.
        if !self.same_view(view) || self.is_shared() {
            return Ok(false);
        }
        finish(made)?;
        made.leave();
        then();
        Ok(true)
    }
}
