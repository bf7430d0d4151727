//! Methods of the FUSE server, one for each request: decode, pass on, answer.

use super::{ClosedBy, FileSystem, LockRequest, Make, Opened, REQUEST_BYTES_MAX, ReadRequest, Whence, WriteRequest};
use crate::mount::answer::{self, Answer, Changes, Reply, Value};
use crate::mount::convert::{caller, device, set_time, synced};
use engine::file::Wanted;
use engine::stats::Op;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use meta::stub::locks::{Kind, LAST};
use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Callbacks for fuser.
pub(super) struct Front<F: FileSystem>(pub Arc<F>);

impl<F: FileSystem> Drop for Front<F> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl<F: FileSystem> Front<F> {
    /// Begins a request of a user that is to be answered, with its kind if it is a counted one.
    fn begin<R: Reply>(&self, request: &Request, op: impl Into<Option<Op>>, reply: R) -> (F::Passing<'_>, Answer<R>) {
        self.begin_for(Some(request.uid()), op, reply)
    }

    /// As `begin`, where the kernel may act for no user.
    fn begin_for<R: Reply>(
        &self,
        user: Option<u32>,
        op: impl Into<Option<Op>>,
        reply: R,
    ) -> (F::Passing<'_>, Answer<R>) {
        let op = op.into();
        let counted = op.and_then(|op| self.0.counted(op, user));
        (self.0.passing(op), Answer::new(reply, self.0.ttl(), counted))
    }

    fn make(&self, request: &Request, parent: INodeNo, name: &OsStr, what: Make<'_>, reply: ReplyEntry) {
        let op = if matches!(what, Make::Link(_)) { Op::Link } else { Op::Create };
        let (_passing, answer) = self.begin(request, op, reply);
        answer.give(self.0.make(parent.0, name, what));
    }
}

/// Decodes a lock request of the kernel.
fn lock_request(
    request: &Request,
    (handle, owner): (FileHandle, LockOwner),
    (start, end): (u64, u64),
    kind: i32,
    process: u32,
) -> rustix::io::Result<LockRequest> {
    let kind = match kind {
        libc::F_RDLCK => Some(Kind::Shared),
        libc::F_WRLCK => Some(Kind::Exclusive),
        libc::F_UNLCK => None,
        _ => return Err(Errno::INVAL),
    };
    if start > end || start > LAST {
        return Err(Errno::INVAL);
    }
    let wanted = Wanted { owner: owner.0, handle: handle.0, process, bytes: start..=end.min(LAST), kind };
    Ok(LockRequest { wanted, thread: request.pid(), waits: false })
}

