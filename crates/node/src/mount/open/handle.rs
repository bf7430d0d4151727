//! One open of a file: its admission, its handle with the kernel's caching, and its close.

use super::accessed::is_reading;
use super::{Open, User};
use crate::adapt::FileUse;
use crate::mount::answer::{Answer, Opened};
use crate::mount::holders::{self, Entered};
use crate::mount::metadata::STATS_ID;
use crate::mount::mode::flags as fopen_flags;
use crate::mount::slow::OWN;
use crate::mount::{Server, SyncCursor};
use crate::{Error, Result};
use engine::cache::{Stream, WeakStream};
use engine::file::{Backing, FileOpen, Happened};
use engine::stats::Metric;
use engine::volume::{Io, Passthrough};
use fuser::{BackingId, FopenFlags, ReplyOpen};
use meta::namespace::{Caller, NodeId};
use object::admission::Held;
use object::host::fstat;
use parking_lot::Mutex;
use policy::advice::Reader;
use policy::holders::node::Use;
use policy::holders::{Mode, OpenRequest};
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One open of a file.
pub struct Handle {
    pub open: Arc<Open>,
    /// Whether the handle may write.
    pub writable: bool,
    /// Whether its close counts as a read of the file.
    reads: bool,
    pub mode: Mode,
    /// Position up to which errors of syncs have been reported to this handle.
    pub synced: SyncCursor,
    /// Set after a write through this handle.
    pub wrote: AtomicBool,
    /// Streams read through this handle.
    pub order: Mutex<Reader>,
    /// Stream in the block cache, if the handle reads and there is a cache.
    pub stream: Option<Stream>,
    /// I/O side of the open; taken at the close.
    io: Mutex<Option<FileOpen>>,
    /// Use by a job of a file that has a replica.
    used: Option<FileUse>,
    entered: Entered,
}

impl Handle {
    /// User that opened it.
    pub fn uid(&self) -> u32 {
        self.entered.uid()
    }

    /// Backing file registered with the kernel.
    pub fn backing(&self) -> Option<Arc<BackingId>> {
        self.io.lock().as_ref()?.backing()?.downcast().ok()
    }
}

/// A user that waits for a thread of the slow pool.
struct Waiting {
    server: Arc<Server>,
    open: Arc<Open>,
    looked: bool,
}

impl Waiting {
    fn user(&self) -> User<'_> {
        User { server: &self.server, open: self.open.enter(), uid: OWN, looked: self.looked }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.server.leave(&self.open, OWN);
    }
}

impl Server {
    /// Opens a file for the kernel.
    pub fn open(self: &Arc<Self>, caller: Caller, id: NodeId, flags: OFlags, answer: Answer<ReplyOpen>) {
        if id == STATS_ID {
            return answer.give(self.open_stats(caller.uid));
        }
        match self.user_for(id, next_use(flags)) {
            Ok(user) if user.open.file.is_in_stub() => self.open_user(caller, user, flags, answer),
            Ok(user) => {
                // The open may need the target, to open the object for the kernel or to cut it.
                let waiting = Waiting { server: self.clone(), looked: user.looked, open: user.keep() };
                self.hand_over(caller.uid, answer, move |answer| {
                    waiting.server.open_user(caller, waiting.user(), flags, answer);
                });
            }
            Err(error) => answer.give(Err(self.not_opened(id, &error))),
        }
    }

    /// Returns the errno of a failed open. The name was there a moment ago. A rename may have put another file in its
    /// place, so the kernel has to look the name up again.
    fn not_opened(&self, id: NodeId, error: &Error) -> Errno {
        match error.errno() {
            Errno::NOENT | Errno::STALE => {
                self.parts.namespace.lost_name(id);
                Errno::STALE
            }
            errno => errno,
        }
    }

    fn open_stats(&self, uid: u32) -> rustix::io::Result<Opened> {
        let text = self.parts.stats.render_text().into_bytes();
        // A descriptor costs about a page of memory, here and in the kernel.
        let held = self.admission.take(uid, 1 + text.len() as u64 / 4096).map_err(holders::errno)?;
        let handle = self.texts.insert(Arc::new((text, held)));
        Ok(Opened { handle, flags: FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH, backing: None })
    }

    fn open_user(&self, caller: Caller, user: User<'_>, flags: OFlags, answer: Answer<ReplyOpen>) {
        let id = user.open.id;
        let entered = self.enter(caller.uid, &user, flags);
        let entered = entered.and_then(|entered| self.prepare_open(caller, &user, flags).map(|()| entered));
        let opened = entered.map(|entered| {
            let path = || self.parts.namespace.path(user.open.id).ok();
            let file = &user.open.file;
            file.tell(Happened::Opened { file, path: &path, write: is_writable(flags) });
            let uses = self.parts.uses.as_ref();
            let used = uses.and_then(|uses| uses.opened(&user.open.file, caller.uid, caller.thread));
            let (mut handle, flags) = self.handle(entered, user, flags, |fd| answer.register(fd));
            handle.used = used;
            let backing = handle.backing();
            Opened { handle: self.handles.insert(Arc::new(handle)), flags, backing }
        });
        answer.give(opened.map_err(|error| self.not_opened(id, &error)));
    }

    /// Admits one more open of this file by the user, and counts it.
    fn enter(&self, uid: u32, user: &User<'_>, flags: OFlags) -> Result<Entered> {
        let handle = self.admission.take(uid, 1).map_err(holders::errno)?;
        self.enter_with(handle, user, flags)
    }

