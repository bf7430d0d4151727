//! FUSE server for all our file systems: decodes requests of the kernel, passes them on, and sends the answers.
//!
//! A [`FileSystem`] handles nodes, handles and errors. A method that never blocks for long returns its result. One that
//! may block gets an [`Answer`] to send later, on any thread. A dropped answer is an I/O error.

mod mounting;
mod server;

pub use super::answer::{Answer, Opened};
pub use mounting::{Mounting, serve};

use super::answer::{Changes, Made, Ttl};
use super::counted::Counted;
use engine::file::Wanted as Lock;
use engine::stats::Op;
use fuser::{
    FileAttr, Generation, InitFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite,
};
use meta::namespace::{Caller, Listing, Namespace, NodeId};
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, SeekFrom, Stat, StatVfs, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::sync::Arc;

/// Largest read or write.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Options that a file system requests from the kernel at mount.
pub struct Wanted {
    /// Capabilities in addition to those that every file system requests.
    pub capabilities: Vec<InitFlags>,
    /// Largest read-ahead of the kernel.
    pub read_ahead_bytes: u32,
    /// Limit of asynchronous requests (read-ahead, write-back) under way.
    pub background_max: u16,
}

/// A read of an open file.
pub struct ReadRequest {
    /// Node of the file.
    pub id: NodeId,
    /// Number of the open.
    pub handle: u64,
    /// First byte to read.
    pub offset: u64,
    /// Bytes to read.
    pub len: usize,
    /// The thread that reads.
    pub thread: u32,
    /// Whether the kernel fills pages of the inode: a read without an owner of locks.
    pub for_pages: bool,
}

/// A write to an open file.
pub struct WriteRequest {
    /// Node of the file.
    pub id: NodeId,
    /// Number of the open.
    pub handle: u64,
    /// First byte to write.
    pub offset: u64,
    /// The thread that writes.
    pub thread: u32,
    /// The caller, if it may not keep setuid and setgid.
    pub drops: Option<Caller>,
    /// Whether to append at the end of the file. Write-back of the page cache has a fixed offset, even through such a
    /// handle.
    pub appends: bool,
    /// Whether to make the write durable before the answer; true: only the data.
    pub sync: Option<bool>,
}

/// Caller of a close(2).
#[derive(Clone, Copy, Debug)]
pub struct ClosedBy {
    /// Thread of the caller.
    pub thread: u32,
    /// Its process, as the owner of locks.
    pub owner: u64,
}

/// Request for a lock of an open file: test, take or release.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// Owner, range and kind; without a kind it is a release.
    pub wanted: Lock,
    /// Thread of the caller.
    pub thread: u32,
    /// Whether to wait until the lock is free.
    pub waits: bool,
}

