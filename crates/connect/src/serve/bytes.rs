//! Open files and their bytes.

use super::Shared;
use super::entries::{absent, is_there};
use crate::file::{OpenFile, Place, Unsent, World};
use fuser::{BackingId, FopenFlags};
use meta::namespace::{Caller, Node, NodeId};
use node::mount::answer::Opened;
use node::mount::front::WriteRequest;
use policy::connections::Operation;
use rustix::fs::{FallocateFlags, OFlags, Stat};
use rustix::io::{Errno, Result, retry_on_intr};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Limit of attempts to create a file whose name other clients create and remove. A guess.
const CREATIONS_MAX: usize = 4;

/// One open of a file.
pub(super) struct Handle {
    pub file: Arc<OpenFile>,
    /// Passthrough registration, kept while the kernel uses it.
    backing: Option<Arc<BackingId>>,
}

impl Handle {
    pub fn allocate(&self, world: &World, (offset, len): (u64, u64), mode: FallocateFlags) -> Result<()> {
        let twice = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !twice.contains(mode) {
            return Err(Errno::OPNOTSUPP); // inserting and collapsing a range cannot be repeated
        }
        self.file.run(world, |fd| retry_on_intr(|| rustix::fs::fallocate(fd, mode, offset, len)))
    }
}

impl Shared {
    pub(super) fn handle(&self, handle: u64) -> Result<Arc<Handle>> {
        self.handles.get(handle).ok_or(Errno::BADF)
    }

    /// Registers an open and returns its handle number.
    pub(super) fn entered(&self, handle: Handle, flags: OFlags) -> Opened {
        let backing = handle.backing.clone();
        let flags = if backing.is_some() { FopenFlags::empty() } else { self.fopen(flags) };
        Opened { handle: self.handles.insert(Arc::new(handle)), flags, backing }
    }

    /// Creates a file. The kernel checks no permission of a file opened by its creation. If the name exists by now, the
    /// kernel has to look it up: `STALE`, or `EXIST` with `O_EXCL`, which is sent to the server once, over one
    /// connection.
    pub fn made(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
    ) -> Result<(Arc<Node>, Stat)> {
        let names = &self.names;
        let create = |tree: &meta::namespace::Namespace| {
            tree.create(caller, parent, name, mode).map(|(node, stat, _)| (node, stat))
        };
        let mut tries = 1..CREATIONS_MAX;
        loop {
            let created = names.run_or_look(Operation::Make, create, |tree| absent(tree, parent, name));
            let error = match created {
                Err(error @ (Errno::EXIST | Errno::IO)) if !flags.contains(OFlags::EXCL) => error,
                made => return made,
            };
            if names.run(Operation::Read, |tree| is_there(tree, parent, name))? {
                return Err(Errno::STALE);
            }
            if tries.next().is_none() {
                return Err(if error == Errno::EXIST { Errno::STALE } else { error });
            }
        }
    }

    pub(super) fn opened(
        &self,
        id: NodeId,
        flags: OFlags,
        thread: u32,
        register: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<BackingId>,
    ) -> Result<Handle> {
        let file = OpenFile::open(&self.world, id, flags, thread)?;
        let turn = self.pages.turn(id);
        if !self.open.lock().contains_key(&id) {
            self.pages.drop_of(id);
        }
        self.open.lock().entry(id).or_default().push(file.clone());
        drop(turn);
        let pass = || {
            // A passthrough descriptor opened with `O_APPEND` keeps appending, even if the application clears the
            // flag.
            if flags.contains(OFlags::APPEND) || !self.passthrough.load(Ordering::Relaxed) {
                return None;
            }
            let fd = file.for_kernel(&self.world).ok()?;
            match register(fd.as_fd()) {
                Ok(backing) => Some(backing),
                Err(error) => {
                    tracing::info!(%error, "the kernel refuses passthrough to this daemon; going on without");
                    self.passthrough.store(false, Ordering::Relaxed);
                    None
                }
            }
        };
        let backing = self.modes.lock().enter(id, pass);
        Ok(Handle { file, backing })
    }

    pub fn release(&self, number: u64) {
        let Some(handle) = self.handles.remove(number) else { return };
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

    pub fn written(&self, by: &WriteRequest, data: &[u8]) -> Result<Option<Unsent>> {
        let handle = self.handle(by.handle)?;
        if let Some(caller) = by.drops {
            let id = handle.file.id;
            let dropped = self.names.run(Operation::Write, |tree| tree.hold(id, None)?.drop_privileges(caller));
            // An unlinked file cannot be executed, so its privileges do not matter.
            dropped.or_else(|error| if matches!(error, Errno::NOENT | Errno::STALE) { Ok(()) } else { Err(error) })?;
        }
        let place = if by.appends { Place::End(by.offset) } else { Place::At(by.offset) };
        let unsent = handle.file.write(&self.world, by.thread, place, data, by.sync.is_some())?;
        if let Some(data_only) = by.sync {
            handle.file.sync(&self.world, data_only)?;
        }
        Ok(unsent)
    }

    /// Returns how the kernel treats an open: through its page cache. With `O_DIRECT` it also drops the pages after a
    /// write. A close is sent to us only if a write may be on its way.
    fn fopen(&self, flags: OFlags) -> FopenFlags {
        let writes = flags & OFlags::RWMODE != OFlags::RDONLY && self.world.writes.is_on();
        let flush = if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        FopenFlags::FOPEN_KEEP_CACHE | flush
    }
}
