//! Reads and writes on the caller's own thread, and their handling when they hang.
//!
//! A read takes no lock: its result is used if the layout is still the same afterwards. A read that hangs or fails, or
//! needs more than one piece on one healthy target, is left to [`File::read`], which handles mirrors and recovery.
//!
//! ```text
//! caller     take `io` shared ── pwrite ──────────────── (hangs) ─────────── returns: Taken
//! watchdog                          deadline: let go of `io`, answer the request
//! ```
//! A write that hangs counts as failed: its range has the old bytes or the new. `io` must be released, since
//! truncation, growth and moves would otherwise wait for a call that may never return.

use super::held::Right;
use super::overflow::is_refusal;
use super::paged::Paged;
use super::snapshot::Snapshot;
use super::{Access, Error, File, Happened, Result, View};
use object::target::{InlineError, OnDeadline, State};
use parking_lot::{ArcRwLockReadGuard, Mutex, RawRwLock};
use policy::cluster::share::Written;
use policy::holders::node::Use;
use policy::layout::{ObjectState, Piece, Position};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Result of an operation on the caller's thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Inline<T> {
    /// It ended with this result.
    Done(T),
    /// Nothing was read or acknowledged: use [`File::read`] or [`File::write`].
    NotNow,
    /// It returned after its deadline; the watchdog has handled the request.
    Taken,
}

/// Result of a read: the number of bytes in the buffer, smaller than the request only at the end of the file.
pub type InlineRead = Inline<usize>;

/// Result of a write.
pub type InlineWrite = Inline<Result<()>>;

/// A running write, as the watchdog sees it.
struct Overdue {
    file: Arc<File>,
    view: Arc<View>,
    at: Position,
    offset: u64,
    end: u64,
    /// The file's `io`, held shared until the write ends or the watchdog gives it up.
    io: Mutex<Option<ArcRwLockReadGuard<RawRwLock, ()>>>,
    request: Arc<dyn OnDeadline>,
}

impl OnDeadline for Overdue {
    fn missed(&self) {
        self.file.ended_inline(&self.view, self.at, self.end, false);
        self.file.forget(self.offset, self.end - self.offset);
        drop(self.io.lock().take());
        let access = Access { write: true, offset: self.offset, len: self.end - self.offset };
        self.file.tell(Happened::WriteFailed(access, "its target did not answer in time"));
        self.request.missed();
    }
}

impl File {
    /// Reads bytes from the stub; `None` if they are elsewhere.
    pub fn read_in_stub(self: &Arc<Self>, offset: u64, buf: &mut [u8]) -> Option<Result<usize>> {
        self.is_in_stub().then(|| self.read(offset, buf))
    }

    /// Writes bytes that stay in the stub; `None` if they are elsewhere, or must be moved by the write.
    pub fn write_in_stub(self: &Arc<Self>, offset: u64, data: &[u8]) -> Option<Result<()>> {
        let stays = offset.saturating_add(data.len() as u64) <= self.pool.inline_bytes_max;
        match stays && self.is_in_stub() {
            true if self.is_shared() => self.write_in_shared_stub(offset, data),
            true => Some(self.write(offset, data)),
            false => None,
        }
    }

    /// As `write_in_stub`, for a file that other nodes use, too. Returns `None` if the write must wait or fails;
    /// [`File::write`] then repeats it.
    fn write_in_shared_stub(self: &Arc<Self>, offset: u64, data: &[u8]) -> Option<Result<()>> {
        let end = Self::check_range(offset, data.len() as u64).ok()?;
        let _io = self.io.try_read()?;
        let right = self.may_write(end)?;
        let view = self.view();
        if data.is_empty() || view.layout.is_some() || self.is_guarded() || self.may_reach(end).is_err() {
            return None;
        }
        let written = self.write_in(&view, offset, data);
        self.forget(offset, data.len() as u64);
        (written.is_ok() && self.may_acknowledge(&right).ok()?).then_some(Ok(()))
    }

