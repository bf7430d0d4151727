//! A read or a write on the caller's own thread, and what becomes of it when it hangs.
//!
//! A read takes no lock: it is answered if the file still lies as it did before. One that hangs or fails, or is more than one
//! piece on one healthy target, is for [`File::read`], which knows mirrors and recovery.
//!
//! ```text
//! caller     take `io` shared ── pwrite ──────────────── (hangs) ─────────── returns: Taken
//! watchdog                          deadline: let go of `io`, answer the request
//! ```
//! A write that hangs counts as one that failed: its range holds the old bytes or the new. `io` must not stay taken, since
//! whoever truncates, grows or moves the file would wait for a call that may never return.

use super::overflow::is_refusal;
use super::paged::Paged;
use super::{Access, Error, File, Happened, Result, View};
use crate::target::{InlineError, OnDeadline, State};
use parking_lot::{ArcRwLockReadGuard, Mutex, RawRwLock};
use policy::layout::{ObjectState, Piece, Position};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What became of a read on the caller's thread.
#[derive(Debug, PartialEq, Eq)]
pub enum InlineRead {
    /// So many bytes are in the buffer; fewer than asked for only at the end of the file.
    Done(usize),
    /// Nothing was read that may be answered: use [`File::read`].
    NotNow,
    /// It returned after its deadline; the watchdog has dealt with the request.
    Taken,
}

/// What became of a write on the caller's thread.
#[derive(Debug)]
pub enum InlineWrite {
    /// It is over.
    Done(Result<()>),
    /// Nothing was tried: use [`File::write`].
    NotNow,
    /// It returned after its deadline; the watchdog has answered the request.
    Taken,
}

/// A write under way, as the watchdog sees it.
struct Overdue {
    file: Arc<File>,
    view: Arc<View>,
    at: Position,
    offset: u64,
    end: u64,
    /// The file's `io`, held shared by the write until it ends or is given up.
    io: Mutex<Option<ArcRwLockReadGuard<RawRwLock, ()>>>,
    request: Arc<dyn OnDeadline>,
}

impl OnDeadline for Overdue {
    fn missed(&self) {
        self.file.ended_inline(&self.view, self.at, self.end, false);
        self.file.forget(self.offset, self.end - self.offset);
        drop(self.io.lock().take());
        let access = Access { write: true, offset: self.offset, len: self.end - self.offset };
        self.file.tell(Happened::WriteFailed(access));
        self.request.missed();
    }
}

impl File {
    /// Reads bytes that are in the stub; `None` if they are elsewhere.
    pub fn read_in_stub(self: &Arc<Self>, offset: u64, buf: &mut [u8]) -> Option<Result<usize>> {
        self.is_in_stub().then(|| self.read(offset, buf))
    }

    /// Writes bytes that stay in the stub; `None` if they are elsewhere, or belong there afterwards.
    pub fn write_in_stub(self: &Arc<Self>, offset: u64, data: &[u8]) -> Option<Result<()>> {
        let stays = offset.saturating_add(data.len() as u64) <= self.pool.inline_bytes_max;
        match stays && self.is_in_stub() {
            true if self.is_shared() => self.write_in_shared_stub(offset, data),
            true => Some(self.write(offset, data)),
            false => None,
        }
    }

    /// The same where other nodes use the file, too. What has to wait for them, or fails, is for [`File::write`], which does it again.
    fn write_in_shared_stub(self: &Arc<Self>, offset: u64, data: &[u8]) -> Option<Result<()>> {
        let end = Self::check_range(offset, data.len() as u64).ok()?;
        let _io = self.io.try_read()?;
        let view = self.view();
        if data.is_empty() || view.layout.is_some() || self.is_guarded() || self.may_reach(end).is_err() {
            return None;
        }
        let written = self.write_in(&view, offset, data);
        self.forget(offset, data.len() as u64);
        (written.is_ok() && self.may_acknowledge(&view).ok()?).then_some(Ok(()))
    }

    /// Reads on the caller's thread when the range, cut at the end of the file, is one piece on one healthy target and its
    /// object is open. When it hangs beyond the deadline, `request` is told, once.
    pub fn read_inline(&self, offset: u64, buf: &mut [u8], request: &Arc<dyn OnDeadline>) -> InlineRead {
        if self.was_looked_at_long_ago() {
            return InlineRead::NotNow;
        }
        let view = self.view();
        let Some(piece) = self.only_piece(&view, offset, buf.len()) else { return InlineRead::NotNow };
        let slot = view.slot(piece.at);
        let Ok(target) = slot.target(&self.pool) else { return InlineRead::NotNow };
        if target.in_doubt() || !matches!(target.state(), State::Ok | State::Draining | State::ReadOnly) {
            return InlineRead::NotNow;
        }
        if self.is_cut(slot, piece.len as usize) {
            return InlineRead::NotNow; // it goes to several workers
        }
        let Some(handle) = slot.handle() else { return InlineRead::NotNow };
        handle.advise(self.advice());
        let buf = &mut buf[..piece.len as usize];
        match target.run_inline(|_| handle.read_at(piece.object_offset, buf), Some(request)) {
            Ok(got) if self.same_view(&view) => {
                buf[got..].fill(0); // what the object does not have of them
                InlineRead::Done(buf.len())
            }
            Err(InlineError::Taken) => InlineRead::Taken,
            Ok(_) | Err(InlineError::NotNow | InlineError::Target(_)) => InlineRead::NotNow,
        }
    }

