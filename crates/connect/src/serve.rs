//! What the kernel asks, one method per request: names go to [`super::names`], bytes to [`super::file`]; both may wait.

mod bytes;
mod entries;
mod modes;

use crate::file::{OpenFile, World};
use crate::mount::Options;
use crate::takers::{Takers, WATCH};
use fuser::{
    BsdFileFlags, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use store::mount::answer::{self, Changes};
use store::mount::convert::{caller, device, errno, set_time, synced};
use store::mount::handles::Handles;
use store::namespace::NodeId;

/// Bytes of one request at most.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends ahead of anybody waiting for them.
const BACKGROUND_MAX: u16 = 256;

/// What fuser drives.
pub(crate) struct Server(pub Arc<Shared>);

/// Everything that its threads share.
pub(crate) struct Shared {
    pub world: Arc<World>,
    pub options: Options,
    handles: Handles<bytes::Handle>,
    /// Open files by node: the only way to one without a name.
    open: Mutex<HashMap<NodeId, Vec<Arc<OpenFile>>>>,
    modes: Mutex<modes::Modes>,
    directories: Handles<entries::Directory>,
    takers: Arc<Takers>,
    /// Whether the kernel lets us register backing files; found out at the first try.
    passthrough: AtomicBool,
}

impl Shared {
    pub fn new(world: Arc<World>, options: Options) -> Shared {
        let passthrough = AtomicBool::new(options.passes_through());
        Shared {
            world,
            options,
            handles: Handles::default(),
            open: Mutex::default(),
            modes: Mutex::default(),
            directories: Handles::default(),
            takers: Takers::new(std::thread::available_parallelism().map_or(2, |n| n.get().max(2)), WATCH),
            passthrough,
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Not FUSE_ATOMIC_O_TRUNC, as on a volume: an open that truncates a running program must be refused first.
        let wanted = [
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        let pass = self.0.options.passes_through().then_some(InitFlags::FUSE_PASSTHROUGH);
        answer::ask_capabilities(config, wanted.into_iter().chain(pass));
        if !self.0.options.passes_through() {
            // Without a depth of its own, so that what lies on this mount may be passed through by another.
        } else if config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH) {
            let _ = config.set_max_stack_depth(1);
        } else {
            self.0.passthrough.store(false, Ordering::Relaxed);
        }
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_readahead(self.0.options.read_ahead_bytes());
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _took = self.0.takers.took_long();
        self.0.lookup(parent.0, name, reply);
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        let _took = self.0.takers.took();
        self.0.world.names.tree().forget(ino.0, count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let _took = self.0.takers.took_long();
        self.0.attr(self.0.stat(ino.0), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _took = self.0.takers.took_long();
        let (accessed, modified) = (accessed.map(set_time), modified.map(set_time));
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        let changed = self.0.change(caller(request, 0), ino.0, &changes).and_then(|()| self.0.stat(ino.0));
        self.0.attr(changed, reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let _took = self.0.takers.took_long();
        match self.0.read_symlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _took = self.0.takers.took_long();
        let (caller, device) = (caller(request, umask), device(rdev));
        self.0.make(parent.0, name, reply, |tree| tree.make_node(caller, parent.0, name, mode, device));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let _took = self.0.takers.took_long();
        let caller = caller(request, umask);
        self.0.make(parent.0, name, reply, |tree| tree.make_directory(caller, parent.0, name, mode));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _took = self.0.takers.took_long();
        let caller = caller(request, 0);
        self.0.make(parent.0, name, reply, |tree| tree.make_symlink(caller, parent.0, name, target.as_os_str()));
    }

    fn link(&self, _request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _took = self.0.takers.took_long();
        self.0.make(parent.0, name, reply, |tree| tree.link(ino.0, parent.0, name));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.unmake(parent.0, name, |tree| tree.unlink(parent.0, name).map(|_| ())), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.unmake(parent.0, name, |tree| tree.remove_directory(parent.0, name).map(|_| ())), reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.rename((parent.0, name), (new_parent.0, new_name), flags), reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _took = self.0.takers.took_long();
        self.0.open(ino.0, flags, request.pid(), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _took = self.0.takers.took_long();
        self.0.create(caller(request, umask), request.pid(), (parent.0, name), mode, flags, reply);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _took = self.0.takers.took();
        self.0.read(handle, offset, length as usize, reply);
    }

    fn write(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _took = self.0.takers.took();
        let by = bytes::Written {
            thread: request.pid(),
            drops: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID).then(|| caller(request, 0)),
            // What the page cache writes back has its place, whatever the handle that the kernel sends it through.
            appends: flags.0 & libc::O_APPEND != 0 && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            sync: synced(flags, write_flags),
        };
        self.0.write(handle, offset, data, by, reply);
    }

    fn flush(&self, request: &Request, _ino: INodeNo, handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.flush(handle, request.pid()), reply);
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _took = self.0.takers.took_long();
        self.0.release(handle);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.sync(handle, data_only), reply);
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _took = self.0.takers.took_long();
        self.0.open_directory(ino.0, reply);
    }

    fn readdir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let _took = self.0.takers.took_long();
        self.0.read_directory(handle, offset, reply);
    }

    fn readdirplus(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let _took = self.0.takers.took_long();
        self.0.read_directory_plus(handle, offset, reply);
    }

    fn releasedir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        self.0.close_directory(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.sync_directory(handle), reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let _took = self.0.takers.took_long();
        self.0.space(reply);
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.set_attribute(caller(request, 0), ino.0, name, value, flags), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _took = self.0.takers.took_long();
        answer::value(self.0.attribute(ino.0, name), size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _took = self.0.takers.took_long();
        answer::value(self.0.attributes(ino.0), size, reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.remove_attribute(ino.0, name), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _took = self.0.takers.took_long();
        answer::done(self.0.allocate(handle, offset, length, mode), reply);
    }

    fn ioctl(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        _data: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        answer::no_controls(command, reply);
    }

    fn poll(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _waiter: PollNotifier,
        _events: PollEvents,
        _flags: PollFlags,
        reply: ReplyPoll,
    ) {
        // The kernel then takes every file to be ready, and does not ask again.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _took = self.0.takers.took_long();
        match self.0.seek(handle, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(errno(error)),
        }
    }
}
