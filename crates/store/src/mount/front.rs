//! One FUSE server for all our file systems: decodes what the kernel asks, passes it on, and gives the answers.
//!
//! A [`FileSystem`] knows nodes, handles and errors. What never waits for long it returns; for what may, it gets an
//! [`Answer`] to give later, on whichever thread. An answer that is dropped is an I/O error.

mod server;

pub use super::answer::{Answer, Opened};
pub use server::{Mounting, serve};

use super::answer::{Changes, Made, Ttl};
use super::counted::Counted;
use crate::namespace::{Caller, Listing, Namespace, NodeId};
use crate::stats::Op;
use crate::stub::locks::{Bytes, Kind};
use fuser::{
    FileAttr, Generation, InitFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyWrite,
};
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, SeekFrom, Stat, StatVfs, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::sync::Arc;

/// Bytes of one request at most.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// What a file system asks of the kernel at first.
pub struct Wanted {
    /// Beside what all of them ask for.
    pub capabilities: Vec<InitFlags>,
    /// How far the kernel reads ahead.
    pub read_ahead_bytes: u32,
    /// Requests that the kernel sends ahead of anybody waiting for them.
    pub background_max: u16,
}

/// A read of an open file.
pub struct ReadRequest {
    /// Its node.
    pub id: NodeId,
    /// The open.
    pub handle: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
    /// The thread that reads.
    pub thread: u32,
    /// The kernel wants to fill pages of the inode with it: a read for a process names its owner.
    pub for_pages: bool,
}

/// A write to an open file.
pub struct WriteRequest {
    /// Its node.
    pub id: NodeId,
    /// The open.
    pub handle: u64,
    /// First byte.
    pub offset: u64,
    /// The thread that writes.
    pub thread: u32,
    /// The caller, if it may not keep setuid and setgid.
    pub drops: Option<Caller>,
    /// At the end, wherever that is. What the page cache writes back has its place, whatever the handle it comes through.
    pub appends: bool,
    /// To be durable before it is answered, and then whether its data are enough.
    pub sync: Option<bool>,
}

/// Who closed a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct ClosedBy {
    /// The thread.
    pub thread: u32,
    /// The process, as the owner of locks.
    pub owner: u64,
}

/// A lock of an open file that is wanted, asked for, or given back.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// The open.
    pub handle: u64,
    /// For whom: a process, or the open file by itself.
    pub owner: u64,
    /// What.
    pub bytes: Bytes,
    /// How; `None` gives it back.
    pub kind: Option<Kind>,
    /// The process.
    pub process: u32,
    /// The thread that asks.
    pub thread: u32,
    /// It waits until it has the lock.
    pub waits: bool,
}

