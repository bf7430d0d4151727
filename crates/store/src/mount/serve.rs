//! What the kernel asks, one method per request: decoded, counted, passed on.

use super::Server;
use super::answer::{self, Changes};
use super::convert::{caller, set_time, synced};
use super::mountpoint::Ended;
use crate::stats::Op;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Bytes of one request at most.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends ahead of anybody waiting for them.
const BACKGROUND_MAX: u16 = 128;

/// What fuser drives. Rings when all its threads have left.
pub struct Fuse(pub Arc<Server>, pub Arc<Ended>);

impl Drop for Fuse {
    fn drop(&mut self) {
        self.1.ring();
    }
}

/// Counts a request when it was passed on.
struct Counted<'a>(&'a Server, Op, u64, Instant);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.parts.stats.op(self.1, self.2, self.3.elapsed(), false);
    }
}

impl Fuse {
    fn count(&self, op: Op, bytes: u64) -> Counted<'_> {
        Counted(&self.0, op, bytes, Instant::now())
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Not FUSE_ATOMIC_O_TRUNC: an open that truncates would reach us before the kernel found the file to be a running
        // program (ETXTBSY), and cut it under the program's feet.
        let wanted = [
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // The kernel alone changes bytes and sizes, so it drops no page for what it reads in attributes.
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_PASSTHROUGH,
        ];
        answer::ask_capabilities(config, wanted);
        if config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH) {
            let _ = config.set_max_stack_depth(1);
        } else {
            self.0.passthrough.store(false, std::sync::atomic::Ordering::Relaxed);
        }
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        let _ = config.set_max_readahead(WRITE_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _counted = self.count(Op::Lookup, 0);
        self.0.lookup(parent.0, name, reply);
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.0.parts.namespace.forget(ino.0, count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let _counted = self.count(Op::Getattr, 0);
        self.0.getattr(ino.0, handle, reply);
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
        let _counted = self.count(Op::Setattr, 0);
        let (accessed, modified) = (accessed.map(set_time), modified.map(set_time));
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        self.0.set_attributes(caller(request, 0), ino.0, changes, reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let _counted = self.count(Op::Lookup, 0);
        match self.0.parts.namespace.read_symlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(super::convert::errno(error)),
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
        let _counted = self.count(Op::Create, 0);
        self.0.make_node(caller(request, umask), parent.0, name, mode, device, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let _counted = self.count(Op::Create, 0);
        self.0.make_directory(caller(request, umask), parent.0, name, mode, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _counted = self.count(Op::Unlink, 0);
        self.0.unlink(request.uid(), parent.0, name, reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _counted = self.count(Op::Unlink, 0);
        self.0.remove_directory(parent.0, name, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _counted = self.count(Op::Create, 0);
        self.0.make_symlink(caller(request, 0), parent.0, name, target.as_os_str(), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _counted = self.count(Op::Rename, 0);
        self.0.rename(request.uid(), (parent.0, name), (new_parent.0, new_name), flags, reply);
    }

    fn link(&self, _request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _counted = self.count(Op::Link, 0);
        self.0.link(ino.0, parent.0, name, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _counted = self.count(Op::Open, 0);
        self.0.open(request, ino.0, flags, reply);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _counted = self.count(Op::Read, len.into());
        // A read for a process names it; one that fills pages has no owner.
        let for_pages = owner.is_none();
        self.0.read(ino.0, handle, offset, len, for_pages, reply);
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
        let _counted = self.count(Op::Write, data.len() as u64);
        let sync = synced(flags, write_flags);
        let drops = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID).then(|| caller(request, 0));
        self.0.write(handle, offset, data, drops, sync, reply);
    }

    fn flush(&self, _request: &Request, ino: INodeNo, handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        let _counted = self.count(Op::Flush, 0);
        self.0.flush(ino.0, handle, reply);
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
        let _counted = self.count(Op::Release, 0);
        self.0.release(ino.0, handle, reply);
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _counted = self.count(Op::Fsync, 0);
        self.0.sync(handle, data_only, reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.0.open_directory(request.uid(), ino.0, reply);
    }

    fn readdir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let _counted = self.count(Op::Readdir, 0);
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
        let _counted = self.count(Op::Readdir, 0);
        self.0.read_directory_plus(handle, offset, reply);
    }

    fn releasedir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.0.close_directory(handle, reply);
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let _counted = self.count(Op::Fsync, 0);
        self.0.sync_directory(handle, reply);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let _counted = self.count(Op::Statfs, 0);
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
        let _counted = self.count(Op::Xattr, 0);
        self.0.set_attribute(request, ino.0, name, value, flags, reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _counted = self.count(Op::Xattr, 0);
        self.0.get_attribute(ino.0, name, size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _counted = self.count(Op::Xattr, 0);
        self.0.list_attributes(ino.0, size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _counted = self.count(Op::Xattr, 0);
        self.0.remove_attribute(request, ino.0, name, reply);
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
        let _counted = self.count(Op::Create, 0);
        let flags = OFlags::from_bits_retain(flags as u32);
        self.0.create(caller(request, umask), (parent.0, name), mode, flags, reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _counted = self.count(Op::Fallocate, 0);
        self.0.allocate(handle, offset, len, mode, reply);
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
        let _counted = self.count(Op::Seek, 0);
        self.0.seek(handle, offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        handle_in: FileHandle,
        offset_in: u64,
        _to: INodeNo,
        handle_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _counted = self.count(Op::Copy, len);
        self.0.copy((handle_in, offset_in), (handle_out, offset_out), len, reply);
    }
}
