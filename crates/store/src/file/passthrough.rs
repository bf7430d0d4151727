//! Letting the kernel do the I/O of a file that is one object, and what pins a layout meanwhile.
//!
//! While a guard lives the object is exactly as long as the file, nothing moves it, and growth goes on in it. While a
//! writing guard lives the object's length is the size; it is brought into the stub by `settle`, `sync` and when the
//! last writing guard goes. The mark `open/ID` in the namespace says so to whoever starts after a crash.

use super::{File, Slot};
use crate::stub::Mark;
use crate::target::Handle;
use crate::{Error, Result};
use policy::layout::{OPEN_END, ObjectState};
use policy::protect::health::State;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What has which claims on the layout.
#[derive(Default)]
pub(super) struct Claims {
    readers: usize,
    writers: usize,
    moving: bool,
    /// The mark in `open/` is set.
    marked: bool,
    /// It was made durable.
    mark_durable: bool,
    /// The one object, while there are writers.
    object: Option<Arc<Slot>>,
}

impl Claims {
    /// Takes the mark away; whether it was set.
    pub fn take_mark(&mut self) -> bool {
        self.mark_durable = false;
        std::mem::take(&mut self.marked)
    }
}

/// Lets the kernel read or write the one object of a file by itself; pins the layout while it lives.
pub struct PassthroughGuard {
    file: Arc<File>,
    handle: Arc<dyn Handle>,
    write: bool,
}

impl PassthroughGuard {
    /// The object's file, to be registered with the kernel.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.handle.fd().expect("a guard is only given for an object that is a file")
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

/// Length, and modification time in nanoseconds since 1970.
fn object_state(fd: BorrowedFd<'_>) -> std::result::Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(fd)?;
    let at = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    Ok((stat.st_size as u64, u64::try_from(at).unwrap_or(0)))
}

impl Drop for PassthroughGuard {
    fn drop(&mut self) {
        let _io = self.file.io.write();
        if self.write {
            let settled = self.file.settle_size();
            let mut claims = self.file.claims.lock();
            // What the kernel wrote since the last sync nobody else will count.
            claims.object.iter().for_each(|slot| slot.unsynced.changed());
            claims.writers -= 1;
            if claims.writers == 0 && settled.is_ok() {
                claims.object = None;
                // If it stays said, the next start asks an object that is as long as the file.
                let _ = self.file.stub.set_kernel_writes(false);
                self.file.kernel_writes.store(false, Ordering::Release);
                if claims.take_mark() {
                    // If the mark stays, the next start settles a file that is settled.
                    let _ = self.file.stub.mark_in_use(self.file.id().expect("it has an object"), Mark::None);
                }
            }
        } else {
            self.file.claims.lock().readers -= 1;
        }
    }
}

impl File {
    /// The right to let the kernel do the I/O on the one object; `None` when the file is not that simple: several
    /// objects or mirrors, being recovered or moved, with a source, on a target that is not ok, or not a plain file.
    pub fn passthrough(self: &Arc<Self>, write: bool) -> Option<PassthroughGuard> {
        // The kernel asks nobody before it acknowledges.
        if self.is_shared() || !self.source.is_none() || self.layout()?.single_object().is_none() {
            return None;
        }
        let _io = self.io.write();
        let view = self.view();
        let layout = view.layout.as_ref()?;
        let object = layout.single_object()?;
        let ok = object.state == ObjectState::Complete && self.target_state(object.target) == State::Ok;
        let open_ended = layout.mirrors[0].covered() == OPEN_END;
        if !ok || !self.source.is_none() || (write && !open_ended) {
            return None;
        }
        if write {
            self.void_sums_in().ok()?;
        }
        let slot = view.all().next()?;
        let size = self.size();
        slot.unsynced.changed();
        // Where the kernel writes already, the object's length is the size, and it grows under us.
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
        let mut claims = self.claims.lock();
        if claims.moving {
            return None;
        }
        if write {
            if claims.writers == 0 {
                self.stub.set_kernel_writes(true).ok()?;
                self.kernel_modified.store(modified, Ordering::Release);
            }
            if !claims.marked {
                // What it protects is lost with the power too, unless it is synced; and `sync` settles the size.
                self.stub.mark_in_use(layout.file, Mark::Set).ok()?;
                claims.marked = true;
            }
            claims.writers += 1;
            claims.object = Some(slot.clone());
            self.kernel_writes.store(true, Ordering::Release);
        } else {
            claims.readers += 1;
        }
        drop(claims);
        Some(PassthroughGuard { file: self.clone(), handle, write })
    }