/// What is served. Nodes that it gives away by name are counted as looked up.
pub trait FileSystem: Send + Sync + Sized + 'static {
    /// Lives while a request is passed on.
    type Passing<'a>;
    /// A request came; of what kind, if it is one that is counted.
    fn passing(self: &Arc<Self>, op: Option<Op>) -> Self::Passing<'_>;
    /// Counts an operation that begins, until it is answered; for a user where the kernel says whose it is.
    fn counted(&self, _op: Op, _user: Option<u32>) -> Option<Counted> {
        None
    }
    /// What to ask of the kernel.
    fn wanted(&self) -> Wanted;
    /// The kernel does not pass files through.
    fn cannot_pass_through(&self) {}
    /// How long the kernel may believe names and attributes.
    fn ttl(&self) -> Ttl;
    /// What is shown of a node whose names were read.
    fn shown(&self, id: NodeId, stat: Stat) -> FileAttr;
    /// All threads have left.
    fn ended(&self) {}

    /// Looks a name up.
    fn lookup(&self, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)>;
    /// The kernel forgets that it looked a node up, so often.
    fn forget(&self, id: NodeId, count: u64);
    /// Attributes; of an open file where the kernel says which.
    fn attributes(&self, id: NodeId, handle: Option<u64>) -> Result<FileAttr>;
    /// Changes attributes.
    fn change(self: &Arc<Self>, caller: Caller, id: NodeId, changes: Changes, answer: Answer<ReplyAttr>);
    /// Where a symbolic link leads.
    fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>>;
    /// Makes something that gets a name.
    fn make(&self, parent: NodeId, name: &OsStr, what: Make<'_>) -> Result<(FileAttr, Generation)>;
    /// Takes a name away for a user.
    fn unlink(self: &Arc<Self>, uid: u32, parent: NodeId, name: &OsStr, answer: Answer<ReplyEmpty>);
    /// Removes an empty directory.
    fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<()>;
    /// Renames for a user.
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
    /// Creates and opens a file; opens it if it is there and that is allowed.
    fn create(
        self: &Arc<Self>,
        caller: Caller,
        at: (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        answer: Answer<ReplyCreate>,
    );
    /// Reads.
    fn read(self: &Arc<Self>, request: ReadRequest, answer: Answer<ReplyData>);
    /// Writes.
    fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], answer: Answer<ReplyWrite>);
    /// A descriptor is closed.
    fn flush(self: &Arc<Self>, id: NodeId, handle: u64, by: ClosedBy, answer: Answer<ReplyEmpty>);
    /// Locks bytes, or gives them back. Asked only by who wants locks to be asked for.
    fn lock(self: &Arc<Self>, _request: LockRequest, answer: Answer<ReplyEmpty>) {
        answer.give(Err(Errno::NOSYS));
    }
    /// Says what is in the way of a lock.
    fn test_lock(self: &Arc<Self>, _request: LockRequest, answer: Answer<ReplyLock>) {
        answer.give(Err(Errno::NOSYS));
    }
    /// An open ended.
    fn release(self: &Arc<Self>, id: NodeId, handle: u64, answer: Answer<ReplyEmpty>);
    /// Makes a file durable; `data_only`: with what is needed to read its bytes.
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
    /// Has names read from where an open directory is; `read` may be called again after it failed.
    fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()>;
    /// An open directory is closed.
    fn close_directory(&self, handle: u64);
    /// Makes the names of an open directory durable.
    fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>);

    /// How much space there is.
    fn space(&self) -> Result<StatVfs>;
    /// An extended attribute.
    fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>>;
    /// The names of all of them, each with a zero at its end.
    fn attribute_names(&self, id: NodeId) -> Result<Vec<u8>>;
    /// Sets one.
    fn set_attribute(
        self: &Arc<Self>,
        caller: Caller,
        id: NodeId,
        attribute: (&OsStr, &[u8]),
        flags: XattrFlags,
        answer: Answer<ReplyEmpty>,
    );
    /// Removes one.
    fn remove_attribute(&self, caller: Caller, id: NodeId, name: &OsStr) -> Result<()>;
}

/// What is to be made under a name.
#[derive(Clone, Copy, Debug)]
pub enum Make<'a> {
    /// A directory with a mode.
    Directory(Caller, u32),
    /// A file, pipe, socket or device with a mode and a device number.
    Node(Caller, u32, u64),
    /// A symbolic link to a path.
    Symlink(Caller, &'a OsStr),
    /// One more name of a node.
    Link(NodeId),
}

impl Make<'_> {
    /// Makes it in a namespace.
    pub fn in_namespace(self, namespace: &Namespace, parent: NodeId, name: &OsStr) -> Made {
        match self {
            Make::Directory(caller, mode) => namespace.make_directory(caller, parent, name, mode),
            Make::Node(caller, mode, device) => namespace.make_node(caller, parent, name, mode, device),
            Make::Symlink(caller, target) => namespace.make_symlink(caller, parent, name, target),
            Make::Link(id) => namespace.link(id, parent, name),
        }
    }
}

/// What `lseek` looks for.
#[derive(Clone, Copy, Debug)]
pub enum Whence {
    /// The next data.
    Data,
    /// The next hole.
    Hole,
}

impl Whence {
    /// From where on, as the system call wants it.
    pub fn at(self, offset: u64) -> SeekFrom {
        match self {
            Whence::Data => SeekFrom::Data(offset),
            Whence::Hole => SeekFrom::Hole(offset),
        }
    }
}