    /// The range, cut at the end of the file, if it is one piece of a complete object.
    fn only_piece(&self, view: &View, offset: u64, len: usize) -> Option<Piece> {
        let layout = view.layout.as_ref()?;
        let left = self.size().checked_sub(offset)?;
        if self.is_shared() && left < len as u64 {
            return None; // another node may have made it longer
        }
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let mirror = self.preferred(view, offset, len)?;
        let piece = layout.mirrors[mirror].pieces(mirror, offset, len as u64).next()?;
        let complete = len > 0 && layout.object(piece.at)?.state == ObjectState::Complete;
        (complete && piece.len == len as u64).then_some(piece)
    }

    /// Writes on the caller's thread when the range is one piece on one healthy target of a file with one mirror and
    /// nothing else is to be done first, and tells the advisers how it went. When it hangs beyond the deadline, `request` is
    /// told, once, and the file goes on without it.
    pub fn write_inline(self: &Arc<Self>, offset: u64, data: &[u8], request: Arc<dyn OnDeadline>) -> InlineWrite {
        let Ok(end) = Self::check_range(offset, data.len() as u64) else { return InlineWrite::NotNow };
        let Some(io) = self.io.try_read_arc() else { return InlineWrite::NotNow };
        let view = self.view();
        if data.is_empty() || !self.is_unobstructed(&view, end) || !self.may_write(&view) || !self.surely_reaches(end) {
            return InlineWrite::NotNow;
        }
        let Some(layout) = &view.layout else { return InlineWrite::NotNow };
        let [mirror] = layout.mirrors.as_slice() else { return InlineWrite::NotNow };
        let mut pieces = mirror.pieces(0, offset, data.len() as u64);
        let (Some(piece), None) = (pieces.next(), pieces.next()) else { return InlineWrite::NotNow };
        self.watch_range(offset, data.len() as u64);
        self.will_reach(end);
        let slot = view.slot(piece.at);
        let overdue = Overdue {
            file: self.clone(),
            view: view.clone(),
            at: piece.at,
            offset,
            end,
            io: Mutex::new(Some(io)),
            request,
        };
        let overdue: Arc<dyn OnDeadline> = Arc::new(overdue);
        let lost = self.pool.lost.noted();
        // A copy costs less than the request more that bytes amid a page take.
        let paged = self.is_sent_on_by_pages(slot, data.len()).then(|| Paged::of(data));
        let sent = paged.as_ref().map_or(data, Paged::all);
        let result = slot.run_inline(&self.pool, |h| h.write_at(piece.object_offset, sent), &overdue);
        let result = match result {
            Err(InlineError::NotNow) => return InlineWrite::NotNow,
            Err(InlineError::Taken) => {
                self.forget(offset, data.len() as u64); // it has landed now, long after it was answered
                if let Err(error) = self.void_sums() {
                    tracing::warn!("a write landed late, and the file may still have checksums of before: {error}");
                }
                return InlineWrite::Taken;
            }
            Err(InlineError::Target(error)) => Err(Error::Target { target: slot.target_id, error }),
            Ok(()) => {
                self.pool.lost.written(slot.id.0, piece.object_offset, piece.len, lost);
                Ok(())
            }
        };
        self.ended_inline(&view, piece.at, end, result.is_ok());
        if result.as_ref().is_err_and(is_refusal) {
            return InlineWrite::NotNow; // there it may go elsewhere
        }
        let done = result.and_then(|()| self.extend_to(end)).inspect(|()| self.was_modified());
        self.forget(offset, data.len() as u64);
        if self.retries(&done).is_some() || !self.may_write(&view) {
            return InlineWrite::NotNow;
        }
        self.tell_written(Access { write: true, offset, len: data.len() as u64 }, &done);
        InlineWrite::Done(done)
    }

    /// After a write, or instead of waiting for its end: what may lie in the object now.
    fn ended_inline(&self, view: &View, at: Position, end: u64, done: bool) {
        view.written(at);
        if !done && end > self.size.load(Ordering::Acquire) {
            self.tail_clean.store(false, Ordering::Release);
        }
    }
}
