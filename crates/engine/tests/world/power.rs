//! Media and stubs that stop answering when the daemon dies: from the n-th I/O of the whole world on.

use super::interposed::{Interposer, Io, Op, Verdict};
use meta::stub::locks::Locker;
use meta::stub::memory::MemoryStub;
use meta::stub::{InUse, Mark, Pointer, Record, Records, Stub, Sums};
use object::{Result, forward};
use policy::layout::Layout;
use policy::{FileId, Time};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts down to the end. At 1 the power is off; 0 is no end in sight.
#[derive(Default)]
pub struct Power(AtomicU64, AtomicBool);

impl Power {
    /// Switches the power off now.
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

    /// Switches the power on.
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

impl Interposer for Power {
    fn before(&self, op: Op) -> Io<Verdict> {
        if !matches!(op, Op::Look | Op::Allocated) {
            self.use_some()?;
        }
        let lies = op == Op::Sync && self.1.load(Ordering::SeqCst);
        Ok(if lies { Verdict::Pretended } else { Verdict::Happens })
    }

    fn lends_descriptors(&self) -> bool {
        false
    }
}

/// A stub on that power.
pub struct PoweredStub {
    stub: Arc<MemoryStub>,
    power: Arc<Power>,
}

impl PoweredStub {
    pub fn new(stub: Arc<MemoryStub>, power: Arc<Power>) -> PoweredStub {
        PoweredStub { stub, power }
    }
}

impl Stub for PoweredStub {
    fn set_layout(&self, layout: &Layout) -> Result<()> {
        self.power.use_some()?;
        self.stub.set_layout(layout)
    }
    fn set_source(&self, record: Option<&str>) -> Result<()> {
        self.power.use_some()?;
        self.stub.set_source(record)
    }
    fn set_size(&self, size: u64) -> Result<()> {
        self.power.use_some()?;
        self.stub.set_size(size)
    }
    fn touch(&self, modified: Time) -> Result<()> {
        self.power.use_some()?;
        self.stub.touch(modified)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.power.use_some()?;
        self.stub.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.power.use_some()?;
        self.stub.write_at(offset, data)
    }
    fn mark_inline(&self, inline: bool) -> Result<()> {
        self.power.use_some()?;
        self.stub.mark_inline(inline)
    }
    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.power.use_some()?;
        self.stub.punch(offset, len)
    }
    fn seek_data(&self, offset: u64) -> Result<u64> {
        self.power.use_some()?;
        self.stub.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.power.use_some()?;
        self.stub.seek_hole(offset)
    }
    fn mark_in_use(&self, by: InUse, mark: Mark) -> Result<()> {
        self.power.use_some()?;
        self.stub.mark_in_use(by, mark)
    }
    fn set_kernel_writes(&self, writes: bool) -> Result<()> {
        self.power.use_some()?;
        self.stub.set_kernel_writes(writes)
    }
    fn discard(&self, by: InUse) -> Result<()> {
        self.power.use_some()?;
        self.stub.discard(by)
    }
    fn sync(&self) -> Result<()> {
        self.power.use_some()?;
        self.stub.sync()
    }

    forward! { stub:
        fn layout(&self) -> Result<Option<Layout>>;
        fn source(&self) -> Result<Option<String>>;
        fn size(&self) -> Result<u64>;
        fn is_marked_inline(&self) -> Result<bool>;
        fn kernel_writes(&self) -> Result<bool>;
        fn grow_to(&self, size: u64) -> Result<()>;
        fn locker(&self) -> Result<Box<dyn Locker>>;
    }
}

impl Records for PoweredStub {
    forward! { stub:
        fn pointer(&self) -> Result<Pointer>;
        fn point(&self, generation: u64, stamp: u64) -> Result<()>;
        fn record(&self, generation: u64) -> Result<Option<Record>>;
        fn create_record(&self, generation: u64, record: &Record) -> Result<bool>;
        fn remove_records(&self, below: u64) -> Result<()>;
        fn listed_generation(&self) -> Result<Option<u64>>;
        fn cut_to(&self) -> Result<Option<u64>>;
        fn set_cut_to(&self, size: Option<u64>) -> Result<()>;
    }
}

impl Sums for PoweredStub {
    forward! { stub:
        fn has_sums(&self) -> Result<bool>;
        fn sums(&self) -> Result<Option<(String, String)>>;
        fn begin_sums(&self, id: &str) -> Result<()>;
        fn end_sums(&self, id: &str, text: &str) -> Result<bool>;
        fn void_sums(&self, file: Option<FileId>) -> Result<bool>;
    }
}
