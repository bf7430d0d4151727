//! The FUSE operations: names and attributes come from the backing directory; bytes wait for the emulated device.

mod bytes;
mod names;

use crate::extents::Extents;
use crate::figures::Figures;
use crate::options::Options;
use crate::spindle::Spindle;
use engine::stats::Op;
use fuser::{FileAttr, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLseek, ReplyOpen, ReplyWrite};
use meta::namespace::{Caller, Listing, Namespace, NodeId};
use node::mount::answer::{Answer, Changes, Ttl};
use node::mount::convert::attributes;
use node::mount::front::{ClosedBy, FileSystem, Make, REQUEST_BYTES_MAX, ReadRequest, Wanted, Whence, WriteRequest};
use node::mount::handles::Handles;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, Stat, StatVfs, XattrFlags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;

/// Maximum of background requests that the kernel sends at once.
const BACKGROUND_MAX: u16 = 256;

/// State of the mount.
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
    /// Contents of each open `.stats`.
    texts: Handles<Vec<u8>>,
}

struct InUse {
    file: Arc<File>,
    users: u64,
    /// Whether its last name is removed: its blocks are freed at the last close.
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

    /// Returns the device's figures since the start.
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

impl FileSystem for Shared {
    type Passing<'a> = ();

    fn passing(self: &Arc<Self>, _op: Option<Op>) {}

    fn wanted(&self) -> Wanted {
        // Not FUSE_DIRECT_IO_ALLOW_MMAP: pages of a shared mapping would overwrite data written past the page cache.
        // So without the page cache there is no shared mapping.
        let capabilities = Vec::new();
        Wanted { capabilities, read_ahead_bytes: REQUEST_BYTES_MAX, background_max: BACKGROUND_MAX }
    }

    fn ttl(&self) -> Ttl {
        Ttl { entry: names::TTL, directory_entry: names::TTL, attr: names::TTL, directory: names::TTL }
    }

    fn shown(&self, id: NodeId, stat: Stat) -> FileAttr {
        attributes(id, &stat)
    }

    fn lookup(self: &Arc<Self>, parent: NodeId, name: &OsStr) -> Result<(FileAttr, Generation)> {
        Shared::lookup(self, parent, name)
    }

    fn forget(&self, id: NodeId, count: u64) {
        self.namespace.forget(id, count);
    }

    fn attributes(&self, id: NodeId, _handle: Option<u64>) -> Result<FileAttr> {
        self.stat(id)
    }

    fn change(self: &Arc<Self>, _caller: Caller, id: NodeId, changes: Changes, answer: Answer<ReplyAttr>) {
        answer.give(Shared::change(self, id, &changes).and_then(|()| self.stat(id)));
    }

    fn read_symlink(&self, id: NodeId) -> Result<Vec<u8>> {
        self.namespace.read_symlink(id)
    }

    fn make(&self, parent: NodeId, name: &OsStr, what: Make<'_>) -> Result<(FileAttr, Generation)> {
        self.not_virtual(parent, name)?;
        let (node, stat) = what.in_namespace(&self.namespace, parent, name)?;
        Ok((attributes(node.id, &stat), Generation(node.generation())))
    }

    fn unlink(self: &Arc<Self>, _uid: u32, parent: NodeId, name: &OsStr, answer: Answer<ReplyEmpty>) {
        answer.give(Shared::unlink(self, parent, name));
    }

    fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        self.namespace.remove_directory(parent, name).map(drop)
    }

    fn rename(
        self: &Arc<Self>,
        _uid: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: RenameFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        answer.give(Shared::rename(self, from, to, flags));
    }

    fn open(self: &Arc<Self>, _caller: Caller, id: NodeId, _flags: OFlags, answer: Answer<ReplyOpen>) {
        answer.give(Shared::open(self, id));
    }

    fn create(
        self: &Arc<Self>,
        caller: Caller,
        at: (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        answer: Answer<ReplyCreate>,
    ) {
        answer.give(Shared::create(self, caller, at, mode, flags));
    }

    fn read(self: &Arc<Self>, request: ReadRequest, answer: Answer<ReplyData>) {
        Shared::read(self, request, answer);
    }

    fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], answer: Answer<ReplyWrite>) {
        Shared::write(self, request, data, answer);
    }

    fn flush(self: &Arc<Self>, _id: NodeId, _handle: u64, _by: ClosedBy, answer: Answer<ReplyEmpty>) {
        answer.give(Ok(()));
    }

    fn release(self: &Arc<Self>, id: NodeId, handle: u64, answer: Answer<ReplyEmpty>) {
        Shared::release(self, id, handle);
        answer.give(Ok(()));
    }

    fn sync(self: &Arc<Self>, id: NodeId, _handle: u64, data_only: bool, answer: Answer<ReplyEmpty>) {
        answer.give(Shared::sync(self, id, data_only));
    }

    fn allocate(
        self: &Arc<Self>,
        (id, _): (NodeId, u64),
        range: (u64, u64),
        mode: FallocateFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        answer.give(Shared::allocate(self, id, range, mode));
    }

    fn seek(self: &Arc<Self>, (id, _): (NodeId, u64), offset: u64, whence: Whence, answer: Answer<ReplyLseek>) {
        let file = self.file(id).ok_or(Errno::BADF);
        answer.give(file.and_then(|file| rustix::fs::seek(&*file, whence.at(offset))));
    }

    fn open_directory(&self, _uid: u32, id: NodeId) -> Result<u64> {
        Ok(self.directories.insert(Arc::new(Mutex::new(self.namespace.list(id)?))))
    }

    fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()> {
        let listing = self.directories.get(handle).ok_or(Errno::BADF)?;
        read(&mut listing.lock(), &self.namespace)
    }

    fn close_directory(&self, handle: u64) {
        self.directories.remove(handle);
    }

    fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>) {
        let listing = self.directories.get(handle).ok_or(Errno::BADF);
        answer.give(listing.and_then(|listing| if self.sync { listing.lock().sync() } else { Ok(()) }));
    }

    fn space(&self) -> Result<StatVfs> {
        Shared::space(self)
    }

    fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        if id == names::STATS_ID { Err(Errno::NODATA) } else { self.namespace.attribute(id, name) }
    }

    fn attribute_names(&self, id: NodeId) -> Result<Vec<u8>> {
        if id == names::STATS_ID { Ok(Vec::new()) } else { self.namespace.attributes(id) }
    }

    fn set_attribute(
        self: &Arc<Self>,
        _caller: Caller,
        id: NodeId,
        (name, value): (&OsStr, &[u8]),
        flags: XattrFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        answer.give(match id {
            names::STATS_ID => Err(Errno::PERM),
            id => self.namespace.set_attribute(id, name, value, flags),
        });
    }

    fn remove_attribute(&self, _caller: Caller, id: NodeId, name: &OsStr) -> Result<()> {
        if id == names::STATS_ID { Err(Errno::PERM) } else { self.namespace.remove_attribute(id, name) }
    }
}
