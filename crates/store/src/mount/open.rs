//! Open files: one entry per inode, one handle per open.

use super::answer::{Answer, Opened};
use super::holders::{self, Entered, Holders};
use super::metadata::STATS_ID;
use super::mode::flags as fopen_flags;
use super::slow::OWN;
use super::{File, Server, SyncCursor};
use crate::admission::Held;
use crate::cache::{Stream, WeakStream};
use crate::file::{Backing, FileOpen, Happened, Payer};
use crate::host;
use crate::namespace::{Caller, FRESH, LOST, Node, NodeId, Removed};
use crate::stats::Metric;
use crate::volume::{Io, Passthrough};
use crate::{Error, Result};
use fuser::{BackingId, FopenFlags, ReplyOpen};
use parking_lot::Mutex;
use policy::advice::Reader;
use policy::cluster::names;
use policy::holders::{Mode, OpenRequest};
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SHARDS: usize = 64;
/// Time for which a replaced file stays open. A guess: the kernel opens it microseconds after its lookup.
const REPLACED: Duration = Duration::from_millis(100);

/// An inode in use, by the kernel's handles or by the daemon.
pub struct Open {
    pub id: NodeId,
    pub file: Arc<File>,
    /// The stub, for what concerns the inode rather than its bytes.
    stub: Arc<OwnedFd>,
    /// Birth time of the stub, in nanoseconds since 1970; 0 if the file system has none.
    born_ns: u64,
    holders: Arc<Holders>,
    users: AtomicUsize,
    /// Set if a name of it was removed on this node.
    lost_name_here: AtomicBool,
    /// The stream of the newest ordinary handle, to which the next one opened with `O_NOATIME` belongs.
    newest: Mutex<Option<WeakStream>>,
    /// Attributes and time of its creation, for requests within the system call that created it. Kept where fetching
    /// them is slow.
    made: Mutex<Option<(Stat, Instant)>>,
    /// Time at which a lookup kept it open for the next request.
    pinned: Mutex<Option<Instant>>,
    /// Latest attributes, where another node may remove the file: its file system may return none afterwards.
    last: Mutex<Option<Stat>>,
}

impl Open {
    /// Records that a lookup keeps it open for the next request.
    pub fn set_pinned(&self, now: Instant) {
        *self.pinned.lock() = Some(now);
    }

    /// Whether a lookup keeps it open.
    fn is_pinned(&self) -> bool {
        self.pinned.lock().is_some_and(|pinned| pinned.elapsed() < LOST)
    }

    pub fn stub(&self) -> BorrowedFd<'_> {
        self.stub.as_fd()
    }

    /// Adds a user, for whom [`Server::leave`] leaves.
    fn enter(self: &Arc<Self>) -> Arc<Open> {
        self.users.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }

    /// Whether a name of it was removed on this node.
    pub fn lost_name_here(&self) -> bool {
        self.lost_name_here.load(Ordering::Acquire)
    }

    /// Records the attributes of an inode created just now. They are the newest until a change.
    pub fn made_with(&self, stat: &Stat) {
        if self.file.is_shared() {
            *self.made.lock() = Some((*stat, Instant::now()));
        }
    }

    /// Discards the recorded attributes, before a change.
    pub fn changes(&self) {
        if self.file.is_shared() {
            *self.made.lock() = None;
        }
    }

    /// Attributes as of now, as recorded at its creation, or as they were before another node removed the file.
    pub fn stat(&self) -> rustix::io::Result<Stat> {
        let made = self.made.lock().take().filter(|(_, made)| made.elapsed() < FRESH && self.file.is_in_stub());
        match made.map_or_else(|| fstat(self.stub()), |(stat, _)| Ok(stat)) {
            Ok(stat) if self.file.is_shared() => Ok(*self.last.lock().insert(stat)),
            Err(Errno::NOENT | Errno::STALE) if self.file.is_shared() => {
                // Without them the kernel has to look the name up again.
                let mut stat = self.last.lock().ok_or(Errno::STALE)?;
                stat.st_nlink = 0;
                Ok(stat)
            }
            done => done,
        }
    }

    /// Whether the kernel's pages of a node belong to this inode.
    pub fn is_of(&self, node: &Node) -> bool {
        node.is_of(self.born_ns)
    }
}

