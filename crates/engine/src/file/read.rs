//! Reads: piece by piece, from the best mirror, from the next on failure, after recovery when none is left.

use super::paged::Paged;
use super::{Event, File, View, target_error};
use crate::{Error, Result};
use object::target::TargetError;
use policy::TargetId;
use policy::layout::{ObjectState, Piece};
use policy::protect::health::State;
use std::sync::Arc;

/// Maximum number of recoveries and changes of layout during one read. A guess: each of them is progress, so the bound
/// only stops endless churn.
const ATTEMPTS_MAX: usize = 1024;

/// Reason why a piece could not be read under this view.
pub(super) enum Failure {
    /// The layout may have changed: get a new view and read again.
    Again,
    /// The piece cannot be read.
    Final(Error),
}

impl File {
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read(self: &Arc<Self>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        for _ in 0..ATTEMPTS_MAX {
            let right = self.begin_reading(offset.saturating_add(buf.len() as u64))?;
            let snapshot = self.snapshot();
            let len = snapshot.within(offset, buf.len());
            let result = self.read_in(&snapshot.view, offset, &mut buf[..len], true);
            if !self.is_current(&snapshot) || !self.may_acknowledge(&right)? {
                continue;
            }
            match result {
                Ok(()) => return Ok(len),
                Err(Failure::Again) => {}
                Err(Failure::Final(error)) => return Err(error),
            }
        }
        Err(Error::Unrecoverable("the layout changed under every attempt to read; read again".into()))
    }

    /// Fills `buf` by the layout of `view`. Bytes beyond an object's end are zeros. Waits for recoveries if `may_wait`;
    /// a caller that holds `io` must not.
    pub(super) fn read_in(
        self: &Arc<Self>,
        view: &View,
        offset: u64,
        buf: &mut [u8],
        may_wait: bool,
    ) -> Result<(), Failure> {
        if view.layout.is_none() {
            return self.read_stub(offset, buf).map_err(Failure::Final);
        }
        let preferred = self.preferred(view, offset, buf.len()).unwrap_or(0);
        if self.is_parallel(view, preferred, offset, buf.len())
            && self.read_parallel(view, preferred, offset, buf).is_some()
        {
            return Ok(());
        }
        let mut done = 0;
        while done < buf.len() {
            done += self.read_next(view, preferred, offset + done as u64, &mut buf[done..], may_wait)?;
        }
        Ok(())
    }

    /// Reads the first piece of the range from the first candidate that has it; returns its length.
    fn read_next(
        self: &Arc<Self>,
        view: &View,
        preferred: usize,
        offset: u64,
        buf: &mut [u8],
        may_wait: bool,
    ) -> Result<usize, Failure> {
        let layout = view.layout.as_ref().expect("only called with a layout");
        let candidates = layout.candidates(preferred, offset, buf.len() as u64, |t| self.target_state(t));
        let Some(first) = candidates.first() else {
            buf.fill(0); // within the size but in no segment: never written
            return Ok(buf.len());
        };
        let mut error = None;
        for candidate in &candidates {
            let piece = &candidate.piece;
            let len = piece.len as usize;
            match self.read_piece(view, piece, &mut buf[..len]) {
                Ok(true) => return Ok(len),
                Ok(false) => {}
                Err(e) => {
                    if !e.is_shortage() {
                        self.note(Event::ReadElsewhere { target: candidate.target });
                    }
                    error.get_or_insert((candidate.target, e));
                }
            }
        }
        let (target, error) = error.unwrap_or((first.target, TargetError::Failed));
        // A shortage of descriptors or memory in the daemon is no loss of data.
        if !may_wait || error.is_shortage() {
            return Err(Failure::Final(target_error(target, error)));
        }
        Err(self.recover_piece(&first.piece, layout, target, error))
    }

    /// Reads a piece on a worker of its target; returns false if its rows are not recovered yet.
    pub(super) fn read_piece(&self, view: &View, piece: &Piece, buf: &mut [u8]) -> Result<bool, TargetError> {
        if !self.is_readable(view, piece) {
            return Ok(false);
        }
        let slot = view.slot(piece.at);
        let offset = piece.object_offset;
        let len = buf.len();
        let advice = self.advice();
        let (bytes, read) = slot.run(&self.pool, move |h| {
            h.advise(advice);
            let mut bytes = Paged::zeroed(len);
            h.read_at(offset, &mut bytes).map(|read| (bytes, read))
        })?;
        buf[..read].copy_from_slice(&bytes[..read]);
        buf[read..].fill(0);
        Ok(true)
    }

    /// Whether a hole in the piece's object is real, and not bytes that await recovery.
    pub(super) fn is_readable(&self, view: &View, piece: &Piece) -> bool {
        let layout = view.layout.as_ref().expect("a piece comes from a layout");
        let Some(object) = layout.object(piece.at) else { return false };
        if object.state == ObjectState::Complete {
            return true;
        }
        let Some(recovery) = self.pool.recovery.get() else { return false };
        rows(layout, piece).all(|row| recovery.is_patched(layout.file, object.id, row))
    }

    /// Recovers the piece from the source, and waits for it.
    fn recover_piece(
        self: &Arc<Self>,
        piece: &Piece,
        layout: &policy::layout::Layout,
        target: TargetId,
        error: TargetError,
    ) -> Failure {
        match self.pool.recovery.get().filter(|_| self.is_recoverable()) {
            Some(recovery) => match recovery.recover(self, piece.at, rows(layout, piece)) {
                Ok(()) => Failure::Again,
                Err(error) => Failure::Final(error),
            },
            None => Failure::Final(target_error(target, error)),
        }
    }

    /// State of a target for the choice of a mirror.
    pub(super) fn target_state(&self, id: TargetId) -> State {
        let Some(target) = self.pool.targets.get(id) else { return State::Failed };
        let state = target.state();
        if state == State::Ok && target.in_doubt() { State::Suspect } else { state }
    }
}

/// The rows of its object that a piece touches.
fn rows(layout: &policy::layout::Layout, piece: &Piece) -> std::ops::Range<u64> {
    let stripe = layout.mirrors[piece.at.mirror].segments[piece.at.segment].stripe_size;
    piece.object_offset / stripe..(piece.object_offset + piece.len).div_ceil(stripe)
}

impl File {
    /// Records a change of the stub.
    pub(super) fn stub_changed(&self) {
        self.stub_unsynced.changed();
    }

    /// Records a change of the stub that is over, whatever its result.
    pub(super) fn after_stub_change<T>(&self, done: T) -> T {
        self.stub_changed();
        done
    }
}