    /// Reads on the caller's thread. The range, cut at the end of the file, must be one piece on one healthy target,
    /// with its object open. On a missed deadline `request` is called, once.
    pub fn read_inline(&self, offset: u64, buf: &mut [u8], request: &Arc<dyn OnDeadline>) -> InlineRead {
        let Some(right) = self.may_read_inline() else { return InlineRead::NotNow };
        let Some(snapshot) = self.snapshot_now() else { return InlineRead::NotNow };
        let view = &snapshot.view;
        let Some(piece) = self.only_piece(&snapshot, offset, buf.len()) else { return InlineRead::NotNow };
        let slot = view.slot(piece.at);
        let Ok(target) = slot.target(&self.pool) else { return InlineRead::NotNow };
        if target.in_doubt() || !matches!(target.state(), State::Ok | State::Draining | State::ReadOnly) {
            return InlineRead::NotNow;
        }
        if self.is_cut(slot, piece.len as usize) {
            return InlineRead::NotNow; // such a read is split over several workers
        }
        let Some(handle) = slot.handle() else { return InlineRead::NotNow };
        handle.advise(self.advice());
        let buf = &mut buf[..piece.len as usize];
        match target.run_inline(|_| handle.read_at(piece.object_offset, buf), Some(request)) {
            Ok(got) if self.is_current(&snapshot) && self.may_answer(&right) => {
                buf[got..].fill(0); // the object ends before these bytes
                InlineRead::Done(buf.len())
            }
            Err(InlineError::Taken) => InlineRead::Taken,
            Ok(_) | Err(InlineError::NotNow | InlineError::Target(_)) => InlineRead::NotNow,
        }
    }

    /// Right to a read without a wait: with holds, one that caches. `None`: not now.
    pub(super) fn may_read_inline(&self) -> Option<Option<Right>> {
        let Some(holds) = self.holds() else { return Some(None) };
        self.right_now(holds, Use::Read).filter(|right| right.permit.mode.caches()).map(Some)
    }

    /// Whether the result of an operation may be acknowledged without a wait.
    pub(super) fn may_answer(&self, right: &Option<Right>) -> bool {
        match (self.holds(), right) {
            (Some(holds), Some(right)) => holds.finish(self.key(), right) == Written::Acknowledge,
            _ => true,
        }
    }

    /// The range, cut at the end of the file, if it is one piece of a complete object.
    fn only_piece(&self, snapshot: &Snapshot, offset: u64, len: usize) -> Option<Piece> {
        let view = &snapshot.view;
        let layout = view.layout.as_ref()?;
        snapshot.size.checked_sub(offset)?;
        let len = snapshot.within(offset, len);
        let mirror = self.preferred(view, offset, len)?;
        let piece = layout.mirrors[mirror].pieces(mirror, offset, len as u64).next()?;
        let complete = len > 0 && layout.object(piece.at)?.state == ObjectState::Complete;
        (complete && piece.len == len as u64).then_some(piece)
    }

    /// Writes on the caller's thread and sends the result to the advisers. The range must be one piece on one healthy
    /// target of a file with one mirror, with no preparation needed. On a missed deadline `request` is called, once,
    /// and the file continues without the write.
    pub fn write_inline(self: &Arc<Self>, offset: u64, data: &[u8], request: Arc<dyn OnDeadline>) -> InlineWrite {
        let Ok(end) = Self::check_range(offset, data.len() as u64) else { return InlineWrite::NotNow };
        let Some(io) = self.io.try_read_arc() else { return InlineWrite::NotNow };
        let Some(right) = self.may_write(end) else { return InlineWrite::NotNow };
        let view = self.view();
        if data.is_empty() || !self.is_unobstructed(&view, end) || !self.surely_reaches(end) {
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
        // A copy costs less than the extra request that unaligned bytes cause.
        let paged = self.is_sent_on_by_pages(slot, data.len()).then(|| Paged::of(data));
        let sent = paged.as_deref().unwrap_or(data);
        let result = slot.run_inline(&self.pool, |h| h.write_at(piece.object_offset, sent), &overdue);
        let result = match result {
            Err(InlineError::NotNow) => return InlineWrite::NotNow,
            Err(InlineError::Taken) => {
                self.forget(offset, data.len() as u64); // the late write has changed the object after it was answered
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
            return InlineWrite::NotNow; // `File::write` may use another target
        }
        let done = result.and_then(|()| self.extend_to(end)).inspect(|()| self.was_modified());
        self.forget(offset, data.len() as u64);
        if self.retries(&done).is_some() || !self.may_answer(&right) {
            return InlineWrite::NotNow;
        }
        self.tell_written(Access { write: true, offset, len: data.len() as u64 }, &done);
        InlineWrite::Done(done)
    }

    /// Records the possible effects of a write that ended or was given up.
    fn ended_inline(&self, view: &View, at: Position, end: u64, done: bool) {
        view.written(at);
        if !done && end > self.size.load(Ordering::Acquire) {
            self.tail_clean.store(false, Ordering::Release);
        }
    }
}