    /// Size as the kernel made it, and modification time (nanoseconds since 1970) if it is one that nobody saw yet, else 0;
    /// while it writes by itself.
    pub(super) fn passthrough_state(&self) -> Option<(u64, u64)> {
        let (size, modified) = self.ask_object()?;
        Some((size, if modified > self.kernel_modified.load(Ordering::Acquire) { modified } else { 0 }))
    }

    fn ask_object(&self) -> Option<(u64, u64)> {
        if !self.kernel_writes.load(Ordering::Acquire) {
            return None;
        }
        let object = self.claims.lock().object.clone()?;
        object.run(&self.pool, |h| object_state(h.fd().ok_or(Errno::NOTSUP)?)).ok()
    }

    /// Brings the size that the kernel made into the stub, and remembers the time.
    pub(super) fn settle_size(&self) -> Result<()> {
        let Some((size, modified)) = self.passthrough_state() else { return Ok(()) };
        self.kernel_modified.fetch_max(modified, Ordering::AcqRel);
        self.modified.fetch_max(modified, Ordering::Relaxed);
        let _extend = self.extend.lock();
        if size != self.size.load(Ordering::Acquire) {
            self.stub.set_size(size).inspect(|()| self.stub_changed())?;
            self.size.store(size, Ordering::Release);
        }
        Ok(())
    }

    /// Somebody set the times of the stub explicitly: forgets what was pending.
    pub fn times_set(&self) {
        if let Some((_, modified)) = self.ask_object() {
            self.kernel_modified.fetch_max(modified, Ordering::AcqRel);
        }
        self.modified.store(0, Ordering::Relaxed);
    }

    /// After truncation: keeps the object as long as the file while the kernel uses it. The caller holds `io`
    /// exclusively.
    pub(super) fn follow_size(&self, size: u64) -> Result<()> {
        self.on_pinned_object(move |h| if h.len()? == size { Ok(()) } else { h.set_len(size) })
    }

    /// After growth: the same, but never shorter, since the kernel may have written further meanwhile. Reserving the last
    /// byte grows an object and can do nothing else.
    pub(super) fn follow_growth(&self, size: u64) -> Result<()> {
        self.on_pinned_object(move |h| if h.len()? >= size { Ok(()) } else { h.allocate(size - 1, 1) })
    }

    /// Runs an operation on the one object, if the kernel uses it.
    fn on_pinned_object(
        &self,
        op: impl FnOnce(&dyn Handle) -> std::result::Result<(), Errno> + Send + 'static,
    ) -> Result<()> {
        let claims = self.claims.lock();
        if claims.readers + claims.writers == 0 {
            return Ok(());
        }
        drop(claims);
        let view = self.view();
        let Some(slot) = view.all().next() else { return Ok(()) };
        slot.unsynced.changed();
        slot.run(&self.pool, op).map_err(|error| Error::Target { target: slot.target_id, error })
    }

    /// `Busy` while the kernel uses the object by itself.
    pub(super) fn check_unpinned(&self) -> Result<()> {
        let claims = self.claims.lock();
        if claims.readers + claims.writers > 0 {
            return Err(Error::Busy(
                "the kernel does the file's I/O by itself while it is open; close it first".into(),
            ));
        }
        Ok(())
    }

