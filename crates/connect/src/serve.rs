//! The served file system: [`super::names`] handles names, [`super::file`] handles bytes; both may wait.

mod bytes;
mod entries;
mod modes;
mod pages;

use crate::file::{OpenFile, World};
use crate::names::{Looked, Names};
use crate::options::Options;
use crate::readers::{ReaderPool, Took, WATCH};
use crate::status::ATTRIBUTE;
use engine::stats::Op;
use entries::is_there;
use fuser::{
    FileAttr, Generation, InitFlags, Notifier, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLseek, ReplyOpen,
    ReplyWrite,
};
use meta::namespace::attributes::ACL;
use meta::namespace::{Caller, Listing, Namespace, NodeId, ROOT};
use node::mount::answer::{Answer, Changes, Ttl};
use node::mount::convert::attributes;
use node::mount::front::{ClosedBy, FileSystem, Make, ReadRequest, Wanted, Whence, WriteRequest};
use node::mount::handles::Handles;
use parking_lot::Mutex;
use policy::connections::Operation;
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, Stat, StatVfs, XattrFlags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of background requests of the kernel, such as read-ahead.
const BACKGROUND_MAX: u16 = 256;

/// State shared by all requests.
pub(crate) struct Shared {
    world: Arc<World>,
    names: Arc<Names<Namespace>>,
    options: Options,
    handles: Handles<bytes::Handle>,
    /// Open files by node: the only way to one without a name.
    open: Mutex<HashMap<NodeId, Vec<Arc<OpenFile>>>>,
    modes: Mutex<modes::Modes>,
    directories: Handles<entries::Directory>,
    readers: Arc<ReaderPool>,
    /// Whether opens may be passed through: by the options, until the kernel refuses a backing file.
    passthrough: AtomicBool,
    pages: pages::Pages,
}

impl Shared {
    pub fn new(world: Arc<World>, names: Arc<Names<Namespace>>, options: Options) -> Shared {
        let passthrough = AtomicBool::new(options.passes_through());
        Shared {
            world,
            names,
            options,
            handles: Handles::default(),
            open: Mutex::default(),
            modes: Mutex::default(),
            directories: Handles::default(),
            readers: ReaderPool::new(std::thread::available_parallelism().map_or(2, |n| n.get().max(2)), WATCH),
            passthrough,
            pages: pages::Pages::default(),
        }
    }

    /// Sets the channel by which pages are dropped. It is set before the first request, so no page is older.
    pub fn set_notifier(&self, notifier: Notifier) {
        self.pages.set_notifier(notifier);
    }
}

impl FileSystem for Shared {
    type Passing<'a> = Took<'a>;

