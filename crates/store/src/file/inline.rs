//! A write on the caller's own thread, and what becomes of it when it hangs.
//!
//! ```text
//! caller     take `io` shared ── pwrite ──────────────── (hangs) ─────────── returns: Taken
//! watchdog                          deadline: let go of `io`, answer the request
//! ```
//! The write then counts as one that failed: its range holds the old bytes or the new. `io` must not stay taken, since
//! whoever truncates, grows or moves the file would wait for a call that may never return.

use super::overflow::is_refusal;
use super::{Error, File, Result, View};
use crate::target::{InlineError, OnDeadline};
use parking_lot::{ArcRwLockReadGuard, Mutex, RawRwLock};
use policy::layout::Position;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        self.request.missed();
    }
}

impl File {
    /// Writes on the caller's thread when the range is one piece on one healthy target of a file with one mirror and
    /// nothing else is to be done first. When it hangs beyond the deadline, `request` is told, once, and the file goes
    /// on without it.
    pub fn write_inline(self: &Arc<Self>, offset: u64, data: &[u8], request: Arc<dyn OnDeadline>) -> InlineWrite {
        let Ok(end) = Self::check_range(offset, data.len() as u64) else { return InlineWrite::NotNow };
        let Some(io) = self.io.try_read_arc() else { return InlineWrite::NotNow };
        let view = self.view();
        if data.is_empty() || !self.is_unobstructed(&view, end) {
            return InlineWrite::NotNow;
        }
        let Some(layout) = &view.layout else { return InlineWrite::NotNow };
        let [mirror] = layout.mirrors.as_slice() else { return InlineWrite::NotNow };
        let mut pieces = mirror.pieces(0, offset, data.len() as u64);
        let (Some(piece), None) = (pieces.next(), pieces.next()) else { return InlineWrite::NotNow };
        self.watch_range(offset, data.len() as u64);
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
        let result = slot.run_inline(&self.pool, |h| h.write_at(piece.object_offset, data), &overdue);
        let result = match result {
            Err(InlineError::NotNow) => return InlineWrite::NotNow,
            Err(InlineError::Taken) => {
                self.forget(offset, data.len() as u64); // it has landed now, long after it was answered
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
