//! The volume as a file system of the FUSE server.

use super::Server;
use super::answer::{Answer, Changes, Ttl};
use super::counted::Counted;
use super::front::{
    ClosedBy, FileSystem, LockRequest, Make, REQUEST_BYTES_MAX, ReadRequest, Wanted, Whence, WriteRequest,
};
use engine::stats::Op;
use fuser::{
    FileAttr, Generation, InitFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite,
};
use meta::namespace::{Caller, Listing, Namespace, NodeId};
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, Stat, StatVfs, XattrFlags};
use rustix::io::Result;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Minimum validity of attributes of a directory: until the kernel's next tick or the one after. A second has 100 to
/// 1,000 ticks.
const DIRECTORY_TTL: Duration = Duration::from_nanos(1);

/// Limit of asynchronous requests (read-ahead, write-back) under way.
const BACKGROUND_MAX: u16 = 128;

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
        let attr = self.options.attr_timeout;
        // On a path walk the kernel requests the attributes of each directory after its name, whose answer had them.
        // Names are requested each time all the same.
        Ttl { entry: self.options.entry_timeout, attr, directory: attr.max(DIRECTORY_TTL) }
    }

    fn shown(&self, id: NodeId, stat: Stat) -> FileAttr {
        Server::shown(self, id, stat)
    }

    fn ended(&self) {
        self.ended.ring();
    }

    fn lookup(self: &Arc<Self>, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)> {
        Server::lookup(self, parent, name)
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.parts.namespace.forget(id, count);
    }

    fn attributes(&self, id: NodeId, handle: Option<u64>) -> Result<FileAttr> {
        self.stat_handle(id, handle).map_err(|error| error.errno())
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
        Server::unlink(self, uid, parent, name, answer);
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
        Server::rename(self, uid, from, to, flags, answer);
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
        Server::lock(self, request, answer);
    }

    fn test_lock(self: &Arc<Self>, request: LockRequest, answer: Answer<ReplyLock>) {
        Server::test_lock(self, request, answer);
    }

    fn release(self: &Arc<Self>, id: NodeId, handle: u64, answer: Answer<ReplyEmpty>) {
        Server::release(self, id, handle, answer);
    }

    fn sync(self: &Arc<Self>, _id: NodeId, handle: u64, data_only: bool, answer: Answer<ReplyEmpty>) {
        Server::sync(self, handle, data_only, answer);
    }

    fn allocate(
        self: &Arc<Self>,
        (_, handle): (NodeId, u64),
        range: (u64, u64),
        mode: FallocateFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        Server::allocate(self, handle, range, mode, answer);
    }

    fn seek(self: &Arc<Self>, (_, handle): (NodeId, u64), offset: u64, whence: Whence, answer: Answer<ReplyLseek>) {
        Server::seek(self, handle, offset, whence, answer);
    }

    fn copy(self: &Arc<Self>, from: (u64, u64), to: (u64, u64), len: u64, answer: Answer<ReplyWrite>) {
        Server::copy(self, from, to, len, answer);
    }

    fn open_directory(&self, uid: u32, id: NodeId) -> Result<u64> {
        Server::open_directory(self, uid, id)
    }

    fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()> {
        Server::list(self, handle, read)
    }

    fn close_directory(&self, handle: u64) {
        self.directories.remove(handle);
    }

    fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>) {
        Server::sync_directory(self, handle, answer);
    }

    fn space(&self) -> Result<StatVfs> {
        Server::space(self)
    }

    fn statfs(self: &Arc<Self>, uid: u32, answer: Answer<ReplyStatfs>) {
        Server::statfs(self, uid, answer);
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
