//! I/O by the kernel itself on a file with one object, and the hold on the layout for that time.
//!
//! [`Holders`] decides. While the kernel holds the layout, object and file have the same length, nothing moves the
//! object, and the file grows in it. While an open writes through the kernel, the object's length is the size.
//! `settle`, `sync` and the end of the last such open store it in the stub. After a crash the mark of the file leads to
//! it.

use super::lease::is_open_elsewhere;
use super::{File, Slot, View, target_error};
use crate::{Error, Result};
use meta::stub::{InUse, Mark};
use object::host::fstat;
use object::target::Handle;
use policy::holders::{Holders, Mode, OpenRequest, Refusal};
use policy::layout::{Layout, OPEN_END, ObjectState, Reason};
use policy::protect::health::State;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The kernel's registration of an object, in the mount's own type; ends when dropped.
pub type Backing = Arc<dyn Any + Send + Sync>;

/// Claims of the kernel, writers and the mover on the layout.
#[derive(Default)]
pub(super) struct Claims {
    holders: Holders,
    /// The object that the kernel uses, while it holds the layout.
    held: Option<Held>,
    /// Opens that write through the kernel.
    writers: usize,
    /// The current mark, if there is one.
    pub(super) mark: Option<InUse>,
    /// Whether the mark is durable.
    pub(super) mark_durable: bool,
    /// The one object, while there are writers.
    object: Option<Arc<Slot>>,
}

impl Claims {
    /// Clears the mark and returns it.
    pub fn take_mark(&mut self) -> Option<InUse> {
        self.mark_durable = false;
        self.mark.take()
    }

    /// Whether neither the kernel writes the file nor the mover moves it.
    pub(super) fn is_at_rest(&self) -> bool {
        self.writers == 0 && !self.holders.is_changing()
    }
}

/// An object in the kernel's use.
struct Held {
    slot: Arc<Slot>,
    handle: Arc<dyn Handle>,
    backing: Backing,
}

/// An object that the kernel can use.
struct Candidate {
    slot: Arc<Slot>,
    handle: Arc<dyn Handle>,
    mark: InUse,
    /// Modification time of the object.
    modified: u64,
}

/// One open of a file, with its kind of I/O; ends when dropped.
pub struct FileOpen {
    file: Arc<File>,
    mode: Mode,
    writes: bool,
    backing: Option<Backing>,
}

impl FileOpen {
    /// Kind of I/O of this open.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The kernel's registration of the object, if the open is passed through.
    pub fn backing(&self) -> Option<Backing> {
        self.backing.clone()
    }

    /// Whether it changes the object past the daemon: by writes, or by stores through a mapping.
    pub fn writes_past_daemon(&self) -> bool {
        self.writes && matches!(self.mode, Mode::Passed { .. })
    }
}

impl Drop for FileOpen {
    fn drop(&mut self) {
        self.backing = None;
        let wrote = self.writes && self.mode == Mode::Passed { direct: false };
        let _io = wrote.then(|| self.file.io.write());
        let settled = if wrote { self.file.settle_size() } else { Ok(()) };
        let mut claims = self.file.claims.lock();
        if wrote {
            self.file.end_writing_through_kernel(&mut claims, settled.is_ok());
        }
        claims.holders.close(self.mode, self.writes);
        let ended = self.file.end_hold(&mut claims);
        drop(claims);
        drop(ended);
    }
}

/// Length, and modification time in nanoseconds since 1970.
fn object_state(fd: BorrowedFd<'_>) -> std::result::Result<(u64, u64), Errno> {
    let stat = fstat(fd)?;
    let at = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    Ok((stat.st_size as u64, u64::try_from(at).unwrap_or(0)))
}

