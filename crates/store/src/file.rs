//! A file of the volume: reads and writes split by its layout, its size, its growth, its mirrors.
//!
//! One [`File`] per inode, shared by all who use it: open handles of the mount, mover, repair, staging. `FileTable` sees to that.

mod pool;
mod table;

pub use pool::{Event, Garbage, MirrorWrites, Observer, Pool, Recover, Unobserved};
pub use table::FileTable;

use crate::Result;
use crate::stub::Stub;
use crate::target::TargetError;
use policy::layout::{Layout, Placement, Reason};
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// One file. See the module.
pub struct File {
    pool: Arc<Pool>,
    stub: Arc<dyn Stub>,
}

/// A range that can be read from one object on the caller's thread.
pub struct FastPiece {
    /// First byte in the object.
    pub object_offset: u64,
    /// Bytes.
    pub len: usize,
}

/// Lets the kernel read or write the one object of a file by itself; pins the layout while it lives.
pub struct PassthroughGuard(Arc<File>);

/// What one open handle has seen of the failures to make the file durable: each is reported to it once.
#[derive(Debug, Default)]
pub struct SyncCursor(std::sync::atomic::AtomicU64);

#[allow(missing_docs, unused_variables, clippy::todo)]
impl File {
    /// Opens the file behind a stub. Prefer [`FileTable::get_or_open`].
    pub fn open(stub: Arc<dyn Stub>, pool: Arc<Pool>) -> Result<Arc<File>> {
        todo!()
    }
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
    pub fn stub(&self) -> &Arc<dyn Stub> {
        &self.stub
    }
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read(self: &Arc<Self>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        todo!()
    }
    pub fn write(self: &Arc<Self>, offset: u64, data: &[u8]) -> Result<()> {
        todo!()
    }
    /// Writes at the end; gives the offset where.
    pub fn append(self: &Arc<Self>, data: &[u8]) -> Result<u64> {
        todo!()
    }
    pub fn size(&self) -> u64 {
        todo!()
    }
    /// Bytes of space that stub and objects take.
    pub fn allocated(&self) -> u64 {
        todo!()
    }
    pub fn truncate(self: &Arc<Self>, size: u64) -> Result<()> {
        todo!()
    }
    /// Frees a range; the size stays.
    pub fn punch(self: &Arc<Self>, offset: u64, len: u64) -> Result<()> {
        todo!()
    }
    /// Makes a range zero, growing the file unless `keep_size`.
    pub fn zero(self: &Arc<Self>, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        todo!()
    }
    pub fn allocate(self: &Arc<Self>, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        todo!()
    }
    /// `NXIO` as an error when there is none.
    pub fn seek_data(self: &Arc<Self>, offset: u64) -> Result<u64> {
        todo!()
    }
    pub fn seek_hole(self: &Arc<Self>, offset: u64) -> Result<u64> {
        todo!()
    }
    /// A cursor for a handle that is being opened now.
    pub fn sync_cursor(&self) -> SyncCursor {
        todo!()
    }
    /// Makes everything acknowledged durable. Reports each earlier failure to each cursor once.
    pub fn sync(self: &Arc<Self>, data_only: bool, cursor: &SyncCursor) -> Result<()> {
        todo!()
    }
    /// Brings times (and, after passthrough writes, the size) into the stub.
    pub fn settle(&self) -> Result<()> {
        todo!()
    }
    /// Modification time in nanoseconds since 1970 where it is not yet in the stub.
    pub fn modified_ns(&self) -> Option<u64> {
        todo!()
    }
    /// Somebody set the times of the stub explicitly: forget what was pending.
    pub fn times_set(&self) {
        todo!()
    }
    /// Copies bytes between files; gives how many.
    pub fn copy_range(self: &Arc<Self>, from: &Arc<File>, off_in: u64, off_out: u64, len: u64) -> Result<u64> {
        todo!()
    }
    /// The layout; `None` while the bytes are in the stub.
    pub fn layout(&self) -> Option<Arc<Layout>> {
        todo!()
    }
    /// How the file will be laid out when it grows (inherited from its directory); not remembered on disk.
    pub fn set_placement(&self, placement: Placement) {
        todo!()
    }
    /// Lays out an empty file as asked (the virtual attribute). `Busy` unless empty.
    pub fn set_layout_request(self: &Arc<Self>, placement: &Placement) -> Result<()> {
        todo!()
    }
    /// Lays out an empty file whose final size is known (stage-in).
    pub fn lay_out(self: &Arc<Self>, size: u64, placement: &Placement, reason: Reason) -> Result<Arc<Layout>> {
        todo!()
    }
    /// Replaces the layout by what `f` makes of it (repair, mover): no writer is inside meanwhile; generation and history are kept here.
    pub fn change_layout(&self, reason: Reason, f: &mut dyn FnMut(&Layout) -> Result<Layout>) -> Result<Arc<Layout>> {
        todo!()
    }
    /// The source record (text), as in the stub.
    pub fn source(&self) -> Result<Option<String>> {
        todo!()
    }
    pub fn set_source(&self, record: Option<&str>) -> Result<()> {
        todo!()
    }
    /// After the last unlink and close: removes the objects, or notes them as garbage where the target is away.
    pub fn remove_objects(&self) -> Result<()> {
        todo!()
    }
    /// When `[offset, offset+len)` (cut at the end of the file) is one piece on one healthy target: where to read it.
    pub fn fast_read(&self, offset: u64, len: usize) -> Option<FastPiece> {
        todo!()
    }
    /// After reading a piece: whether what was read may be answered.
    pub fn still_valid(&self, piece: &FastPiece) -> bool {
        todo!()
    }
    /// Writes on the caller's thread when the range is one piece on one healthy target of a file with one mirror; `None` when it is not: use `write`.
    pub fn write_inline(self: &Arc<Self>, offset: u64, data: &[u8]) -> Option<Result<()>> {
        todo!()
    }
    /// The right to let the kernel do the I/O on the one object; `None` when the file is not that simple.
    pub fn passthrough(self: &Arc<Self>, write: bool) -> Option<PassthroughGuard> {
        todo!()
    }
    /// After a crash, for files found in the namespace's `open` directory: settles size, marks mirrors for resync, removes the mark.
    pub fn settle_after_crash(self: &Arc<Self>) -> Result<()> {
        todo!()
    }
}

#[allow(unused_variables)]
impl FastPiece {
    /// Reads it on this thread; fewer bytes than `len` mean zeros.
    pub fn read(&self, buf: &mut [u8]) -> std::result::Result<usize, TargetError> {
        todo!()
    }
}

impl PassthroughGuard {
    /// The object's file, to be registered with the kernel.
    pub fn fd(&self) -> BorrowedFd<'_> {
        todo!()
    }
    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.0
    }
}