    fn passing(self: &Arc<Self>, op: Option<Op>) -> Took<'_> {
        match op {
            Some(Op::Read | Op::Write) => self.readers.took(),
            _ => self.readers.took_long(),
        }
    }

    fn wanted(&self) -> Wanted {
        let mut capabilities = vec![
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        capabilities.extend(self.names.tree.has_acls().then_some(InitFlags::FUSE_POSIX_ACL));
        capabilities.extend(self.options.passes_through().then_some(InitFlags::FUSE_PASSTHROUGH));
        Wanted { capabilities, read_ahead_bytes: self.options.read_ahead_bytes(), background_max: BACKGROUND_MAX }
    }

    fn cannot_pass_through(&self) {
        self.passthrough.store(false, Ordering::Relaxed);
    }

    fn ttl(&self) -> Ttl {
        let timeout = self.options.timeout;
        Ttl { entry: timeout, directory_entry: timeout, attr: timeout, directory: timeout }
    }

    fn shown(&self, id: NodeId, stat: Stat) -> FileAttr {
        attributes(id, &self.settled(id, stat))
    }

    fn lookup(self: &Arc<Self>, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)> {
        let (node, stat) = self.ask(|tree| tree.lookup(parent, name))?;
        Ok((self.shown(node.id, stat), Generation(node.generation())))
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.names.tree.forget(id, count);
    }

    fn attributes(&self, id: NodeId, _handle: Option<u64>) -> Result<FileAttr> {
        self.stat(id).map(|stat| attributes(id, &stat))
    }

    fn change(self: &Arc<Self>, caller: Caller, id: NodeId, changes: Changes, answer: Answer<ReplyAttr>) {
        let changed = Shared::change(self, caller, id, &changes).and_then(|()| self.stat(id));
        answer.give(changed.map(|stat| attributes(id, &stat)));
    }

    fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>> {
        self.ask(|tree| tree.read_symlink(id))
    }

    fn make(&self, parent: NodeId, name: &OsStr, what: Make<'_>) -> Result<(FileAttr, Generation)> {
        let make = |tree: &Namespace| what.in_namespace(tree, parent, name);
        let look = |tree: &Namespace| entries::absent(tree, parent, name);
        let (node, stat) = self.names.run_or_look(Operation::Make, make, look)?;
        Ok((attributes(node.id, &stat), Generation(node.generation())))
    }

    fn unlink(self: &Arc<Self>, _uid: u32, parent: NodeId, name: &OsStr, answer: Answer<ReplyEmpty>) {
        answer.give(self.unmake(parent, name, |tree| tree.unlink(parent, name).map(drop)));
    }

    fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        self.unmake(parent, name, |tree| tree.remove_directory(parent, name).map(drop))
    }

    fn rename(
        self: &Arc<Self>,
        _uid: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: RenameFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        let rename = |tree: &Namespace| tree.rename(from.0, from.1, to.0, to.1, flags).map(|_| ());
        let look = |tree: &Namespace| match (is_there(tree, from.0, from.1), is_there(tree, to.0, to.1)) {
            (Ok(true), _) if !flags.contains(RenameFlags::EXCHANGE) => Looked::NotDone,
            (Ok(false), Ok(true)) => Looked::Done(()),
            _ => Looked::Unknown,
        };
        answer.give(self.names.run_or_look(Operation::Unmake, rename, look));
    }

    fn open(self: &Arc<Self>, caller: Caller, id: NodeId, flags: OFlags, answer: Answer<ReplyOpen>) {
        let handle = self.opened(id, flags, caller.thread, |fd| answer.register(fd));
        answer.give(handle.map(|handle| self.entered(handle, flags)));
    }

    fn create(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        answer: Answer<ReplyCreate>,
    ) {
        let made = self.made(caller, parent, name, mode, flags).and_then(|(node, stat)| {
            let handle = self.opened(node.id, flags, caller.thread, |fd| answer.register(fd));
            let handle = handle.inspect_err(|_| self.names.tree.forget(node.id, 1))?;
            Ok((attributes(node.id, &stat), Generation(node.generation()), self.entered(handle, flags)))
        });
        answer.give(made);
    }

    fn read(self: &Arc<Self>, request: ReadRequest, answer: Answer<ReplyData>) {
        match self.handle(request.handle) {
            Ok(handle) => {
                let done = Box::new(move |read: Result<&[u8]>| answer.give(read));
                handle.file.begin_read(&self.world, request.offset, request.len, done);
            }
            Err(error) => answer.give(Err(error)),
        }
    }

    fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], answer: Answer<ReplyWrite>) {
        match self.written(&request, data) {
            Ok(unsent) => {
                answer.give(Ok(data.len()));
                // The writer goes on during the send.
                unsent.into_iter().for_each(|unsent| unsent.send(&self.world));
            }
            Err(error) => answer.give(Err(error)),
        }
    }

    fn flush(self: &Arc<Self>, _id: NodeId, handle: u64, by: ClosedBy, answer: Answer<ReplyEmpty>) {
        answer.give(self.handle(handle).and_then(|handle| handle.file.flush(&self.world, by.thread)));
    }

    fn release(self: &Arc<Self>, _id: NodeId, handle: u64, answer: Answer<ReplyEmpty>) {
        Shared::release(self, handle);
        answer.give(Ok(()));
    }

    fn sync(self: &Arc<Self>, _id: NodeId, handle: u64, data_only: bool, answer: Answer<ReplyEmpty>) {
        answer.give(self.handle(handle).and_then(|handle| handle.file.sync(&self.world, data_only)));
    }

    fn allocate(
        self: &Arc<Self>,
        (_, handle): (NodeId, u64),
        range: (u64, u64),
        mode: FallocateFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        answer.give(self.handle(handle).and_then(|handle| handle.allocate(&self.world, range, mode)));
    }

    fn seek(self: &Arc<Self>, (_, handle): (NodeId, u64), offset: u64, whence: Whence, answer: Answer<ReplyLseek>) {
        let seek = |fd: BorrowedFd<'_>| rustix::fs::seek(fd, whence.at(offset));
        answer.give(self.handle(handle).and_then(|handle| handle.file.run(&self.world, seek)));
    }

    fn open_directory(&self, _uid: u32, id: NodeId) -> Result<u64> {
        let listing = Mutex::new(self.ask(|tree| tree.list(id))?);
        Ok(self.directories.insert(Arc::new(entries::Directory { id, listing })))
    }

    fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()> {
        self.listed(handle, read)
    }

    fn close_directory(&self, handle: u64) {
        self.directories.remove(handle);
    }

    fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>) {
        answer.give(match self.listed(handle, &mut |listing, _| listing.sync()) {
            // Some file systems need no sync of a directory, and return an error.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            done => done,
        });
    }

    fn space(&self) -> Result<StatVfs> {
        self.ask(Namespace::space)
    }

    /// Adds our own attribute of the mount point: the state of the connections.
    fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        if id == ROOT && name == ATTRIBUTE {
            return serde_json::to_vec(&self.world.status()).map_err(|_| Errno::IO);
        }
        self.ask(|tree| tree.attribute(id, name))
    }

    fn attribute_names(&self, id: NodeId) -> Result<Vec<u8>> {
        self.ask(|tree| tree.attributes(id))
    }

    fn set_attribute(
        self: &Arc<Self>,
        caller: Caller,
        id: NodeId,
        (name, value): (&OsStr, &[u8]),
        flags: XattrFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        if id == ROOT && name == ATTRIBUTE {
            return answer.give(Err(Errno::PERM));
        }
        let operation = if flags.is_empty() { Operation::Write } else { Operation::Make };
        let mut done = self.names.run(operation, |tree| tree.set_attribute(id, name, value, flags));
        if done.is_ok() && name == ACL {
            done = self.names.run(Operation::Write, |tree| tree.hold(id, None)?.drop_setgid(caller));
        }
        answer.give(done);
    }

    fn remove_attribute(&self, _caller: Caller, id: NodeId, name: &OsStr) -> Result<()> {
        self.names.run(Operation::Unmake, |tree| tree.remove_attribute(id, name))
    }
}