    /// As `enter`, for an open that was counted before.
    pub fn enter_with(&self, handle: Held, user: &User<'_>, flags: OFlags) -> Result<Entered> {
        user.open.holders.enter(handle, is_writable(flags), user.open.file.descriptors())
    }

    fn prepare_open(&self, caller: Caller, user: &User<'_>, flags: OFlags) -> Result<()> {
        let id = user.open.id;
        let node = self.parts.namespace.node(id)?;
        if !user.open.is_of(&node) {
            return Err(Errno::STALE.into()); // the kernel looks the name up again
        }
        match user.refresh(next_use(flags)) {
            // The file was removed after the kernel's lookup, and is opened as it was then.
            Err(error) if error.is_gone() && user.open.is_pinned() => {}
            done => done?,
        }
        if flags.contains(OFlags::TRUNC) {
            user.open.file.truncate(0)?;
            self.parts.namespace.hold(id, Some(user.open.stub()))?.drop_privileges(caller)?;
        }
        if is_writable(flags)
            && user.open.file.is_in_stub()
            && let Some(request) = self.inherited(id)
        {
            user.open.file.set_placement(request);
        }
        Ok(())
    }

    /// Makes the handle of an open, with its caching flags for the kernel.
    pub fn handle(
        &self,
        entered: Entered,
        user: User<'_>,
        flags: OFlags,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> (Handle, FopenFlags) {
        let open = user.keep();
        open.file.opened();
        let writable = is_writable(flags);
        let striped = !open.file.is_in_stub();
        // A file that the kernel opened to append appends forever, even if the application changes its mind.
        let passable = striped && !open.file.is_watched() && !flags.contains(OFlags::APPEND);
        let request = self.open_request(writable, passable, || fstat(open.stub()).ok());
        let io = open.file.open_as(request, |fd| match register(fd) {
            Ok(backing) => Some(Arc::new(backing) as Backing),
            Err(error) => {
                tracing::info!(%error, "the kernel refuses passthrough to this daemon; going on without");
                self.passthrough.store(false, Ordering::Relaxed);
                None
            }
        });
        let mode = io.mode();
        let mut fopen = fopen_flags(mode);
        if matches!(mode, Mode::Passed { .. }) {
            self.parts.stats.add(Metric::PassthroughOpens, 1);
        }
        if open.file.is_shared() && !open.takes_pages() {
            fopen &= !FopenFlags::FOPEN_KEEP_CACHE; // other nodes may have written since
        }
        if (!writable || !striped) && !open.file.is_shared() {
            // The flag is not set if several nodes have the volume, because a close releases locks there. A file in its
            // stub has its size and times in the stub. If it outgrows the stub through this handle, the size is in the
            // stub, too, and the times follow at the release.
            fopen |= FopenFlags::FOPEN_NOFLUSH;
        }
        let synced = open.file.sync_cursor();
        let wrote = AtomicBool::new(io.writes_past_daemon());
        let stream = self.stream(entered.uid(), &open, flags);
        let order = Mutex::default();
        let (io, used, reads) = (Mutex::new(Some(io)), None, is_reading(flags));
        let handle = Handle { open, writable, reads, mode, synced, wrote, order, stream, io, used, entered };
        (handle, fopen)
    }

    /// Returns the stream of a new handle in the block cache. A handle opened with `O_NOATIME` does the prefetches of a
    /// cache above, for the ordinary handle that was opened last.
    fn stream(&self, uid: u32, open: &Open, flags: OFlags) -> Option<Stream> {
        let cache = self.parts.pool.cache.get().filter(|_| !flags.contains(OFlags::WRONLY))?;
        let mut newest = open.newest.lock();
        if flags.contains(OFlags::NOATIME) {
            let known = newest.as_ref().and_then(WeakStream::speculative);
            return Some(known.unwrap_or_else(|| Stream::new(cache, uid).into_speculative()));
        }
        let stream = Stream::new(cache, uid);
        *newest = Some(stream.downgrade());
        Some(stream)
    }

    /// `passable`: whether the file and its open permit passthrough.
    fn open_request(&self, writes: bool, passable: bool, stat: impl FnOnce() -> Option<Stat>) -> OpenRequest {
        let cached = self.parts.pool.cache.get().is_some();
        let direct = match self.options.io {
            // The page cache would hide the reads from a block cache of our own.
            Io::Auto => cached,
            Io::Direct => true,
            Io::Cached => false,
        };
        let shared = self.parts.pool.cluster.get().is_some();
        let wanted = self.options.passthrough == Passthrough::Auto && self.passthrough.load(Ordering::Relaxed);
        // The kernel keeps setuid and setgid when it writes by itself.
        let plain = || stat().is_some_and(|s| s.st_mode & 0o6000 == 0);
        let pass = wanted && !cached && !shared && passable && plain();
        OpenRequest { writes, direct, pass, shared }
    }

    /// Closes a handle.
    pub fn close(&self, handle: &Handle) {
        // This settles the file; only then its names can be counted.
        let io = handle.io.lock().take();
        drop(io);
        if handle.reads {
            self.was_read(&handle.open);
        }
        self.parts.files.closed(&handle.open.file);
        handle.open.file.closed();
        handle.open.file.tell(Happened::Closed { write: handle.writable });
        self.leave(&handle.open, handle.uid());
    }
}

/// The use that probably follows an open. A handle that also reads may never write.
fn next_use(flags: OFlags) -> Use {
    match flags.contains(OFlags::TRUNC) {
        true => Use::Alone,
        false if flags.contains(OFlags::WRONLY) => Use::Write,
        false => Use::Read,
    }
}

/// Whether an open may write.
pub fn is_writable(flags: OFlags) -> bool {
    flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}
