//! Letting the kernel do the I/O of a file that is one object, and what pins a layout meanwhile.
//!
//! While a guard lives the object is exactly as long as the file, nothing moves it, and growth goes on in it. While a
//! writing guard lives the object's length is the size; it is brought into the stub by `settle`, `sync` and when the
//! last writing guard goes. The mark of the file says so to whoever starts after a crash.

use super::{File, Slot};
use crate::stub::{InUse, Mark};
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
    /// The mark that is set, if one is.
    pub(super) mark: Option<InUse>,
    /// It was made durable.
    pub(super) mark_durable: bool,
    /// The one object, while there are writers.
    object: Option<Arc<Slot>>,
}

impl Claims {
    /// The mark is set no more; gives it.
    pub fn take_mark(&mut self) -> Option<InUse> {
        self.mark_durable = false;
        self.mark.take()
    }

    /// Nothing writes it by itself, nothing moves it.
    pub(super) fn is_at_rest(&self) -> bool {
        self.writers == 0 && !self.moving
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
                if let Some(mark) = claims.take_mark() {
                    // If the mark stays, the next start settles a file that is settled.
                    let _ = self.file.stub.mark_in_use(mark, Mark::None);
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
        // The kernel asks nobody before it acknowledges, and none of what it writes is counted before it is settled.
        if write && self.has_payers() {
            return None;
        }
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
            if claims.mark.is_none() {
                // What it protects is lost with the power too, unless it is synced; and `sync` settles the size.
                let mark = InUse { file: layout.file, node: None };
                self.stub.mark_in_use(mark, Mark::Set).ok()?;
                claims.mark = Some(mark);
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
        let before = self.size.load(Ordering::Acquire);
        if size != before {
            self.stub.set_size(size).inspect(|()| self.stub_changed())?;
            self.was_charged_late(before, size);
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
}
