//! Reads of a single mirror, for comparison with other mirrors or checksums.

use super::write::Missed;
use super::{File, View};
use crate::{Error, Result};
use object::target::TargetError;
use policy::layout::ObjectState;
use rustix::io::Errno;
use std::sync::Arc;

impl File {
    /// Fills `buf` from one mirror only. Bytes that none of its objects has are zeros.
    ///
    /// # Errors
    /// `Busy` where an object is being recovered.
    pub(crate) fn read_mirror(self: &Arc<Self>, view: &View, mirror: usize, offset: u64, buf: &mut [u8]) -> Result<()> {
        let Some(layout) = &view.layout else { return Err(Error::Busy("the file has no objects".into())) };
        let mut done = 0;
        for piece in layout.mirrors[mirror].pieces(mirror, offset, buf.len() as u64) {
            let len = piece.len as usize;
            if layout.object(piece.at).is_none_or(|o| o.state != ObjectState::Complete) {
                return Err(Error::Busy("a part of the file is being recovered".into()));
            }
            let read = self.read_piece(view, &piece, &mut buf[done..done + len]);
            let target = view.slot(piece.at).target_id;
            read.map_err(|error| Error::Target { target, error })?;
            done += len;
        }
        buf[done..].fill(0);
        Ok(())
    }

    /// Calls `look` while nothing writes the file; returns `None` if `view` is outdated.
    pub(crate) fn while_unwritten<T>(&self, view: &Arc<View>, look: impl FnOnce() -> T) -> Option<T> {
        let _alone = self.exclusive().ok()?;
        self.same_view(view).then(look)
    }

    /// Marks a mirror with wrong bytes stale, if another mirror is whole.
    pub(crate) fn distrust(self: &Arc<Self>, view: &Arc<View>, mirror: usize) -> Result<()> {
        let _alone = self.exclusive()?;
        if !self.same_view(view) {
            return Err(Error::Busy("the layout changed in between".into()));
        }
        let Some(target) = view.of_mirror(mirror).next().map(|slot| slot.target_id) else { return Ok(()) };
        self.mark_stale(&[Missed { mirror, target, error: TargetError::Io(Errno::IO) }])?;
        self.forget_all();
        self.stub().sync()
    }
}