/// One open of a file.
pub struct Handle {
    pub open: Arc<Open>,
    /// Whether it may write.
    pub writable: bool,
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
    /// Guard of [`super::Openers::opened`], dropped with the handle.
    heard: Option<Box<dyn Send + Sync>>,
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

/// Open files by inode.
pub struct OpenFiles {
    shards: Vec<Mutex<HashMap<NodeId, Arc<Open>>>>,
    /// Set if the namespace's file system has no birth times: a request may go to its server, so one is enough.
    no_births: AtomicBool,
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), no_births: AtomicBool::new(false) }
    }
}

impl OpenFiles {
    fn shard(&self, id: NodeId) -> &Mutex<HashMap<NodeId, Arc<Open>>> {
        &self.shards[id as usize % SHARDS]
    }

    /// The open file of a node, without becoming a user.
    pub fn get(&self, id: NodeId) -> Option<Arc<Open>> {
        self.shard(id).lock().get(&id).cloned()
    }

    fn born_ns(&self, stub: &OwnedFd) -> u64 {
        if self.no_births.load(Ordering::Relaxed) {
            return 0;
        }
        match host::born_ns(stub) {
            Ok(Some(ns)) => ns,
            Ok(None) => {
                self.no_births.store(true, Ordering::Relaxed);
                0
            }
            Err(_) => 0,
        }
    }

    fn enter(&self, id: NodeId) -> Option<Arc<Open>> {
        Some(self.shard(id).lock().get(&id)?.enter())
    }
}

/// A user of an open file; leaves when dropped.
pub struct User<'a> {
    server: &'a Server,
    pub open: Arc<Open>,
    /// User to charge for the removal, if the file has no name left.
    uid: u32,
    /// Set if the stub was read for this user.
    looked: bool,
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

impl User<'_> {
    /// Reads what other nodes changed in the stub, unless that was read just now.
    pub fn refresh(&self) -> Result<()> {
        if self.looked { Ok(()) } else { self.open.file.refresh().map(drop) }
    }

    /// Stays a user, for whom [`Server::leave`] leaves.
    pub fn keep(self) -> Arc<Open> {
        self.open.enter()
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.server.leave(&self.open, self.uid);
    }
}