impl File {
    /// Opens the file and decides about the kind of I/O. `register` registers an object with the kernel; `None` if the
    /// kernel refuses.
    pub fn open_as(
        self: &Arc<Self>,
        request: OpenRequest,
        register: impl FnOnce(BorrowedFd<'_>) -> Option<Backing>,
    ) -> FileOpen {
        let may_join = self.ends_hold_or_is_held();
        let single = !self.is_shared() && self.layout().is_some_and(|layout| layout.single_object().is_some());
        // Nothing changes the object between its check and the decision.
        let alone = (single && (request.pass || (request.writes && may_join))).then(|| self.io.write());
        let candidate = if single && request.pass { self.candidate(request.writes) } else { None };
        let mut claims = self.claims.lock();
        let (starts, joins) = (claims.holders.starts(&request), claims.holders.joins(&request));
        let able = match &candidate {
            Some(object) if starts => self.start(&mut claims, object, request.writes, register),
            Some(object) if joins && request.writes => self.begin_writing_through_kernel(&mut claims, object).is_ok(),
            found => joins && found.is_some(),
        };
        let mode = claims.holders.open(request, able);
        let held = claims.held.as_ref().filter(|_| matches!(mode, Mode::Passed { .. }));
        let backing = held.map(|held| held.backing.clone());
        if backing.is_some()
            && request.writes
            && alone.is_some()
            && let Err(error) = self.void_sums_in()
        {
            tracing::warn!(%error, "checksums of a file that a mapping may change are not withdrawn");
        }
        drop(claims);
        FileOpen { file: self.clone(), mode, writes: request.writes, backing }
    }

    /// The single object, if the kernel may do the I/O of an open on it. `None` for other files: several objects or
    /// mirrors, in recovery, with a source, on a target that is not ok, or not a plain file.
    fn candidate(&self, writes: bool) -> Option<Candidate> {
        // The kernel acknowledges writes without the daemon, so they are charged only when they are settled.
        if writes && self.has_payers() {
            return None;
        }
        let held = self.is_held();
        let view = self.view();
        let layout = view.layout.as_ref()?;
        let object = layout.single_object().filter(|_| self.has_no_source())?;
        let works = match self.target_state(object.target) {
            State::Ok => true,
            // Opens that join a hold don't delay the mover further.
            State::Suspect | State::Draining => held,
            State::Failed | State::ReadOnly => false,
        };
        if !works || object.state != ObjectState::Complete {
            return None;
        }
        self.settle_past_writes().ok()?;
        if writes && layout.mirrors[0].covered() != OPEN_END {
            if !held {
                return None;
            }
            self.leave_end_open(&view, layout).ok()?;
        }
        if writes {
            self.void_sums_in().ok()?;
        }
        let slot = view.all().next()?;
        let size = self.size();
        slot.unsynced.changed();
        // Where the kernel writes already, the object's length is the size, and it may grow at any time.
        let grows = self.kernel_writes.load(Ordering::Acquire);
        let fit = move |h: &dyn Handle| {
            if !grows && h.len()? != size {
                h.set_len(size)?;
            }
            h.fd().map_or(Ok((0, 0)), object_state)
        };
        let (_, modified) = slot.run(&self.pool, fit).ok()?;
        let handle = slot.handle().filter(|h| h.fd().is_some())?;
        self.tail_clean.store(true, Ordering::Release);
        Some(Candidate { slot: slot.clone(), handle, mark: InUse { file: layout.file, node: None }, modified })
    }

    /// Opens the end of the held object's segment, since the kernel uses no other object.
    fn leave_end_open(&self, view: &View, layout: &Layout) -> Result<()> {
        let mut new = layout.clone();
        new.mirrors[0].segments.last_mut().expect("a checked mirror has a segment").end = OPEN_END;
        new.history.push((self.pool.clock)(), Reason::Grown);
        let record = self.record.lock();
        self.replace(&record, view, new).map(drop)
    }

    /// Registers the object with the kernel. Nothing is passed through if a mapping of the object could not be
    /// detected.
    fn start(
        &self,
        claims: &mut Claims,
        object: &Candidate,
        writes: bool,
        register: impl FnOnce(BorrowedFd<'_>) -> Option<Backing>,
    ) -> bool {
        let Some(fd) = object.handle.fd().filter(|fd| is_open_elsewhere(*fd).is_ok()) else { return false };
        let Some(backing) = register(fd) else { return false };
        if writes && self.begin_writing_through_kernel(claims, object).is_err() {
            return false;
        }
        claims.held = Some(Held { slot: object.slot.clone(), handle: object.handle.clone(), backing });
        true
    }

    /// Starts a phase in which the object's length is the size of the file.
    fn begin_writing_through_kernel(&self, claims: &mut Claims, object: &Candidate) -> Result<()> {
        if claims.writers == 0 {
            self.stub.set_kernel_writes(true)?;
            self.kernel_modified.store(object.modified, Ordering::Release);
        }
        if claims.mark.is_none() {
            // A loss of power takes the protected bytes with the mark, unless they are synced; and `sync` settles the
            // size.
            self.stub.mark_in_use(object.mark, Mark::Set)?;
            claims.mark = Some(object.mark);
        }
        claims.writers += 1;
        claims.object = Some(object.slot.clone());
        self.kernel_writes.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends one open that writes through the kernel. The caller holds `io` exclusively.
    fn end_writing_through_kernel(&self, claims: &mut Claims, settled: bool) {
        // No other code tracks the kernel's writes since the last sync.
        claims.object.iter().for_each(|slot| slot.unsynced.changed());
        claims.writers -= 1;
        if claims.writers == 0 && settled {
            self.forget_kernel_writes(claims);
        }
    }

    /// Ends the phase in which the object's length is the size of the file. The caller holds `io` exclusively.
    fn forget_kernel_writes(&self, claims: &mut Claims) {
        claims.object = None;
        // If the record stays, the next start reads the size from an object that is as long as the file.
        let _ = self.stub.set_kernel_writes(false);
        self.kernel_writes.store(false, Ordering::Release);
        if let Some(mark) = claims.take_mark() {
            // If the mark stays, the next start settles a settled file.
            let _ = self.stub.mark_in_use(mark, Mark::None);
        }
    }

    /// Whether all opens that wrote through the kernel ended, and only the object has their size.
    pub(super) fn is_unsettled(&self) -> bool {
        let claims = self.claims.lock();
        claims.writers == 0 && self.kernel_writes.load(Ordering::Acquire) && !self.is_removed()
    }

    /// Settles the size after the kernel's writes if the last close could not. The flag of the stub shows writes of an
    /// earlier [`File`]. The caller holds `io` exclusively.
    ///
    /// # Errors
    /// Errors of the object's target: only the object has the size.
    pub(super) fn settle_past_writes(&self) -> Result<()> {
        if self.kernel_writes.load(Ordering::Acquire) {
            if self.claims.lock().writers == 0 {
                self.settle_size()?;
                self.forget_kernel_writes(&mut self.claims.lock());
            }
            return Ok(());
        }
        let view = self.view();
        let single = !self.is_shared() && view.layout.as_ref().is_some_and(|layout| layout.single_object().is_some());
        if !single || !self.stub.kernel_writes()? {
            return Ok(());
        }
        let slot = view.all().next().expect("a single object");
        let len = slot.run(&self.pool, |h| h.len()).map_err(|error| target_error(slot.target_id, error))?;
        self.extend_to(len)?;
        self.stub.set_kernel_writes(false)
    }

    /// As `settle_past_writes`, before the file is emptied: a size that only the object has does not count any more.
    pub(super) fn drop_past_writes(&self) {
        if self.settle_past_writes().is_err() {
            self.forget_kernel_writes(&mut self.claims.lock());
        }
    }

    /// Ends the kernel's hold if all opens ended and nothing maps the object; returns the values to drop outside the
    /// lock.
    fn end_hold(&self, claims: &mut Claims) -> Option<Held> {
        if !claims.holders.awaits_unmapping() {
            return None;
        }
        let held = claims.held.as_ref()?;
        // After an error the daemon opened the object a second time, which would look like a mapping.
        held.slot.set_handle(held.handle.clone());
        let free = held.handle.fd().is_some_and(|fd| matches!(is_open_elsewhere(fd), Ok(false)));
        if !free || !claims.holders.unmapped() {
            return None;
        }
        // A mapping may have stored bytes since the last sync.
        held.slot.unsynced.changed();
        claims.held.take()
    }

    /// Whether the kernel may have unsent pages with stores through a mapping.
    pub fn kernel_may_have_stores(&self) -> bool {
        self.claims.lock().holders.may_have_stores()
    }

    /// Whether the kernel uses the object.
    pub(super) fn is_held(&self) -> bool {
        self.claims.lock().holders.is_held()
    }

    /// As `is_held`, after ending a hold that only a former mapping kept.
    fn ends_hold_or_is_held(&self) -> bool {
        let mut claims = self.claims.lock();
        let ended = self.end_hold(&mut claims);
        let held = claims.holders.is_held();
        drop(claims);
        drop(ended);
        held
    }

    /// Whether all opens ended and a mapping still uses the object.
    pub(super) fn is_mapped(&self) -> bool {
        self.ends_hold_or_is_held() && self.claims.lock().holders.awaits_unmapping()
    }

    /// Size and modification time while the kernel writes by itself. The time is in nanoseconds since 1970, or 0 if it
    /// is not newer than the last one taken over.
    ///
    /// # Errors
    /// Errors of the object's target.
    pub(super) fn passthrough_state(&self) -> Result<Option<(u64, u64)>> {
        let Some((size, modified)) = self.ask_object()? else { return Ok(None) };
        let is_newer = modified > self.kernel_modified.load(Ordering::Acquire);
        Ok(Some((size, if is_newer { modified } else { 0 })))
    }

    fn ask_object(&self) -> Result<Option<(u64, u64)>> {
        if !self.kernel_writes.load(Ordering::Acquire) {
            return Ok(None);
        }
        let Some(object) = self.claims.lock().object.clone() else { return Ok(None) };
        let state = object.run(&self.pool, |h| object_state(h.fd().ok_or(Errno::NOTSUP)?));
        state.map(Some).map_err(|error| target_error(object.target_id, error))
    }

    /// Stores the size of the kernel's writes in the stub, and records their time.
    ///
    /// # Errors
    /// Errors of the object's target and of the stub.
    pub(super) fn settle_size(&self) -> Result<()> {
        let (size, _extend) = loop {
            let cuts = self.cuts.wait();
            let Some((size, modified)) = self.passthrough_state()? else { return Ok(()) };
            self.kernel_modified.fetch_max(modified, Ordering::AcqRel);
            self.modified.fetch_max(modified, Ordering::Relaxed);
            let extend = self.extend.lock();
            // A size read before a truncation would undo it.
            if self.cuts.count() == cuts {
                break (size, extend);
            }
        };
        let before = self.size.load(Ordering::Acquire);
        if size != before {
            self.stub.set_size(size).inspect(|()| self.stub_changed())?;
            self.was_charged_late(before, size);
            self.set_known_size(size);
        }
        Ok(())
    }

    /// Drops the pending modification time, since a user sets that of the stub. A size that is set later would change it.
    pub fn times_set(&self) -> Result<()> {
        self.settle_deferred()?;
        if let Ok(Some((_, modified))) = self.ask_object() {
            self.kernel_modified.fetch_max(modified, Ordering::AcqRel);
        }
        self.modified.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Cuts or extends the object to the new size while the kernel uses it. The caller holds `io` exclusively.
    pub(super) fn follow_size(&self, size: u64) -> Result<()> {
        self.on_pinned_object(move |h| if h.len()? == size { Ok(()) } else { h.set_len(size) })
    }

    /// Extends the object after growth while the kernel uses it. Never cuts it, since the kernel may have written
    /// beyond. Reserving the last byte can only extend an object.
    pub(super) fn follow_growth(&self, size: u64) -> Result<()> {
        self.on_pinned_object(move |h| if h.len()? >= size { Ok(()) } else { h.allocate(size - 1, 1) })
    }

    /// Runs an operation on the single object, if the kernel uses it.
    fn on_pinned_object(
        &self,
        op: impl FnOnce(&dyn Handle) -> std::result::Result<(), Errno> + Send + 'static,
    ) -> Result<()> {
        if !self.is_held() {
            return Ok(());
        }
        let view = self.view();
        let Some(slot) = view.all().next() else { return Ok(()) };
        slot.unsynced.changed();
        slot.run(&self.pool, op).map_err(|error| Error::Target { target: slot.target_id, error })
    }

    /// `Busy` if the kernel uses the object by itself.
    pub(super) fn check_unpinned(&self) -> Result<()> {
        if self.ends_hold_or_is_held() { Err(refused(Refusal::Held)) } else { Ok(()) }
    }

    /// Claims the file for the mover; `Busy` if it is removed or already moved, or the kernel uses its object.
    pub(crate) fn begin_move(&self) -> Result<()> {
        let _io = self.io.write();
        self.check_unpinned()?;
        self.check_not_removed()?;
        self.settle_past_writes()?;
        self.claims.lock().holders.begin_change().map_err(refused)
    }

    /// Ends the mover's claim.
    pub(crate) fn end_move(&self) {
        self.claims.lock().holders.end_change();
    }
}

fn refused(refusal: Refusal) -> Error {
    let cause = match refusal {
        Refusal::Held => "the kernel does the file's I/O by itself while it is open or mapped; close it first",
        Refusal::Changing => "the file is being moved already",
    };
    Error::Busy(cause.into())
}