/// A file system to serve. Nodes that it returns by name count as looked up.
pub trait FileSystem: Send + Sync + Sized + 'static {
    /// Guard that lives while a request is passed on.
    type Passing<'a>;
    /// Called for each request, with its kind if it is a counted one.
    fn passing(self: &Arc<Self>, op: Option<Op>) -> Self::Passing<'_>;
    /// Counts an operation from now until its answer, for a user if the kernel names one.
    fn counted(&self, _op: Op, _user: Option<u32>) -> Option<Counted> {
        None
    }
    /// Returns the options to request from the kernel.
    fn wanted(&self) -> Wanted;
    /// Called if the kernel does not support passthrough.
    fn cannot_pass_through(&self) {}
    /// Validity of names and attributes in the kernel's cache.
    fn ttl(&self) -> Ttl;
    /// Returns the attributes to show for a node found in a directory listing.
    fn shown(&self, id: NodeId, stat: Stat) -> FileAttr;
    /// Called when all FUSE threads have left.
    fn ended(&self) {}

    /// Looks a name up.
    fn lookup(self: &Arc<Self>, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)>;
    /// Drops `count` lookups of a node by the kernel.
    fn forget(&self, id: NodeId, count: u64);
    /// Returns attributes; of an open file if the kernel passes its handle.
    fn attributes(&self, id: NodeId, handle: Option<u64>) -> Result<FileAttr>;
    /// Changes attributes of a node.
    fn change(self: &Arc<Self>, caller: Caller, id: NodeId, changes: Changes, answer: Answer<ReplyAttr>);
    /// Reads the path in a symbolic link.
    fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>>;
    /// Makes a directory, node, symbolic link or hard link.
    fn make(&self, parent: NodeId, name: &OsStr, what: Make<'_>) -> Result<(FileAttr, Generation)>;
    /// Removes a name on behalf of a user.
    fn unlink(self: &Arc<Self>, uid: u32, parent: NodeId, name: &OsStr, answer: Answer<ReplyEmpty>);
    /// Removes an empty directory.
    fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<()>;
    /// Renames on behalf of a user.
    fn rename(
        self: &Arc<Self>,
        uid: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: RenameFlags,
        answer: Answer<ReplyEmpty>,
    );

    /// Opens a file.
    fn open(self: &Arc<Self>, caller: Caller, id: NodeId, flags: OFlags, answer: Answer<ReplyOpen>);
    /// Creates and opens a file. The kernel checks no permission of the opened file, so a name that exists is `STALE`,
    /// which makes the kernel look it up; with `O_EXCL` it is `EXIST`.
    fn create(
        self: &Arc<Self>,
        caller: Caller,
        at: (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        answer: Answer<ReplyCreate>,
    );
    /// Returns bytes of an open file, fewer only at its end.
    fn read(self: &Arc<Self>, request: ReadRequest, answer: Answer<ReplyData>);
    /// Writes bytes to an open file.
    fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], answer: Answer<ReplyWrite>);
    /// Handles a close(2) of a descriptor, of which an open may have several.
    fn flush(self: &Arc<Self>, id: NodeId, handle: u64, by: ClosedBy, answer: Answer<ReplyEmpty>);
    /// Takes or releases a lock. Called only if the file system requested lock calls from the kernel.
    fn lock(self: &Arc<Self>, _request: LockRequest, answer: Answer<ReplyEmpty>) {
        answer.give(Err(Errno::NOSYS));
    }
    /// Returns the lock that conflicts with the requested one.
    fn test_lock(self: &Arc<Self>, _request: LockRequest, answer: Answer<ReplyLock>) {
        answer.give(Err(Errno::NOSYS));
    }
    /// Releases an open, after its last descriptor is closed.
    fn release(self: &Arc<Self>, id: NodeId, handle: u64, answer: Answer<ReplyEmpty>);
    /// Makes a file durable; with `data_only` only its bytes and the metadata to read them.
    fn sync(self: &Arc<Self>, id: NodeId, handle: u64, data_only: bool, answer: Answer<ReplyEmpty>);
    /// Reserves, punches or zeroes a range, given by its offset and length.
    fn allocate(
        self: &Arc<Self>,
        file: (NodeId, u64),
        range: (u64, u64),
        mode: FallocateFlags,
        answer: Answer<ReplyEmpty>,
    );
    /// Finds data or a hole.
    fn seek(self: &Arc<Self>, file: (NodeId, u64), offset: u64, whence: Whence, answer: Answer<ReplyLseek>);
    /// Copies between two opens, each with an offset.
    fn copy(self: &Arc<Self>, _from: (u64, u64), _to: (u64, u64), _len: u64, answer: Answer<ReplyWrite>) {
        answer.give(Err(Errno::NOSYS));
    }

    /// Opens a directory for a user.
    fn open_directory(&self, uid: u32, id: NodeId) -> Result<u64>;
    /// Calls `read` with the listing of an open directory; `read` may be called again after a failure.
    fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()>;
    /// Releases an open directory.
    fn close_directory(&self, handle: u64);
    /// Makes the names of an open directory durable.
    fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>);

    /// Returns total and free space.
    fn space(&self) -> Result<StatVfs>;
    /// As [`FileSystem::space`], but may wait for newer figures.
    fn statfs(self: &Arc<Self>, _uid: u32, answer: Answer<ReplyStatfs>) {
        answer.give(self.space());
    }
    /// Reads an extended attribute.
    fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>>;
    /// Lists the extended attributes, each name ended by a zero byte.
    fn attribute_names(&self, id: NodeId) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn set_attribute(
        self: &Arc<Self>,
        caller: Caller,
        id: NodeId,
        attribute: (&OsStr, &[u8]),
        flags: XattrFlags,
        answer: Answer<ReplyEmpty>,
    );
    /// Removes an extended attribute.
    fn remove_attribute(&self, caller: Caller, id: NodeId, name: &OsStr) -> Result<()>;
}

/// Kind of inode or link to make under a name.
#[derive(Clone, Copy, Debug)]
pub enum Make<'a> {
    /// A directory with a mode.
    Directory(Caller, u32),
    /// A file, pipe, socket or device with a mode and a device number.
    Node(Caller, u32, u64),
    /// A symbolic link to a path.
    Symlink(Caller, &'a OsStr),
    /// Another name of a node.
    Link(NodeId),
}

impl Make<'_> {
    /// Makes the inode or link in a namespace.
    pub fn in_namespace(self, namespace: &Namespace, parent: NodeId, name: &OsStr) -> Made {
        match self {
            Make::Directory(caller, mode) => namespace.make_directory(caller, parent, name, mode),
            Make::Node(caller, mode, device) => namespace.make_node(caller, parent, name, mode, device),
            Make::Symlink(caller, target) => namespace.make_symlink(caller, parent, name, target),
            Make::Link(id) => namespace.link(id, parent, name),
        }
    }
}

/// Kind of range that `lseek` finds.
#[derive(Clone, Copy, Debug)]
pub enum Whence {
    /// The next data.
    Data,
    /// The next hole.
    Hole,
}

impl Whence {
    /// Returns the argument of the system call.
    pub fn at(self, offset: u64) -> SeekFrom {
        match self {
            Whence::Data => SeekFrom::Data(offset),
            Whence::Hole => SeekFrom::Hole(offset),
        }
    }
}
