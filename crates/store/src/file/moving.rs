//! What the mover needs of a file: to hear of writes, to read an old view, to swap the layout with writers kept out.

use super::read::Failure;
use super::{ByteRanges, File, NewObjects, View};
use crate::{Error, Result};
use policy::layout::Layout;
use std::sync::Arc;

impl File {
    /// From now on every write is told to `watch`.
    pub(crate) fn watch(&self, watch: Arc<ByteRanges>) -> Result<()> {
        let _alone = self.exclusive()?; // writers under way have ended
        self.begin_copy()?;
        *self.watch.write() = Some(watch);
        Ok(())
    }

    /// Ends that.
    pub(crate) fn unwatch(&self) {
        *self.watch.write() = None;
        self.end_copy();
    }

    /// Fills `buf` from where `view` says the bytes lie, whether or not it is still current.
    pub(crate) fn read_view(self: &Arc<Self>, view: &View, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self.read_in(view, offset, buf, false) {
            Ok(()) => Ok(()),
            Err(Failure::Again) => Err(Error::Busy("a part of the file is being recovered".into())),
            Err(Failure::Final(e)) => Err(e),
        }
    }

    /// Keeps writers out, lets `finish` bring the new objects up to date, and puts the new layout in the place of that
    /// of `view`; `then` sees that before anybody writes again. Nothing is changed if the layout is not that of `view` any more.
    pub(crate) fn swap_layout<'a, E: From<Error> + Changed>(
        &self,
        view: &Arc<View>,
        new: Layout,
        made: &mut NewObjects<'a>,
        finish: impl FnOnce(&Layout, &NewObjects<'a>) -> Result<(), E>,
        then: impl FnOnce(&Layout),
    ) -> Result<Arc<Layout>, E> {
        let _alone = self.exclusive()?;
        self.check_unpinned()?;
        if !self.same_view(view) || !self.is_copy_good()? {
            return Err(E::changed());
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
        Ok(layout)
    }

    /// Keeps writers out, lets `finish` see that the new objects are equal still, and leaves them beside the layout of `view`, which stays;
    /// `then` sees to them before anybody writes again.
    pub(crate) fn leave_beside<'a, E: From<Error> + Changed>(
        &self,
        view: &Arc<View>,
        made: &mut NewObjects<'a>,
        finish: impl FnOnce(&NewObjects<'a>) -> Result<(), E>,
        then: impl FnOnce(),
    ) -> Result<(), E> {
        let _io = self.io.write();
        self.check_unpinned()?;
        // Copies in no layout are known here alone: writers on other nodes would not spoil them.
        if !self.same_view(view) || self.is_shared() {
            return Err(E::changed());
        }
        finish(made)?;
        made.leave();
        then();
        Ok(())
    }
}

/// An error that can say that the layout changed meanwhile.
pub(crate) trait Changed {
    /// The layout changed meanwhile.
    fn changed() -> Self;
}
