//! The short way for a read that is one piece on one healthy target: the caller reads by itself and then asks whether
//! what it read may be answered.

use super::{File, View};
use crate::target::{Handle, State, Target};
use policy::layout::ObjectState;
use std::sync::Arc;

/// A range of the file that is one range of one object.
pub struct FastPiece {
    view: Arc<View>,
    target: Arc<Target>,
    handle: Arc<dyn Handle>,
    /// First byte in the object.
    pub object_offset: u64,
    /// Bytes; what the object does not have of them is zeros.
    pub len: usize,
}

impl FastPiece {
    /// The target on which to run the read.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// The open object.
    pub fn handle(&self) -> &Arc<dyn Handle> {
        &self.handle
    }
}

impl File {
    /// Where to read `[offset, offset+len)`, cut at the end of the file, when it is one piece on a target that is ok and
    /// the object is open; `None` otherwise: use [`File::read`], which also opens it.
    pub fn fast_read(&self, offset: u64, len: usize) -> Option<FastPiece> {
        let view = self.view();
        let layout = view.layout.as_ref()?;
        let left = self.size().checked_sub(offset)?;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let mirror = self.preferred(&view, offset, len)?;
        let piece = layout.mirrors[mirror].pieces(mirror, offset, len as u64).next()?;
        if len == 0 || piece.len != len as u64 || layout.object(piece.at)?.state != ObjectState::Complete {
            return None;
        }
        let slot = view.slot(piece.at);
        let target = slot.target(&self.pool).ok()?;
        if target.in_doubt() || !matches!(target.state(), State::Ok | State::Draining | State::ReadOnly) {
            return None;
        }
        let (target, handle) = (target.clone(), slot.handle()?);
        handle.advise(self.advice());
        Some(FastPiece { target, handle, object_offset: piece.object_offset, len, view })
    }

    /// After reading a piece: whether what was read may be answered.
    pub fn still_valid(&self, piece: &FastPiece) -> bool {
        self.same_view(&piece.view)
    }
}
