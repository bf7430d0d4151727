//! Open files and their bytes.

use super::Shared;
use super::modes::Backing;
use crate::file::{OpenFile, Place};
use crate::write_behind::Unsent;
use fuser::{BackingId, FileHandle, FopenFlags, Generation, OpenFlags, ReplyCreate, ReplyData, ReplyOpen, ReplyWrite};
use policy::connections::Operation;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, Stat};
use rustix::io::{Errno, Result, retry_on_intr};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::mount::convert::{attributes, errno};
use store::namespace::{Caller, Node, NodeId};

/// One open of a file.
pub(super) struct Handle {
    file: Arc<OpenFile>,
    /// Kept while the kernel uses it.
    backing: Option<Arc<Backing>>,
}

/// Who writes, and what else is to be done.
pub struct Written {
    pub thread: u32,
    /// Who may not keep setuid and setgid.
    pub drops: Option<Caller>,
    /// At the end, wherever that is.
    pub appends: bool,
    /// To be durable before it is answered, and then whether its data are enough.
    pub sync: Option<bool>,
}

impl Shared {
    fn handle(&self, handle: FileHandle) -> Result<Arc<Handle>> {
        self.handles.get(handle.0).ok_or(Errno::BADF)
    }

    pub fn open(&self, id: NodeId, flags: OpenFlags, thread: u32, reply: ReplyOpen) {
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        match self.opened(id, flags, thread, |fd| reply.open_backing(fd)) {
            Ok(handle) => {
                let backing = handle.backing.clone();
                let number = FileHandle(self.handles.insert(Arc::new(handle)));
                match backing {
                    Some(backing) => reply.opened_passthrough(number, FopenFlags::empty(), &backing.id),
                    None => reply.opened(number, self.fopen(flags)),
                }
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn create(
        &self,
        caller: Caller,
        thread: u32,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OFlags::from_bits_retain(flags as u32);
        let made = self.made(caller, parent, name, mode, flags).and_then(|(node, stat)| {
            let handle = self.opened(node.id, flags, thread, |fd| reply.open_backing(fd));
            let handle = handle.inspect_err(|_| self.world.names.tree().forget(node.id, 1))?;
            Ok((node, stat, handle))
        });
        match made {
            Ok((node, stat, handle)) => {
                let (attr, generation) = (attributes(node.id, &stat), Generation(node.generation()));
                let (ttl, backing) = (&self.options.attr_timeout, handle.backing.clone());
                let number = FileHandle(self.handles.insert(Arc::new(handle)));
                match backing {
                    Some(backing) => {
                        reply.created_passthrough(ttl, &attr, generation, number, FopenFlags::empty(), &backing.id);
                    }
                    None => reply.created(ttl, &attr, generation, number, self.fopen(flags)),
                }
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Creates a file, or finds it if that is allowed. `O_EXCL` is asked of the server once, over one connection.
    fn made(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
    ) -> Result<(Arc<Node>, Stat)> {
        let names = &self.world.names;
        let exclusive = flags.contains(OFlags::EXCL);
        let create = |tree: &store::namespace::Namespace| {
            tree.create(caller, parent, name, mode).map(|(node, stat, _)| (node, stat))
        };
        let created = names.run_or_look(Operation::Make, create, |tree| super::entries::absent(tree, parent, name));
        match created {
            // Whoever made it, it is there.
            Err(Errno::EXIST | Errno::IO) if !exclusive => names.run(Operation::Read, |tree| tree.lookup(parent, name)),
            made => made,
        }
    }

    fn opened(
        &self,
        id: NodeId,
        flags: OFlags,
        thread: u32,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Result<Handle> {
        let file = OpenFile::open(&self.world, id, flags, thread)?;
        self.open.lock().entry(id).or_default().push(file.clone());
        let pass = || {
            // What the kernel opened to append appends for ever, also when the application changes its mind.
            if flags.contains(OFlags::APPEND) || !self.passthrough.load(Ordering::Relaxed) {
                return None;
            }
            let fd = file.for_kernel(&self.world).ok()?;
            match register(fd.as_fd()) {
                Ok(id) => Some(Backing { id, _fd: fd }),
                Err(error) => {
                    tracing::info!(%error, "the kernel does not let this daemon pass files through; going on without");
                    self.passthrough.store(false, Ordering::Relaxed);
                    None
                }
            }
        };
        let backing = self.modes.lock().enter(id, pass);
        Ok(Handle { file, backing })
    }

    pub fn release(&self, number: FileHandle) {
        let Some(handle) = self.handles.remove(number.0) else { return };
        let id = handle.file.id;
        let backing = self.modes.lock().leave(id);
        handle.file.close(&self.world);
        let mut open = self.open.lock();
        if let Some(files) = open.get_mut(&id) {
            files.retain(|file| !Arc::ptr_eq(file, &handle.file));
            if files.is_empty() {
                open.remove(&id);
            }
        }
        drop(open);
        drop((backing, handle));
        self.world.writes.forget(id);
    }

    /// A descriptor is closed: whoever closes is told what became of what was written.
    pub fn flush(&self, handle: FileHandle, thread: u32) -> Result<()> {
        self.handle(handle)?.file.flush(&self.world, thread)
    }

    pub fn read(&self, handle: FileHandle, offset: u64, length: usize, reply: ReplyData) {
        let answer = move |read: Result<&[u8]>| match read {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(errno(error)),
        };
        match self.handle(handle) {
            Ok(handle) => handle.file.begin_read(&self.world, offset, length, Box::new(answer)),
            Err(error) => answer(Err(error)),
        }
    }

    pub fn write(&self, handle: FileHandle, offset: u64, data: &[u8], by: Written, reply: ReplyWrite) {
        match self.written(handle, offset, data, by) {
            Ok(unsent) => {
                reply.written(data.len() as u32);
                // The writer goes on meanwhile.
                unsent.into_iter().for_each(|unsent| unsent.send(&self.world));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn written(&self, handle: FileHandle, offset: u64, data: &[u8], by: Written) -> Result<Option<Unsent>> {
        let handle = self.handle(handle)?;
        if let Some(caller) = by.drops {
            let id = handle.file.id;
            let dropped = self.world.names.run(Operation::Write, |tree| tree.hold(id, None)?.drop_privileges(caller));
            // A file without a name runs for nobody.
            dropped.or_else(|error| if matches!(error, Errno::NOENT | Errno::STALE) { Ok(()) } else { Err(error) })?;
        }
        let place = if by.appends { Place::End(offset) } else { Place::At(offset) };
        let unsent = handle.file.write(&self.world, by.thread, place, data, by.sync.is_some())?;
        if let Some(data_only) = by.sync {
            handle.file.sync(&self.world, data_only)?;
        }
        Ok(unsent)
    }

    pub fn sync(&self, handle: FileHandle, data_only: bool) -> Result<()> {
        self.handle(handle)?.file.sync(&self.world, data_only)
    }

    pub fn allocate(&self, handle: FileHandle, offset: u64, length: u64, mode: i32) -> Result<()> {
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let twice = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !twice.contains(flags) {
            return Err(Errno::OPNOTSUPP); // inserting and collapsing cannot be done again
        }
        let file = &self.handle(handle)?.file;
        file.run(&self.world, |fd| retry_on_intr(|| rustix::fs::fallocate(fd, flags, offset, length)))
    }

    pub fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        let from = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(from),
            libc::SEEK_HOLE => SeekFrom::Hole(from),
            _ => return Err(Errno::INVAL),
        };
        self.handle(handle)?.file.run(&self.world, |fd| rustix::fs::seek(fd, to)).map(|at| at as i64)
    }

    /// How the kernel treats an open: through its page cache, unless the application does not want it. A close is told to us if something
    /// may be on its way then.
    fn fopen(&self, flags: OFlags) -> FopenFlags {
        let writes = flags & OFlags::RWMODE != OFlags::RDONLY && self.world.writes.is_on();
        let mut fopen = if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        if flags.contains(OFlags::DIRECT) {
            fopen |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        }
        fopen
    }
}
