//! Open files: one entry per inode, one handle per open.

use super::answer::{Answer, Opened};
use super::holders::{self, Entered, Holders};
use super::metadata::STATS_ID;
use super::mode::{Mode, Modes, OpenRequest};
use super::slow::OWN;
use super::{File, PassthroughGuard, Server, SyncCursor};
use crate::admission::Held;
use crate::cache::{Stream, WeakStream};
use crate::file::{Happened, Payer};
use crate::host;
use crate::namespace::{Caller, FRESH, Node, NodeId, Removed};
use crate::stats::Metric;
use crate::volume::{Io, Passthrough};
use crate::{Error, Result};
use fuser::{BackingId, FopenFlags, ReplyOpen};
use parking_lot::Mutex;
use policy::advice::Reader;
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

const SHARDS: usize = 64;

/// An inode that somebody has open.
pub struct Open {
    pub id: NodeId,
    pub file: Arc<File>,
    /// The stub, for what concerns the inode rather than its bytes.
    stub: Arc<OwnedFd>,
    /// When the stub was made, in nanoseconds since 1970; 0 where the file system doesn't say.
    born_ns: u64,
    pub modes: Mutex<Modes>,
    holders: Arc<Holders>,
    users: AtomicUsize,
    /// A name of it was removed on this node.
    lost_name_here: AtomicBool,
    /// The stream of the newest ordinary handle, to which the next one opened with `O_NOATIME` belongs.
    newest: Mutex<Option<WeakStream>>,
    /// Its attributes as it was made, and when, for what the kernel asks within the system call that made it. Kept where asking costs.
    made: Mutex<Option<(Stat, Instant)>>,
}

impl Open {
    pub fn stub(&self) -> BorrowedFd<'_> {
        self.stub.as_fd()
    }

    /// Whether a name of it was removed on this node.
    pub fn lost_name_here(&self) -> bool {
        self.lost_name_here.load(Ordering::Acquire)
    }

    /// It was made just now with these attributes, which are the newest until something is done to it.
    pub fn made_with(&self, stat: &Stat) {
        if self.file.is_shared() {
            *self.made.lock() = Some((*stat, Instant::now()));
        }
    }

    /// Something is done to it.
    pub fn changes(&self) {
        if self.file.is_shared() {
            *self.made.lock() = None;
        }
    }

    /// Its attributes.
    pub fn stat(&self) -> rustix::io::Result<Stat> {
        let made = self.made.lock().take().filter(|(_, made)| made.elapsed() < FRESH && self.file.is_in_stub());
        made.map_or_else(|| fstat(self.stub()), |(stat, _)| Ok(stat))
    }

    /// Whether the kernel's pages of a node are of this inode.
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
    /// What of the failures to make the file durable this handle was told.
    pub synced: SyncCursor,
    /// Something was written through it.
    pub wrote: AtomicBool,
    /// The streams that are read through it.
    pub order: Mutex<Reader>,
    /// What it is to the block cache, if it reads and there is one.
    pub stream: Option<Stream>,
    guard: Mutex<Option<PassthroughGuard>>,
    backing: Option<Arc<BackingId>>,
    /// What whoever hears of opens wants dropped with it.
    heard: Option<Box<dyn Send + Sync>>,
    entered: Entered,
}

impl Handle {
    /// Whose open it is.
    pub fn uid(&self) -> u32 {
        self.entered.uid()
    }

    /// The backing file that the kernel is told of.
    pub fn backing(&self) -> Option<Arc<BackingId>> {
        self.backing.clone()
    }
}

/// Open files by inode.
pub struct OpenFiles {
    shards: Vec<Mutex<HashMap<NodeId, Arc<Open>>>>,
    /// The namespace's file system does not say when files were made: its server may have to be asked, so once is enough.
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
        let shard = self.shard(id).lock();
        let open = shard.get(&id)?.clone();
        open.users.fetch_add(1, Ordering::AcqRel);
        Some(open)
    }
}

/// A user of an open file; leaves when dropped.
pub struct User<'a> {
    server: &'a Server,
    pub open: Arc<Open>,
    /// Whose removal it is if nothing leads to the file any more.
    uid: u32,
    /// The stub was looked at for this user.
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
        self.open.users.fetch_add(1, Ordering::AcqRel);
        User { server: &self.server, open: self.open.clone(), uid: OWN, looked: self.looked }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.server.leave(&self.open, OWN);
    }
}

