//! Media and stubs that stop answering when the daemon dies: from the n-th I/O of the whole world on.

use policy::layout::Layout;
use policy::{FileId, ObjectId, Time};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::Result;
use store::stub::memory::MemoryStub;
use store::stub::{Mark, Stub};
use store::target::{Handle, Medium, MemoryMedium, Space};

/// Counts down to the end. At 1 the power is off; 0 is no end in sight.
#[derive(Default)]
pub struct Power(AtomicU64, AtomicBool);

impl Power {
    /// Off now.
    pub fn cut(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    /// Off after `n` more I/Os.
    pub fn cut_after(&self, n: u64) {
        self.0.store(n + 2, Ordering::SeqCst);
    }

    /// From now on objects say that they are synced and are not: a fault that the checker must find.
    pub fn lie_about_syncs(&self) {
        self.1.store(true, Ordering::SeqCst);
    }

    /// On.
    pub fn restore(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    fn use_some(&self) -> std::result::Result<(), Errno> {
        match self.0.load(Ordering::SeqCst) {
            0 => Ok(()),
            1 => Err(Errno::IO),
            n => {
                self.0.store(n - 1, Ordering::SeqCst);
                if n == 2 { Err(Errno::IO) } else { Ok(()) }
            }
        }
    }
}

/// A medium on that power.
pub struct PoweredMedium(MemoryMedium, Arc<Power>);

impl PoweredMedium {
    pub fn new(medium: MemoryMedium, power: Arc<Power>) -> PoweredMedium {
        PoweredMedium(medium, power)
    }

    fn handle(&self, handle: Arc<dyn Handle>) -> Arc<dyn Handle> {
        Arc::new(PoweredHandle(handle, self.1.clone()))
    }
}

struct PoweredHandle(Arc<dyn Handle>, Arc<Power>);

type Io<T> = std::result::Result<T, Errno>;

impl Medium for PoweredMedium {
    fn create(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        self.1.use_some()?;
        self.0.create(id).map(|h| self.handle(h))
    }
    fn open(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        self.1.use_some()?;
        self.0.open(id).map(|h| self.handle(h))
    }
    fn remove(&self, id: ObjectId) -> Io<()> {
        self.1.use_some()?;
        self.0.remove(id)
    }
    fn sync_names(&self) -> Io<()> {
        self.1.use_some()?;
        self.0.sync_names()
    }
    fn list(&self) -> Io<Vec<ObjectId>> {
        self.0.list()
    }
    fn probe(&self) -> Io<()> {
        self.0.probe()
    }
    fn space(&self) -> Io<Space> {
        self.0.space()
    }
}

impl Handle for PoweredHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Io<usize> {
        self.1.use_some()?;
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Io<()> {
        self.1.use_some()?;
        self.0.write_at(offset, data)
    }
    fn set_len(&self, len: u64) -> Io<()> {
        self.1.use_some()?;
        self.0.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> Io<()> {
        self.1.use_some()?;
        self.0.punch(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> Io<()> {
        self.1.use_some()?;
        self.0.allocate(offset, len)
    }
    fn seek_data(&self, offset: u64) -> Io<u64> {
        self.1.use_some()?;
        self.0.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Io<u64> {
        self.1.use_some()?;
        self.0.seek_hole(offset)
    }
    fn len(&self) -> Io<u64> {
        self.1.use_some()?;
        self.0.len()
    }
    fn allocated(&self) -> Io<u64> {
        self.0.allocated()
    }
    fn sync(&self) -> Io<()> {
        self.1.use_some()?;
        if self.1.1.load(Ordering::SeqCst) { Ok(()) } else { self.0.sync() }
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A stub on that power.
pub struct PoweredStub(Arc<MemoryStub>, Arc<Power>);

impl PoweredStub {
    pub fn new(stub: Arc<MemoryStub>, power: Arc<Power>) -> PoweredStub {
        PoweredStub(stub, power)
    }
}

impl Stub for PoweredStub {
    fn layout(&self) -> Result<Option<Layout>> {
        self.0.layout()
    }
    fn set_layout(&self, layout: &Layout) -> Result<()> {
        self.1.use_some()?;
        self.0.set_layout(layout)
    }
    fn source(&self) -> Result<Option<String>> {
        self.0.source()
    }
    fn set_source(&self, record: Option<&str>) -> Result<()> {
        self.1.use_some()?;
        self.0.set_source(record)
    }
    fn size(&self) -> Result<u64> {
        self.0.size()
    }
    fn set_size(&self, size: u64) -> Result<()> {
        self.1.use_some()?;
        self.0.set_size(size)
    }
    fn touch(&self, modified: Time) -> Result<()> {
        self.1.use_some()?;
        self.0.touch(modified)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.1.use_some()?;
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.1.use_some()?;
        self.0.write_at(offset, data)
    }
    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.1.use_some()?;
        self.0.punch(offset, len)
    }
    fn seek_data(&self, offset: u64) -> Result<u64> {
        self.1.use_some()?;
        self.0.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.1.use_some()?;
        self.0.seek_hole(offset)
    }
    fn mark_in_use(&self, file: FileId, mark: Mark) -> Result<()> {
        self.1.use_some()?;
        self.0.mark_in_use(file, mark)
    }
    fn set_kernel_writes(&self, writes: bool) -> Result<()> {
        self.1.use_some()?;
        self.0.set_kernel_writes(writes)
    }
    fn kernel_writes(&self) -> Result<bool> {
        self.0.kernel_writes()
    }
    fn discard(&self, file: FileId) -> Result<()> {
        self.1.use_some()?;
        self.0.discard(file)
    }
    fn sync(&self) -> Result<()> {
        self.1.use_some()?;
        self.0.sync()
    }
}
