//! An object that is a plain file: positioned I/O on its descriptor.

use super::ahead::Second;
use crate::target::medium::Handle;
use policy::advice::Advice;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use std::io::IoSliceMut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Properties of the file system that objects lie on.
#[derive(Clone, Copy, Default)]
pub(super) struct Below {
    /// Whether it is an Entrepot mount, which can distinguish prefetches.
    pub on_entrepot: bool,
    /// Whether it is a local one that distinguishes holes from bytes not yet on the device.
    pub knows_holes: bool,
}

/// An open file.
pub struct FileHandle {
    fd: OwnedFd,
    second: Second,
    advised: AdvisedPattern,
    writing: Writing,
    knows_holes: bool,
}

/// Descriptor through which the object is written.
enum Writing {
    /// Same descriptor as for reading.
    Same,
    /// No descriptor: the file system is read-only.
    No,
    /// Descriptor that the first write opens.
    Later(OnceLock<OwnedFd>),
}

/// Access pattern last advised to the kernel for a descriptor: whether reads are random.
#[derive(Default)]
struct AdvisedPattern(AtomicBool);

impl FileHandle {
    /// `below`: the file system that it lies on.
    pub(super) fn new(fd: OwnedFd, below: Below) -> FileHandle {
        let Below { on_entrepot, knows_holes } = below;
        FileHandle {
            fd,
            second: Second::new(on_entrepot),
            advised: AdvisedPattern::default(),
            writing: Writing::Same,
            knows_holes,
        }
    }

    /// A file on an unknown file system.
    pub fn plain(fd: OwnedFd) -> FileHandle {
        FileHandle::new(fd, Below::default())
    }

    /// A file opened for reading alone, since the file system is read-only.
    pub fn for_reading(self) -> FileHandle {
        FileHandle { writing: Writing::No, ..self }
    }

    /// A file opened for reading, and for writing at the first write.
    pub fn writing_later(self) -> FileHandle {
        FileHandle { writing: Writing::Later(OnceLock::new()), ..self }
    }

    fn writable(&self) -> Result<&OwnedFd, Errno> {
        match &self.writing {
            Writing::Same => Ok(&self.fd),
            Writing::No => Err(Errno::ROFS),
            Writing::Later(opened) => match opened.get() {
                Some(fd) => Ok(fd),
                None => {
                    let path = crate::host::descriptor_path(&self.fd);
                    let fd = rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
                    Ok(opened.get_or_init(|| fd))
                }
            },
        }
    }

    /// Descriptor of the writes, if any: only a sync through it returns their errors.
    fn written(&self) -> &OwnedFd {
        match &self.writing {
            Writing::Later(opened) => opened.get().unwrap_or(&self.fd),
            Writing::Same | Writing::No => &self.fd,
        }
    }

    fn fallocate(&self, flags: FallocateFlags, offset: u64, len: u64) -> Result<(), Errno> {
        if len == 0 {
            return Ok(());
        }
        let fd = self.writable()?;
        retry_on_intr(|| rustix::fs::fallocate(fd, flags, offset, len))
    }

    fn sync_range(&self, offset: u64, len: u64, what: libc::c_uint) {
        let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
        // SAFETY: the descriptor is ours and open, and the call touches no memory of this process. Its result is
        // ignored, because the final sync reports errors.
        unsafe { libc::sync_file_range(self.written().as_raw_fd(), offset, len, what) };
    }
}

impl Handle for FileHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while done < buf.len() {
            match retry_on_intr(|| rustix::io::pread(&self.fd, &mut buf[done..], offset + done as u64))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    fn read_vectored_at(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
        demand_bytes: usize,
    ) -> Result<usize, Errno> {
        self.second.read(self.fd.as_fd(), offset, buffers, demand_bytes)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let fd = self.writable()?;
        let mut done = 0;
        while done < data.len() {
            match retry_on_intr(|| rustix::io::pwrite(fd, &data[done..], offset + done as u64))? {
                0 => return Err(Errno::IO),
                n => done += n,
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Errno> {
        let fd = self.writable()?;
        retry_on_intr(|| rustix::fs::ftruncate(fd, len))
    }

    /// Writes zeros on a file system that cannot punch: the bytes are right, the space stays taken.
    fn punch(&self, offset: u64, len: u64) -> Result<(), Errno> {
        match self.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
            Err(Errno::OPNOTSUPP) => self.zero(offset, len),
            other => other,
        }
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.fallocate(FallocateFlags::empty(), offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.fallocate(FallocateFlags::KEEP_SIZE, offset, len)
    }

    fn knows_holes(&self) -> bool {
        self.knows_holes
    }

    fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(&self.fd, SeekFrom::Data(offset))
    }

    fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(&self.fd, SeekFrom::Hole(offset))
    }

    fn len(&self) -> Result<u64, Errno> {
        Ok(crate::host::fstat(&self.fd)?.st_size as u64)
    }

    fn allocated(&self) -> Result<u64, Errno> {
        const BLOCK_BYTES: u64 = 512; // the unit of st_blocks, whatever the file system's own
        Ok(crate::host::fstat(&self.fd)?.st_blocks as u64 * BLOCK_BYTES)
    }

    #[allow(clippy::useless_conversion, reason = "it has 32 bits on some machines")]
    fn names(&self) -> Result<u64, Errno> {
        Ok(crate::host::fstat(&self.fd)?.st_nlink.into())
    }

    fn advise(&self, advice: Advice) {
        let random = advice == Advice::Random;
        if self.advised.0.load(Ordering::Relaxed) == random || self.advised.0.swap(random, Ordering::Relaxed) == random
        {
            return;
        }
        let advice = if random { rustix::fs::Advice::Random } else { rustix::fs::Advice::Normal };
        // A file system without support for advice reads ahead as before.
        let _ = rustix::fs::fadvise(&self.fd, 0, None, advice);
    }

    fn begin_sync(&self, offset: u64, len: u64) {
        self.sync_range(offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }

    fn end_sync(&self, offset: u64, len: u64) {
        self.sync_range(offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE);
    }

    fn sync(&self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(self.written()))
    }

    fn is_read_only(&self) -> bool {
        matches!(self.writing, Writing::No)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        // A file for passthrough must have one descriptor for reads and writes.
        (!matches!(self.writing, Writing::Later(_))).then(|| self.fd.as_fd())
    }
}