impl User<'_> {
    /// Stays a user for a handle, for which [`Server::close`] leaves.
    fn keep(self) -> Arc<Open> {
        self.open.users.fetch_add(1, Ordering::AcqRel);
        self.open.clone()
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
                let (modes, users) = (Mutex::default(), AtomicUsize::new(0));
                let (newest, holders) = (Mutex::default(), Holders::new(self.admission.clone()));
                let payer: Arc<dyn Payer> = holders.clone();
                file.set_payer(Arc::downgrade(&payer));
                let lost_name_here = AtomicBool::new(false);
                let made = Mutex::default();
                let open = Open { id, file, stub, born_ns, modes, holders, users, lost_name_here, newest, made };
                free.insert(Arc::new(open)).clone()
            }
        };
        open.users.fetch_add(1, Ordering::AcqRel);
        drop(shard);
        Ok(User { server: self, open, uid: OWN, looked: true })
    }

    /// A user is gone; with the last one of a file without a name go its objects.
    fn leave(&self, open: &Arc<Open>, uid: u32) {
        if open.users.load(Ordering::Acquire) == 1 {
            // While others still find the file here, and with it how many of its links are names.
            open.file.settle_mark();
        }
        let mut shard = self.open.shard(open.id).lock();
        if open.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // Before nobody can see that it was in use.
        drop(self.parts.namespace.changing());
        shard.remove(&open.id);
        drop(shard);
        self.counts_no_more_if_nameless(open);
        // Whoever removes a file that has objects says so above: then this node knows of them.
        if open.file.is_shared() && open.file.is_in_stub() {
            return;
        }
        if open.file.is_nameless(|| fstat(open.stub()).ok().map(|stat| stat.st_nlink)) {
            self.remove_objects(open, uid);
        }
    }

    /// Uses a file that is about to lose a name. A shared file system may know nothing of it afterwards but its bytes: how it lies is
    /// learned now.
    pub fn user_of_removed(&self, removed: &mut Removed) -> Option<User<'_>> {
        let user = self.user_of_stub(removed.id, removed.stub.take()?);
        // By its name, which it has still.
        let user = user.inspect(|user| user.open.file.learn_payers());
        let stays =
            |error| tracing::warn!(%error, "the objects of a removed file stay; `entrepot check` will find them");
        user.map_err(stays).ok()
    }

    /// A user took a name of a file away. If it was the last and nobody uses the file, its objects go now: leaving decides it, in one place.
    pub fn unlinked(&self, uid: u32, user: Option<User<'_>>) {
        let Some(mut user) = user else { return };
        user.uid = uid;
        user.open.lost_name_here.store(true, Ordering::Release);
    }

    fn remove_objects(&self, open: &Arc<Open>, uid: u32) {
        match open.file.refresh() {
            Ok(_) => {}
            // The node that took the last name away removes the objects, whoever has the file open.
            Err(Error::Namespace(Errno::STALE)) if open.lost_name_here() => {}
            Err(Error::Namespace(Errno::STALE)) if open.file.is_shared() => {
                return tracing::debug!("a file that was in use here was removed by another node");
            }
            Err(error) => {
                tracing::warn!(%error, "the objects of a removed file stay; `entrepot check` will find them");
                return;
            }
        }
        open.file.tell(Happened::Removed);
        let Some(layout) = open.file.layout() else { return };
        let names = fstat(open.stub()).map(|stat| stat.st_dev).ok();
        let device = |target| self.parts.targets.get(target).and_then(|t| t.space().device);
        let beside = names.is_some() && layout.objects().all(|(_, object)| device(object.target) == names);
        self.removal.add(uid, open.clone(), beside);
    }

    /// Opens a file for the kernel.
    pub fn open(self: &Arc<Self>, caller: Caller, id: NodeId, flags: OFlags, answer: Answer<ReplyOpen>) {
        if id == STATS_ID {
            return answer.give(self.open_stats(caller.uid));
        }
        match self.user(id) {
            Ok(user) if user.open.file.is_in_stub() => self.open_user(caller, user, flags, answer),
            Ok(user) => {
                // Its target may have to be asked: to open the object for the kernel, to cut it.
                let waiting = Waiting { server: self.clone(), looked: user.looked, open: user.keep() };
                self.hand_over(caller.uid, answer, move |answer| {
                    waiting.server.open_user(caller, waiting.user(), flags, answer);
                });
            }
            Err(error) => answer.give(Err(self.not_opened(&error))),
        }
    }

    /// What is said of an open that failed. The name was there a moment ago: another node may have put another file in its place, so that
    /// the kernel has to look the name up again.
    fn not_opened(&self, error: &Error) -> Errno {
        match error.errno() {
            Errno::NOENT if self.parts.pool.cluster.get().is_some() => Errno::STALE,
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
        answer.give(opened.map_err(|error| self.not_opened(&error)));
    }

    /// Whether the user may have one more file open, and that one; so it counts.
    fn enter(&self, uid: u32, user: &User<'_>, flags: OFlags) -> Result<Entered> {
        let handle = self.admission.take(uid, 1).map_err(holders::errno)?;
        self.enter_with(handle, user, flags)
    }

    /// The same, when the open itself was counted before.
    pub fn enter_with(&self, handle: Held, user: &User<'_>, flags: OFlags) -> Result<Entered> {
        user.open.holders.enter(handle, is_writable(flags), user.open.file.descriptors())
    }

    fn prepare_open(&self, caller: Caller, user: &User<'_>, flags: OFlags) -> Result<()> {
        let id = user.open.id;
        let node = self.parts.namespace.node(id)?;
        if !user.open.is_of(&node) {
            return Err(Errno::STALE.into()); // the kernel looks the name up again
        }
        user.open.file.forget_what_others_changed(user.looked)?;
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

    /// Makes the handle of an open and says how the kernel shall treat it.
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
        // What the kernel opened to append appends for ever, also when the application changes its mind.
        let passable = striped && !open.file.is_watched() && !flags.contains(OFlags::APPEND);
        let request = self.open_request(writable, passable, || fstat(open.stub()).ok());
        let (mode, backing, guard) = open.modes.lock().enter(request, |first| {
            let guard = open.file.passthrough(writable)?;
            if !first {
                return Some((guard, None));
            }
            match register(guard.fd()) {
                Ok(backing) => Some((guard, Some(backing))),
                Err(error) => {
                    tracing::info!(%error, "the kernel does not let this daemon pass files through; going on without");
                    self.passthrough.store(false, Ordering::Relaxed);
                    None
                }
            }
        });
        let mut fopen = mode.flags();
        if matches!(mode, Mode::Passed { .. }) {
            self.parts.stats.add(Metric::PassthroughOpens, 1);
        }
        if open.file.is_shared() {
            fopen &= !FopenFlags::FOPEN_KEEP_CACHE; // other nodes may have written since
        }
        if (!writable || !striped) && !open.file.is_shared() {
            // Where several nodes have the volume a close gives locks back. What lies in the stub has its size and times there already. Should the file outgrow the stub through this
            // handle, its size is in the stub all the same, and its times follow when the handle is released.
            fopen |= FopenFlags::FOPEN_NOFLUSH;
        }
        let synced = open.file.sync_cursor();
        let wrote = AtomicBool::new(writable && guard.is_some());
        let stream = self.stream(entered.uid(), &open, flags);
        let order = Mutex::default();
        let (guard, heard) = (Mutex::new(guard), None);
        let handle = Handle { open, writable, mode, synced, wrote, order, stream, guard, backing, heard, entered };
        (handle, fopen)
    }

    /// What a new handle is to the block cache. One opened with `O_NOATIME` makes the prefetches of a cache above for the
    /// ordinary handle that was opened last.
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

    /// A handle is gone.
    pub fn close(&self, handle: &Handle) {
        let backing = handle.open.modes.lock().leave(handle.mode, handle.writable);
        drop(backing);
        // The guard settles the file; only then is it known whether it has a name left.
        let guard = handle.guard.lock().take();
        drop(guard);
        handle.open.file.closed();
        handle.open.file.tell(Happened::Closed { write: handle.writable });
        self.leave(&handle.open, handle.uid());
    }
}

/// Whether an open may write.
pub fn is_writable(flags: OFlags) -> bool {
    flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}