impl<F: FileSystem> Filesystem for Front<F> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // FUSE_ATOMIC_O_TRUNC is not set. With it, an open that truncates would arrive before the kernel's check for a
        // running program (ETXTBSY), and cut that program.
        let always = [InitFlags::FUSE_DONT_MASK, InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ASYNC_DIO];
        let wanted = self.0.wanted();
        let passes = wanted.capabilities.contains(&InitFlags::FUSE_PASSTHROUGH);
        answer::ask_capabilities(config, always.into_iter().chain(wanted.capabilities));
        if !passes {
            // No stack depth is requested, so that another mount can pass files of this mount through.
        } else if config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH) {
            let _ = config.set_max_stack_depth(1);
        } else {
            self.0.cannot_pass_through();
        }
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_readahead(wanted.read_ahead_bytes);
        let _ = config.set_max_background(wanted.background_max);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (_passing, answer) = self.begin(request, Op::Lookup, reply);
        answer.give(self.0.lookup(parent.0, name));
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.0.forget(ino.0, count);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let (_passing, answer) = self.begin(request, Op::Getattr, reply);
        answer.give(self.0.attributes(ino.0, handle.map(|handle| handle.0)));
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
        let (_passing, answer) = self.begin(request, Op::Setattr, reply);
        let (accessed, modified) = (accessed.map(set_time), modified.map(set_time));
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        self.0.change(caller(request, 0), ino.0, changes, answer);
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let (_passing, answer) = self.begin(request, Op::Lookup, reply);
        answer.give(self.0.read_symlink(ino.0).as_deref().map_err(|error| *error));
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
        let what = Make::Node(caller(request, umask), mode, device(rdev));
        self.make(request, parent, name, what, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.make(request, parent, name, Make::Directory(caller(request, umask), mode), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.make(request, parent, name, Make::Symlink(caller(request, 0), target.as_os_str()), reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.make(request, parent, name, Make::Link(ino.0), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (_passing, answer) = self.begin(request, Op::Unlink, reply);
        self.0.unlink(request.uid(), parent.0, name, answer);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (_passing, answer) = self.begin(request, Op::Unlink, reply);
        answer.give(self.0.remove_directory(parent.0, name));
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
        let (_passing, answer) = self.begin(request, Op::Rename, reply);
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        self.0.rename(request.uid(), (parent.0, name), (new_parent.0, new_name), flags, answer);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (_passing, answer) = self.begin(request, Op::Open, reply);
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        self.0.open(caller(request, 0), ino.0, flags, answer);
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
        let (_passing, answer) = self.begin(request, Op::Create, reply);
        let flags = OFlags::from_bits_retain(flags as u32);
        self.0.create(caller(request, umask), (parent.0, name), mode, flags, answer);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (_passing, answer) = self.begin(request, Op::Read, reply);
        let (id, handle, len) = (ino.0, handle.0, len as usize);
        let read = ReadRequest { id, handle, offset, len, thread: request.pid(), for_pages: owner.is_none() };
        self.0.read(read, answer);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let user = (!write_flags.contains(WriteFlags::FUSE_WRITE_CACHE)).then(|| request.uid());
        let (_passing, answer) = self.begin_for(user, Op::Write, reply);
        let write = WriteRequest {
            id: ino.0,
            handle: handle.0,
            offset,
            thread: request.pid(),
            drops: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID).then(|| caller(request, 0)),
            appends: flags.0 & libc::O_APPEND != 0 && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            sync: synced(flags, write_flags),
        };
        self.0.write(write, data, answer);
    }

    fn flush(&self, request: &Request, ino: INodeNo, handle: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let (_passing, answer) = self.begin(request, Op::Flush, reply);
        let by = ClosedBy { thread: request.pid(), owner: owner.0 };
        self.0.flush(ino.0, handle.0, by, answer);
    }

    fn getlk(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        reply: ReplyLock,
    ) {
        let (_passing, answer) = self.begin(request, None, reply);
        match lock_request(request, (handle, owner), (start, end), kind, process) {
            Ok(wanted) => self.0.test_lock(wanted, answer),
            Err(error) => answer.give(Err(error)),
        }
    }

    // A flock arrives as a lock of all bytes by the open file description; fuser does not mark it as one.
    fn setlk(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let (_passing, answer) = self.begin(request, None, reply);
        match lock_request(request, (handle, owner), (start, end), kind, process) {
            Ok(wanted) => self.0.lock(LockRequest { waits, ..wanted }, answer),
            Err(error) => answer.give(Err(error)),
        }
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
        let (_passing, answer) = self.begin_for(None, Op::Release, reply);
        self.0.release(ino.0, handle.0, answer);
    }

    fn fsync(&self, request: &Request, ino: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let (_passing, answer) = self.begin(request, Op::Fsync, reply);
        self.0.sync(ino.0, handle.0, data_only, answer);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let (_passing, answer) = self.begin(request, None, reply);
        answer.give(self.0.open_directory(request.uid(), ino.0).map(Opened::plain));
    }

    fn readdir(&self, request: &Request, _ino: INodeNo, handle: FileHandle, mut offset: u64, reply: ReplyDirectory) {
        let (_passing, mut answer) = self.begin(request, Op::Readdir, reply);
        let done = self.0.list(handle.0, &mut |listing, names| answer.fill(listing, names, &mut offset));
        answer.give(done);
    }

    fn readdirplus(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        mut offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let (_passing, mut answer) = self.begin(request, Op::Readdir, reply);
        let shown = |id, stat| self.0.shown(id, stat);
        let done = self.0.list(handle.0, &mut |listing, names| answer.fill(listing, names, &mut offset, shown));
        answer.give(done);
    }

    fn releasedir(&self, _request: &Request, _ino: INodeNo, handle: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        let _passing = self.0.passing(None);
        self.0.close_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, _ino: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let (_passing, answer) = self.begin(request, Op::Fsync, reply);
        self.0.sync_directory(handle.0, answer);
    }

    fn statfs(&self, request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let (_passing, answer) = self.begin(request, Op::Statfs, reply);
        self.0.statfs(request.uid(), answer);
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
        let (_passing, answer) = self.begin(request, Op::Xattr, reply);
        let flags = XattrFlags::from_bits_retain(flags as u32);
        self.0.set_attribute(caller(request, 0), ino.0, (name, value), flags, answer);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (_passing, answer) = self.begin(request, Op::Xattr, reply);
        answer.give(self.0.attribute(ino.0, name).and_then(|value| Value::in_room(value, size)));
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let (_passing, answer) = self.begin(request, Op::Xattr, reply);
        answer.give(self.0.attribute_names(ino.0).and_then(|value| Value::in_room(value, size)));
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (_passing, answer) = self.begin(request, Op::Xattr, reply);
        answer.give(self.0.remove_attribute(caller(request, 0), ino.0, name));
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (_passing, answer) = self.begin(request, Op::Fallocate, reply);
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        self.0.allocate((ino.0, handle.0), (offset, len), mode, answer);
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
        // No file here has ioctls. A process that tests for a terminal should not fill the log.
        tracing::debug!(command, "an ioctl that no file here has");
        reply.error(fuser::Errno::ENOTTY);
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
        // The kernel then treats every file as ready, and sends no more of these requests.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn lseek(&self, request: &Request, ino: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let (_passing, answer) = self.begin(request, Op::Seek, reply);
        let whence = match whence {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return answer.give(Err(Errno::INVAL)),
        };
        let Ok(offset) = u64::try_from(offset) else { return answer.give(Err(Errno::NXIO)) };
        self.0.seek((ino.0, handle.0), offset, whence, answer);
    }

    fn copy_file_range(
        &self,
        request: &Request,
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
        let (_passing, answer) = self.begin(request, Op::Copy, reply);
        self.0.copy((handle_in.0, offset_in), (handle_out.0, offset_out), len, answer);
    }
}
