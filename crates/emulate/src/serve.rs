//! What the kernel asks: names and attributes are the backing directory's; bytes wait for the emulated device.

mod bytes;
mod names;

use crate::disk::{Figures, Options};
use crate::extents::Extents;
use crate::spindle::Spindle;
use fuser::{
    BsdFileFlags, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use store::mount::answer::{self, Changes};
use store::mount::convert::{caller, set_time, synced};
use store::mount::handles::Handles;
use store::namespace::{Listing, Namespace, NodeId};

/// Bytes of one request at most.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends ahead of anybody waiting for them.
const BACKGROUND_MAX: u16 = 256;

/// What fuser drives.
pub(crate) struct Server(pub Arc<Shared>);

/// Everything that its threads share.
pub(crate) struct Shared {
    pub namespace: Namespace,
    pub extents: Mutex<Extents>,
    pub spindle: Spindle,
    model: String,
    speedup: f64,
    page_cache: bool,
    sync: bool,
    /// Files in use, by inode; the inode is the handle.
    open: Mutex<HashMap<NodeId, InUse>>,
    directories: Handles<Mutex<Listing>>,
    /// What each open `.stats` shows.
    texts: Handles<Vec<u8>>,
}

struct InUse {
    file: Arc<OwnedFd>,
    users: u64,
    /// Whether its last name is gone: its place is free when nobody uses it any more.
    gone: bool,
}

impl Shared {
    pub fn new(namespace: Namespace, extents: Extents, spindle: Spindle, options: &Options) -> Shared {
        Shared {
            namespace,
            extents: Mutex::new(extents),
            spindle,
            model: options.setup.disk.clone(),
            speedup: options.speedup,
            page_cache: options.page_cache,
            sync: options.sync,
            open: Mutex::default(),
            directories: Handles::default(),
            texts: Handles::default(),
        }
    }

    /// What the device did so far.
    pub fn figures(&self) -> Figures {
        let (counts, started, service_ns, late) = self.spindle.counts();
        let elapsed_s = self.spindle.now().as_secs_f64();
        let busy_s = counts.busy_ns as f64 / 1e9;
        let (capacity_bytes, free_bytes) = {
            let extents = self.extents.lock();
            (extents.bytes(), extents.free_bytes())
        };
        Figures {
            model: self.model.clone(),
            speedup: self.speedup,
            capacity_bytes,
            free_bytes,
            elapsed_s,
            busy_s,
            utilisation: if elapsed_s > 0.0 { busy_s / elapsed_s } else { 0.0 },
            reads: counts.reads,
            writes: counts.writes,
            bytes_read: counts.sectors_read * 512,
            bytes_written: counts.sectors_written * 512,
            read_response_ms: counts.read_response.mean_ms(),
            read_response_p99_ms: counts.read_response.quantile_ms(0.99),
            write_response_ms: counts.write_response.mean_ms(),
            write_response_p99_ms: counts.write_response.quantile_ms(0.99),
            device_requests: started.started,
            service_ms: service_ns as f64 / 1e6 / started.started.max(1) as f64,
            inside_max: counts.inside_max,
            late_mean_us: late.sum.as_secs_f64() * 1e6 / late.answers.max(1) as f64,
            late_max_us: late.max.as_secs_f64() * 1e6,
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        answer::ask_capabilities(config, wanted);
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_readahead(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.lookup(parent.0, name, reply);
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.0.namespace.forget(ino.0, count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.0.getattr(ino.0, reply);
    }

    fn setattr(
        &self,
        _request: &Request,
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
        let (accessed, modified) = (accessed.map(set_time), modified.map(set_time));
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        self.0.set_attributes(ino.0, &changes, reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.0.namespace.read_symlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(store::mount::convert::errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let device = store::mount::convert::device(device);
        self.0
            .make(parent.0, name, reply, |space| space.make_node(caller(request, umask), parent.0, name, mode, device));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.0.make(parent.0, name, reply, |space| space.make_directory(caller(request, umask), parent.0, name, mode));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.0.make(parent.0, name, reply, |space| {
            space.make_symlink(caller(request, 0), parent.0, name, target.as_os_str())
        });
    }

    fn link(&self, _request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.0.make(parent.0, name, reply, |space| space.link(ino.0, parent.0, name));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.0.unlink(parent.0, name, reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer::done(self.0.namespace.remove_directory(parent.0, name).map(|_| ()), reply);
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
        self.0.rename((parent.0, name), (new_parent.0, new_name), flags, reply);
    }

    fn open(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.open(ino.0, reply);
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
        self.0.create(caller(request, umask), (parent.0, name), mode, flags, reply);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.0.read(ino.0, handle, offset, length as usize, request.pid(), reply);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.write(ino.0, offset, data, synced(flags, write_flags), request.pid(), reply);
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.release(ino.0, handle);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        answer::done(self.0.sync(ino.0, data_only), reply);
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.open_directory(ino.0, reply);
    }

    fn readdir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.0.read_directory(handle, offset, reply);
    }

    fn releasedir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.0.directories.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        answer::done(self.0.sync_directory(handle), reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.0.space(reply);
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        answer::done(self.0.set_attribute(ino.0, name, value, flags), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer::value(self.0.attribute(ino.0, name), size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer::value(self.0.attributes(ino.0), size, reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer::done(self.0.remove_attribute(ino.0, name), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer::done(self.0.allocate(ino.0, offset, length, mode), reply);
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
        ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.0.seek(ino.0, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(store::mount::convert::errno(error)),
        }
    }
}
