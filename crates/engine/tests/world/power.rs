//! Media and stubs that stop answering when the daemon dies: from the n-th I/O of the whole world on.

use super::interposed::{Interposer, Io, Op, Verdict};
use meta::stub::memory::MemoryStub;
use meta::stub::{InUse, Mark, Stub};
use object::Result;
use policy::Time;
use policy::layout::Layout;
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
    fn mark_inline(&self, inline: bool) -> Result<()> {
        self.1.use_some()?;
        self.0.mark_inline(inline)
    }
    fn is_marked_inline(&self) -> Result<bool> {
        self.0.is_marked_inline()
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
    fn mark_in_use(&self, by: InUse, mark: Mark) -> Result<()> {
        self.1.use_some()?;
        self.0.mark_in_use(by, mark)
    }
    fn set_kernel_writes(&self, writes: bool) -> Result<()> {
        self.1.use_some()?;
        self.0.set_kernel_writes(writes)
    }
    fn kernel_writes(&self) -> Result<bool> {
        self.0.kernel_writes()
    }
    fn discard(&self, by: InUse) -> Result<()> {
        self.1.use_some()?;
        self.0.discard(by)
    }
    fn sync(&self) -> Result<()> {
        self.1.use_some()?;
        self.0.sync()
    }
}
