//! Bytes: read from and written to the backing file at once, answered when the emulated device is done.

use super::names::STATS_ID;
use super::{InUse, Shared};
use crate::extents::Full;
use fuser::{FileAttr, FopenFlags, Generation, ReplyData, ReplyWrite};
use meta::namespace::{Caller, NodeId};
use node::mount::answer::{Answer, Opened};
use node::mount::convert::attributes;
use node::mount::front::{ReadRequest, WriteRequest};
use rustix::fs::{FallocateFlags, OFlags, fstat};
use rustix::io::{Errno, Result, pread, retry_on_intr};
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

impl Shared {
    /// Returns the open file of an inode.
    pub(super) fn file(&self, id: NodeId) -> Option<Arc<File>> {
        self.open.lock().get(&id).map(|used| used.file.clone())
    }

    pub fn open(&self, id: NodeId) -> Result<Opened> {
        if id == STATS_ID {
            let text = serde_json::to_vec_pretty(&self.figures()).unwrap_or_default();
            let handle = self.texts.insert(Arc::new([&text[..], b"\n"].concat()));
            return Ok(Opened { flags: FopenFlags::FOPEN_DIRECT_IO, ..Opened::plain(handle) });
        }
        self.user(id, || self.namespace.open_stub(id))?;
        Ok(self.opened(id))
    }

    fn opened(&self, id: NodeId) -> Opened {
        Opened { flags: self.flags(), ..Opened::plain(id) }
    }

    pub fn create(
        &self,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
    ) -> Result<(FileAttr, Generation, Opened)> {
        self.not_virtual(parent, name)?;
        let (node, stat) = match self.namespace.create(caller, parent, name, mode) {
            Ok((node, stat, stub)) => {
                self.user(node.id, || Ok(stub))?;
                (node, stat)
            }
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {
                let (node, stat) = self.namespace.lookup(parent, name)?;
                let used = self.user(node.id, || self.namespace.open_stub(node.id));
                used.inspect_err(|_| self.namespace.forget(node.id, 1))?;
                (node, stat)
            }
            Err(error) => return Err(error),
        };
        Ok((attributes(node.id, &stat), Generation(node.generation()), self.opened(node.id)))
    }

    fn flags(&self) -> FopenFlags {
        if self.page_cache {
            return FopenFlags::FOPEN_KEEP_CACHE; // nothing else changes the backing directory
        }
        FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
    }

    /// Adds a user of an inode; the first one opens it.
    fn user(&self, id: NodeId, open: impl FnOnce() -> Result<OwnedFd>) -> Result<Arc<File>> {
        let mut table = self.open.lock();
        let used = match table.entry(id) {
            Entry::Occupied(used) => used.into_mut(),
            Entry::Vacant(free) => free.insert(InUse { file: Arc::new(File::from(open()?)), users: 0, gone: false }),
        };
        used.users += 1;
        Ok(used.file.clone())
    }

    pub fn release(&self, id: NodeId, handle: u64) {
        if id == STATS_ID {
            self.texts.remove(handle);
            return;
        }
        let mut table = self.open.lock();
        let Some(used) = table.get_mut(&id) else { return };
        used.users -= 1;
        if used.users > 0 {
            return;
        }
        let gone = used.gone;
        // The table stays locked, so that the inode is not opened in between.
        let mut extents = self.extents.lock();
        if gone {
            extents.remove(id)
        } else {
            extents.close(id)
        }
        table.remove(&id);
    }

    /// Handles the removal of an inode's last name.
    pub(super) fn gone(&self, id: NodeId) {
        match self.open.lock().get_mut(&id) {
            Some(used) => used.gone = true,
            None => self.extents.lock().remove(id),
        }
    }

    pub fn read(&self, request: ReadRequest, answer: Answer<ReplyData>) {
        let ReadRequest { id, handle, offset, len, thread, .. } = request;
        if id == STATS_ID {
            let Some(text) = self.texts.get(handle) else { return answer.give(Err(Errno::BADF)) };
            let start = text.len().min(offset as usize);
            return answer.give(Ok(&text[start..text.len().min(start + len)]));
        }
        let read = self.file(id).ok_or(Errno::BADF).and_then(|file| read_all(&file, offset, len));
        match read {
            Ok(bytes) => {
                let runs = self.extents.lock().find(id, offset, bytes.len() as u64);
                self.spindle.submit(&runs, false, thread, Box::new(move || answer.give(Ok(&bytes))));
            }
            Err(error) => answer.give(Err(error)),
        }
    }

    pub fn write(&self, request: WriteRequest, data: &[u8], answer: Answer<ReplyWrite>) {
        let WriteRequest { id, offset, thread, sync, .. } = request;
        let write = || {
            let file = self.file(id).ok_or(Errno::BADF)?;
            let runs = self.extents.lock().place(id, offset, data.len() as u64).map_err(no_space)?;
            file.write_all_at(data, offset).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            sync.map_or(Ok(()), |data_only| self.sync(id, data_only))?;
            Ok(runs)
        };
        match write() {
            Ok(runs) => {
                let bytes = data.len();
                self.spindle.submit(&runs, true, thread, Box::new(move || answer.give(Ok(bytes))));
            }
            Err(error) => answer.give(Err(error)),
        }
    }

    /// Syncs the backing file. The device has already completed all writes.
    pub fn sync(&self, id: NodeId, data_only: bool) -> Result<()> {
        let Some(file) = self.file(id).filter(|_| self.sync) else { return Ok(()) };
        if data_only { rustix::fs::fdatasync(&*file) } else { rustix::fs::fsync(&*file) }
    }

    pub fn allocate(&self, id: NodeId, (offset, length): (u64, u64), flags: FallocateFlags) -> Result<()> {
        let file = self.file(id).ok_or(Errno::BADF)?;
        let known = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(flags) {
            return Err(Errno::OPNOTSUPP);
        }
        let punches = flags.contains(FallocateFlags::PUNCH_HOLE);
        if !punches {
            self.extents.lock().place(id, offset, length).map_err(no_space)?;
        }
        retry_on_intr(|| rustix::fs::fallocate(&*file, flags, offset, length))?;
        if punches {
            self.extents.lock().punch(id, offset, length);
        }
        Ok(())
    }

    /// Truncates a file, or extends it by a hole.
    pub(super) fn resize(&self, id: NodeId, size: u64) -> Result<()> {
        let file = match self.file(id) {
            Some(file) => file,
            None => Arc::new(File::from(self.namespace.open_stub(id)?)),
        };
        let before = fstat(&*file)?.st_size as u64;
        retry_on_intr(|| rustix::fs::ftruncate(&*file, size))?;
        if size < before {
            self.extents.lock().truncate(id, size);
        }
        Ok(())
    }
}

fn no_space(_: Full) -> Errno {
    Errno::NOSPC
}

/// Reads until `length` bytes are read or the file ends.
fn read_all(file: &File, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut got = 0;
    while got < length {
        match retry_on_intr(|| pread(file, &mut bytes[got..], offset + got as u64))? {
            0 => break,
            n => got += n,
        }
    }
    bytes.truncate(got);
    Ok(bytes)
}