    /// Claims the file for the mover; `Busy` if somebody moves it already or the kernel uses its object.
    pub(crate) fn begin_move(&self) -> Result<()> {
        let _io = self.io.write();
        self.check_unpinned()?;
        let mut claims = self.claims.lock();
        if claims.moving {
            return Err(Error::Busy("the file is being moved already".into()));
        }
        claims.moving = true;
        Ok(())
    }

    /// Ends the mover's claim.
    pub(crate) fn end_move(&self) {
        self.claims.lock().moving = false;
    }

    /// Whether the mark is set for good: mirrors may be written.
    pub(super) fn is_marked_in_use(&self) -> bool {
        self.claims.lock().mark_durable
    }

    /// How many names lead to the file: the stub's `links` without its mark in `open/`, counted while no mark comes or goes.
    pub(crate) fn names(&self, links: impl FnOnce() -> u64) -> u64 {
        let claims = self.claims.lock();
        let marked = claims.marked && self.id().is_some_and(|id| self.stub.has_mark(id));
        links().saturating_sub(u64::from(marked))
    }

    /// Whether no name leads to the file any more. `links` counts the stub's links while no mark comes or goes through
    /// this file; in doubt it has a name.
    pub(crate) fn is_nameless(&self, links: impl FnOnce() -> Option<u64>) -> bool {
        let claims = self.claims.lock();
        match links() {
            Some(0) => true,
            Some(1) => claims.marked && self.id().is_some_and(|id| self.stub.has_mark(id)),
            _ => false,
        }
    }

    /// Marks a file with several mirrors before it is written: after a crash they may differ.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        let Some(id) = self.id() else { return Ok(()) };
        let mut claims = self.claims.lock();
        if !claims.mark_durable {
            self.stub.mark_in_use(id, Mark::Durable)?;
            (claims.marked, claims.mark_durable) = (true, true);
        }
        Ok(())
    }

    /// For files found in the namespace's `open/` after a crash: settles the size, keeps one mirror in sync where
    /// several may differ, and removes the mark.
    pub fn settle_after_crash(self: &Arc<Self>) -> Result<()> {
        let Some(id) = self.id() else { return Ok(()) };
        {
            let _io = self.io.write();
            let view = self.view();
            let single = view.layout.as_ref().is_some_and(|l| l.single_object().is_some());
            if single && self.stub.kernel_writes()? {
                let slot = view.all().next().expect("a single object");
                let len = slot
                    .run(&self.pool, |h| h.len())
                    .map_err(|error| Error::Target { target: slot.target_id, error })?;
                self.extend_to(len)?;
            }
            if view.in_sync().nth(1).is_some() && !self.keep_one_mirror()? {
                return Ok(()); // the mark stays: they still may differ
            }
        }
        self.stub.set_kernel_writes(false)?;
        self.stub.sync()?;
        self.stub.mark_in_use(id, Mark::None)
    }
}

impl File {
    /// Takes the mark away when nothing writes any more; what the mirrors hold is synced first.
    pub(crate) fn settle_mark(&self) {
        if !self.claims.lock().marked {
            return;
        }
        let _io = self.io.write();
        {
            let claims = self.claims.lock();
            // A move is found by its mark after a crash; its end takes it away.
            if claims.writers > 0 || claims.moving {
                return;
            }
        }
        let view = self.view();
        let synced = self.sync_objects(&view).and_then(|()| self.stub.sync());
        let mut claims = self.claims.lock();
        if let (Ok(()), Some(id), true) = (synced, self.id(), claims.marked) {
            // If the mark stays, the next start takes one mirror for the true one, which is right for equal ones too.
            claims.marked = self.stub.mark_in_use(id, Mark::None).is_err();
            claims.mark_durable = false;
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.settle_mark();
        if let Err(error) = self.end_writing() {
            tracing::debug!("a file goes on saying that this node writes it: {error}");
        }
    }
}
