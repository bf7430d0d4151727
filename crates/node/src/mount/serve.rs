//! The volume as a file system of the FUSE server.

use super::answer::{Answer, Changes, Ttl};
use super::convert::no_attributes;
use super::counted::Counted;
use super::front::{
    ClosedBy, FileSystem, LockRequest, Make, REQUEST_BYTES_MAX, ReadRequest, Wanted, Whence, WriteRequest,
};
use super::locks::What;
use super::metadata::{STATS_ID, is_virtual, not_permitted};
use super::{Server, holders, ranges};
use engine::file::{Access, Wanted as Lock};
use engine::stats::Op;
use fuser::{
    FileAttr, Generation, InitFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite,
};
use meta::namespace::{Caller, Listing, Namespace, NodeId, Removed};
use object::admission::Held;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, Stat, StatVfs, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Unit of `statfs`.
const BLOCK_BYTES: u64 = 4096;
/// Age above which figures are measured again first.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Timeout of a target's measurement; after it the old figures count. A guess: `df` should not hang with a target.
const WAIT_MAX: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

/// Minimum validity of attributes of a directory: until the kernel's next tick or the one after. A second has 100 to
/// 1,000 ticks.
const DIRECTORY_TTL: Duration = Duration::from_nanos(1);

/// Limit of asynchronous requests (read-ahead, write-back) under way.
const BACKGROUND_MAX: u16 = 128;

/// A directory that a process reads.
pub struct OpenDirectory {
    listing: Mutex<Listing>,
    held: Held,
}

impl FileSystem for Server {
    type Passing<'a> = ();

    fn passing(self: &Arc<Self>, _op: Option<Op>) {}

    fn counted(&self, op: Op, user: Option<u32>) -> Option<Counted> {
        Some(Counted::new(self.parts.stats.clone(), op, user))
    }

    fn wanted(&self) -> Wanted {
        let mut capabilities = vec![
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // Only the kernel changes bytes and sizes, so it drops no page because of changed attributes.
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_PASSTHROUGH,
        ];
        capabilities.extend(self.parts.namespace.has_acls().then_some(InitFlags::FUSE_POSIX_ACL));
        if self.parts.pool.cluster.get().is_some() {
            // Without these flags the kernel keeps locks by itself, local to this node.
            capabilities.extend([InitFlags::FUSE_POSIX_LOCKS, InitFlags::FUSE_FLOCK_LOCKS]);
        }
        Wanted { capabilities, read_ahead_bytes: REQUEST_BYTES_MAX, background_max: BACKGROUND_MAX }
    }

    fn cannot_pass_through(&self) {
        self.passthrough.store(false, Ordering::Relaxed);
    }

    fn ttl(&self) -> Ttl {
        let (entry, attr) = (self.options.entry_timeout, self.options.attr_timeout);
        let of_directories = |of_files| self.options.directory_timeout.unwrap_or(of_files);
        // On a path walk the kernel requests the attributes of each directory after its name, whose answer had them.
        // Names are requested each time all the same.
        let directory = of_directories(attr).max(DIRECTORY_TTL);
        Ttl { entry, directory_entry: of_directories(entry), attr, directory }
    }

    fn shown(&self, id: NodeId, stat: Stat) -> FileAttr {
        Server::shown(self, id, stat)
    }

    fn ended(&self) {
        self.ended.ring();
    }

    fn lookup(self: &Arc<Self>, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)> {
        if is_virtual(parent, name) {
            return Ok((no_attributes(STATS_ID), Generation(0)));
        }
        let rests = |stat: &Stat| self.open.rests(self.parts.namespace.id_of(stat.st_ino));
        let in_use = |stat: &Stat| self.parts.files.may_be_in_use(stat.st_dev, stat.st_ino) && !rests(stat);
        self.entry(self.pin(parent, name, self.parts.namespace.lookup_with(parent, name, in_use)))
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.parts.namespace.forget(id, count);
    }

    fn attributes(&self, id: NodeId, handle: Option<u64>) -> Result<FileAttr> {
        let stat = match handle.filter(|_| id != STATS_ID).and_then(|handle| self.handles.get(handle)) {
            Some(handle) if handle.open.id == id => self.stat_open(&handle.open),
            _ => self.stat(id),
        };
        stat.map_err(|error| error.errno())
    }

    fn change(self: &Arc<Self>, caller: Caller, id: NodeId, changes: Changes, answer: Answer<ReplyAttr>) {
        self.set_attributes(caller, id, changes, answer);
    }

    fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>> {
        self.parts.namespace.read_symlink(id)
    }

    fn make(&self, parent: NodeId, name: &OsStr, what: Make<'_>) -> Result<(FileAttr, Generation)> {
        Server::make(self, parent, name, what)
    }

    fn unlink(self: &Arc<Self>, uid: u32, parent: NodeId, name: &OsStr, answer: Answer<ReplyEmpty>) {
        let name = name.to_owned();
        self.with_room_for_removal(uid, answer, move |server| {
            not_permitted(parent, &name)?;
            let mut user = None;
            let before = |removed: &mut Removed| server.user_of_removed(removed).map(|found| user = found).is_some();
            let removed = server.parts.namespace.unlink_after(parent, &name, before)?;
            server.counts_no_more(&removed, user.is_some(), parent);
            server.unlinked(uid, user);
            Ok(())
        });
    }

    fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        let removed = self.parts.namespace.remove_directory(parent, name)?;
        self.counts_no_more(&removed, false, parent);
        Ok(())
    }

    fn rename(
        self: &Arc<Self>,
        uid: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: RenameFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        let (from, to) = ((from.0, from.1.to_owned()), (to.0, to.1.to_owned()));
        self.with_room_for_removal(uid, answer, move |server| {
            not_permitted(from.0, &from.1)?;
            not_permitted(to.0, &to.1)?;
            server.may_rename((from.0, &from.1), (to.0, &to.1))?;
            let mut user = None;
            let before = |removed: &mut Removed| server.user_of_removed(removed).map(|found| user = found).is_some();
            let replaced = server.parts.namespace.rename_after((from.0, &from.1), (to.0, &to.1), flags, before)?;
            if let Some(replaced) = replaced {
                server.counts_no_more(&replaced, user.is_some(), to.0);
            }
            server.unlinked(uid, user);
            Ok(())
        });
    }

    fn open(self: &Arc<Self>, caller: Caller, id: NodeId, flags: OFlags, answer: Answer<ReplyOpen>) {
        Server::open(self, caller, id, flags, answer);
    }

    fn create(
        self: &Arc<Self>,
        caller: Caller,
        at: (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        answer: Answer<ReplyCreate>,
    ) {
        Server::create(self, caller, at, mode, flags, answer);
    }

    fn read(self: &Arc<Self>, request: ReadRequest, answer: Answer<ReplyData>) {
        Server::read(self, request, answer);
    }

    fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], answer: Answer<ReplyWrite>) {
        Server::write(self, request, data, answer);
    }

    fn flush(self: &Arc<Self>, id: NodeId, handle: u64, by: ClosedBy, answer: Answer<ReplyEmpty>) {
        Server::flush(self, id, handle, by.owner, answer);
    }

    fn lock(self: &Arc<Self>, request: LockRequest, answer: Answer<ReplyEmpty>) {
        let LockRequest { wanted, thread, waits } = request;
        let (handle, waits) = (wanted.handle, waits && wanted.kind.is_some());
        self.call_locks(handle, thread, waits, What::Set(wanted), Box::new(|done| answer.give(done.map(drop))));
    }

    fn test_lock(self: &Arc<Self>, request: LockRequest, answer: Answer<ReplyLock>) {
        let LockRequest { wanted: Lock { owner, handle, bytes, kind, .. }, thread, .. } = request;
        let Some(kind) = kind else { return answer.give(Err(Errno::INVAL)) };
        self.call_locks(handle, thread, false, What::Test(owner, bytes, kind), Box::new(|done| answer.give(done)));
    }

    fn release(self: &Arc<Self>, id: NodeId, handle: u64, answer: Answer<ReplyEmpty>) {
        Server::release(self, id, handle, answer);
    }

    fn sync(self: &Arc<Self>, _id: NodeId, handle: u64, data_only: bool, answer: Answer<ReplyEmpty>) {
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        self.hand_over(handle.uid(), answer, move |answer| {
            answer.give(handle.open.file.sync(data_only, &handle.synced).map_err(|error| error.errno()));
        });
    }

    fn allocate(
        self: &Arc<Self>,
        (_, handle): (NodeId, u64),
        (offset, len): (u64, u64),
        mode: FallocateFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        handle.wrote.store(true, Ordering::Relaxed);
        self.hand_over(handle.uid(), answer, move |answer| {
            answer.give(ranges::allocate(&handle.open.file, offset, len, mode).map_err(|error| error.errno()));
        });
    }

    fn seek(self: &Arc<Self>, (_, handle): (NodeId, u64), offset: u64, whence: Whence, answer: Answer<ReplyLseek>) {
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        self.hand_over(handle.uid(), answer, move |answer| {
            let file = &handle.open.file;
            let found = match whence {
                _ if file.kernel_may_have_stores() => ranges::all_data(file.size(), offset, whence),
                Whence::Data => file.seek_data(offset),
                Whence::Hole => file.seek_hole(offset),
            };
            answer.give(found.map_err(|error| error.errno()));
        });
    }

    fn copy(self: &Arc<Self>, from: (u64, u64), to: (u64, u64), len: u64, mut answer: Answer<ReplyWrite>) {
        let (Some(source), Some(destination)) = (self.handles.get(from.0), self.handles.get(to.0)) else {
            return answer.give(Err(Errno::BADF));
        };
        destination.wrote.store(true, Ordering::Relaxed);
        answer.is_on(&destination.open.file);
        // The answer's field has 32 bits; the kernel sends another request for the rest.
        let len = len.min(1 << 30);
        let uid = destination.uid();
        let (source, destination) = (source.open.file.clone(), destination.open.file.clone());
        let Some(len) = ranges::whole_pages(to.1, len.min(source.size().saturating_sub(from.1)), destination.size())
        else {
            return answer.give(Err(Errno::XDEV));
        };
        // A holder of writes must see them: the kernel copies instead, with ordinary reads and writes.
        let access = Access { write: true, offset: to.1, len };
        if destination.holder(access).is_some() {
            return answer.give(Err(Errno::XDEV));
        }
        self.hand_over(uid, answer, move |answer| {
            let done = destination.copy_range(&source, from.1, to.1, len).map_err(|error| error.errno());
            destination.tell_written(access, &done.map(drop).map_err(Into::into));
            answer.give(done.map(|copied| copied as usize));
        });
    }

    fn open_directory(&self, uid: u32, id: NodeId) -> Result<u64> {
        let held = self.admission.take(uid, 1).map_err(holders::errno)?;
        let listing = Mutex::new(self.parts.namespace.list(id)?);
        Ok(self.directories.insert(Arc::new(OpenDirectory { listing, held })))
    }

    fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()> {
        let open = self.directories.get(handle).ok_or(Errno::BADF)?;
        read(&mut open.listing.lock(), &self.parts.namespace)
    }

    fn close_directory(&self, handle: u64) {
        self.directories.remove(handle);
    }

    fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>) {
        let Some(open) = self.directories.get(handle) else { return answer.give(Err(Errno::BADF)) };
        self.hand_over(open.held.uid(), answer, move |answer| answer.give(open.listing.lock().sync()));
    }

    fn space(&self) -> Result<StatVfs> {
        let space = self.parts.pool.targets.space();
        let free = space.free_bytes / BLOCK_BYTES;
        let names = self.parts.namespace.space()?;
        Ok(StatVfs {
            f_blocks: space.total_bytes / BLOCK_BYTES,
            f_bfree: free,
            f_bavail: free,
            f_bsize: BLOCK_BYTES,
            f_frsize: BLOCK_BYTES,
            ..names
        })
    }

    fn statfs(self: &Arc<Self>, uid: u32, answer: Answer<ReplyStatfs>) {
        if !self.parts.pool.targets.measure_older(AGE_MAX) {
            return answer.give(self.space());
        }
        let server = self.clone();
        self.hand_over(uid, answer, move |answer| {
            let begun = Instant::now();
            while server.parts.pool.targets.has_older(AGE_MAX) && begun.elapsed() < WAIT_MAX {
                std::thread::sleep(PAUSE);
            }
            answer.give(server.space());
        });
    }

    fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        Server::attribute(self, id, name).map_err(|error| error.errno())
    }

    fn attribute_names(&self, id: NodeId) -> Result<Vec<u8>> {
        Server::attribute_names(self, id).map_err(|error| error.errno())
    }

    fn set_attribute(
        self: &Arc<Self>,
        caller: Caller,
        id: NodeId,
        attribute: (&OsStr, &[u8]),
        flags: XattrFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        Server::set_attribute(self, caller, id, attribute, flags, answer);
    }

    fn remove_attribute(&self, caller: Caller, id: NodeId, name: &OsStr) -> Result<()> {
        Server::remove_attribute(self, caller.uid, id, name).map_err(|error| error.errno())
    }
}