impl Server {
    /// Uses a file by its node, opening its stub if nothing has.
    pub fn user(&self, id: NodeId) -> Result<User<'_>> {
        if let Some(open) = self.open.enter(id) {
            return Ok(User { server: self, open, uid: OWN, looked: false });
        }
        let stub = self.parts.namespace.open_stub(id)?;
        self.user_of_stub(id, stub)
    }

    /// Uses the file behind a stub that was just opened.
    pub fn user_of_stub(&self, id: NodeId, stub: OwnedFd) -> Result<User<'_>> {
        let stub = Arc::new(stub);
        self.user_of_file(id, stub.clone(), self.parts.files.get_or_share(stub)?)
    }

    /// Uses the file behind a stub that was made just now.
    pub fn user_of_new_stub(&self, id: NodeId, stub: OwnedFd) -> Result<User<'_>> {
        let stub = Arc::new(stub);
        self.user_of_file(id, stub.clone(), self.parts.files.get_or_make(stub)?)
    }

    fn user_of_file(&self, id: NodeId, stub: Arc<OwnedFd>, file: Arc<File>) -> Result<User<'_>> {
        let born_ns = self.open.born_ns(&stub);
        let mut shard = self.open.shard(id).lock();
        let open = match shard.entry(id) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(free) => {
                let users = AtomicUsize::new(0);
                let (newest, holders) = (Mutex::default(), Holders::new(self.admission.clone()));
                let payer: Arc<dyn Payer> = holders.clone();
                file.set_payer(Arc::downgrade(&payer));
                let lost_name_here = AtomicBool::new(false);
                let (made, pinned, last) = (Mutex::default(), Mutex::default(), Mutex::default());
                let open = Open { id, file, stub, born_ns, holders, users, lost_name_here, newest, made, pinned, last };
                free.insert(Arc::new(open)).clone()
            }
        };
        let open = open.enter();
        drop(shard);
        Ok(User { server: self, open, uid: OWN, looked: true })
    }

    /// Leaves an open file. The last user of a file without a name removes its objects.
    pub fn leave(&self, open: &Arc<Open>, uid: u32) {
        if open.users.load(Ordering::Acquire) == 1 {
            // Done while other threads still find the file here, and with it how many of its links are names.
            open.file.settle_mark();
        }
        let mut shard = self.open.shard(open.id).lock();
        if open.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // Marks a change before the inode stops counting as in use.
        drop(self.parts.namespace.changing());
        shard.remove(&open.id);
        drop(shard);
        self.counts_no_more_if_nameless(open);
        // A node that removes a file with objects has read its layout by then: this file has none.
        if open.file.is_shared() && open.file.is_in_stub() {
            return;
        }
        if open.file.is_nameless(|| fstat(open.stub()).ok().map(|stat| stat.st_nlink)) {
            self.remove_objects(open, uid);
        }
    }

    /// Uses a file that is about to lose a name. A shared file system may afterwards return only its bytes, so its
    /// layout is read now. `None`: another node removed the file first, and its objects; the name may lead to another
    /// file by now.
    pub fn user_of_removed(&self, removed: &mut Removed) -> Option<Option<User<'_>>> {
        let Some(stub) = removed.stub.take() else { return Some(None) };
        match self.user_of_stub(removed.id, stub) {
            Ok(user) => {
                // Resolved by its name, which it still has.
                user.open.file.learn_payers();
                Some(Some(user))
            }
            Err(error) if error.is_gone() && self.parts.pool.cluster.get().is_some() => None,
            Err(error) => {
                tracing::warn!(%error, "the objects of a removed file stay; `entrepot check` will find them");
                Some(None)
            }
        }
    }

    /// Records that a user removed a name of a file. If it was the last and the file is unused, leaving removes its
    /// objects.
    pub fn unlinked(&self, uid: u32, user: Option<User<'_>>) {
        let Some(mut user) = user else { return };
        user.uid = uid;
        user.open.lost_name_here.store(true, Ordering::Release);
    }

    /// As `unlinked`, after a rename. The kernel may have looked the name up before and may open the file now, so one
    /// node keeps it open for a moment.
    pub fn replaced(self: &Arc<Self>, uid: u32, user: Option<User<'_>>) {
        let is_alone = self.parts.pool.cluster.get().is_none() && !self.parts.pool.quotas.is_on();
        if let Some(user) = user.as_ref().filter(|_| is_alone) {
            self.keep_open(&user.open, REPLACED, uid);
        }
        self.unlinked(uid, user);
    }

    /// Keeps a file open for a span; then its removal, if it has no name left, is charged to the user.
    pub fn keep_open(self: &Arc<Self>, open: &Arc<Open>, span: Duration, uid: u32) {
        let (server, open) = (self.clone(), open.enter());
        self.later.add(span, Box::new(move || server.leave(&open, uid)));
    }

    fn remove_objects(&self, open: &Arc<Open>, uid: u32) {
        match open.file.refresh() {
            Ok(_) => {}
            // The node that removed the last name removes the objects, even if other nodes have the file open.
            Err(error) if error.is_gone() && open.lost_name_here() => {}
            Err(error) if error.is_gone() && open.file.is_shared() => {
                return tracing::debug!("a file that was in use here was removed by another node");
            }
            Err(error) => {
                tracing::warn!(%error, "the objects of a removed file stay; `entrepot check` will find them");
                return;
            }
        }
        open.file.tell(Happened::Removed);
        let Some(layout) = open.file.layout() else { return };
        let home = fstat(open.stub()).map(|stat| stat.st_dev).ok();
        let device = |target| self.parts.targets.get(target).and_then(|t| t.space().device);
        let beside = home.is_some() && layout.objects().all(|(_, object)| device(object.target) == home);
        // Other nodes may read it.
        let space = |target| self.parts.targets.get(target).map(|t| (t.space().free_bytes, t.space().total_bytes));
        let spaces = layout.objects().filter_map(|(_, object)| space(object.target));
        let stay = open.file.is_shared().then(|| names::stay(spaces)).flatten();
        let (removal, open) = (self.removal.clone(), open.clone());
        let remove = move || removal.add(uid, open, beside);
        match stay {
            Some(stay) => self.later.add(Duration::from_nanos(stay.0), Box::new(remove)),
            None => remove(),
        }
    }

    /// Opens a file for the kernel.
    pub fn open(self: &Arc<Self>, caller: Caller, id: NodeId, flags: OFlags, answer: Answer<ReplyOpen>) {
        if id == STATS_ID {
            return answer.give(self.open_stats(caller.uid));
        }
        match self.user(id) {
            Ok(user) if user.open.file.is_in_stub() => self.open_user(caller, user, flags, answer),
            Ok(user) => {
                // It may need its target: to open the object for the kernel, or to cut it.
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
            let name = || self.parts.namespace.node(user.open.id).ok()?.name();
            let path = || name().and_then(|(parent, name)| self.path_of(parent, &name));
            let file = &user.open.file;
            file.tell(Happened::Opened { file, path: &path, write: is_writable(flags) });
            let openers = self.parts.openers.as_ref();
            let heard = openers.and_then(|openers| openers.opened(&user.open.file, caller.uid, caller.thread));
            let (mut handle, flags) = self.handle(entered, user, flags, |fd| answer.register(fd));
            handle.heard = heard;
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
        match user.open.file.forget_what_others_changed(user.looked) {
            // It was removed after the kernel had looked it up: it is opened as it was then.
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
                tracing::info!(%error, "the kernel does not let this daemon pass files through; going on without");
                self.passthrough.store(false, Ordering::Relaxed);
                None
            }
        });
        let mode = io.mode();
        let mut fopen = fopen_flags(mode);
        if matches!(mode, Mode::Passed { .. }) {
            self.parts.stats.add(Metric::PassthroughOpens, 1);
        }
        if open.file.is_shared() {
            fopen &= !FopenFlags::FOPEN_KEEP_CACHE; // other nodes may have written since
        }
        if (!writable || !striped) && !open.file.is_shared() {
            // Not where several nodes have the volume: there a close releases locks. A file in its stub has its size
            // and times there already. If it outgrows the stub through this handle, its size is in the stub all the
            // same, and its times follow at the release.
            fopen |= FopenFlags::FOPEN_NOFLUSH;
        }
        let synced = open.file.sync_cursor();
        let wrote = AtomicBool::new(io.writes_past_daemon());
        let stream = self.stream(entered.uid(), &open, flags);
        let order = Mutex::default();
        let (io, heard) = (Mutex::new(Some(io)), None);
        let handle = Handle { open, writable, mode, synced, wrote, order, stream, io, heard, entered };
        (handle, fopen)
    }

    /// Returns the stream of a new handle in the block cache. A handle opened with `O_NOATIME` makes the prefetches of
    /// a cache above, for the ordinary handle that was opened last.
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

    /// `passable`: whether the kernel could do it by itself as far as the file and its open are concerned.
    fn open_request(&self, writes: bool, passable: bool, stat: impl FnOnce() -> Option<Stat>) -> OpenRequest {
        let cached = self.parts.pool.cache.get().is_some();
        let direct = match self.options.io {
            // With a block cache of our own the page cache would hide the reads from it.
            Io::Auto => cached,
            Io::Direct => true,
            Io::Cached => false,
        };
        let shared = self.parts.pool.cluster.get().is_some();
        let wanted = self.options.passthrough == Passthrough::Auto && self.passthrough.load(Ordering::Relaxed);
        // The kernel does not take setuid and setgid away when it writes by itself.
        let plain = || stat().is_some_and(|s| s.st_mode & 0o6000 == 0);
        let pass = wanted && !cached && !shared && passable && plain();
        OpenRequest { writes, direct, pass, shared }
    }

    /// Closes a handle.
    pub fn close(&self, handle: &Handle) {
        // This settles the file; only then its names can be counted.
        let io = handle.io.lock().take();
        drop(io);
        self.parts.files.closed(&handle.open.file);
        handle.open.file.closed();
        handle.open.file.tell(Happened::Closed { write: handle.writable });
        self.leave(&handle.open, handle.uid());
    }
}

/// Whether an open may write.
pub fn is_writable(flags: OFlags) -> bool {
    flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}
