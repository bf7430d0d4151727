//! Operations on ranges of a file: reserving, punching, zeroing, finding holes, copying.

use super::front::Whence;
use crate::Result;
use engine::file::File;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::sync::Arc;

/// Bytes of a page of memory.
const PAGE: u64 = 4096;

/// Answers a seek if the kernel may have unsent stores in its pages: it does not send them before the request.
pub fn all_data(size: u64, offset: u64, whence: Whence) -> Result<u64> {
    match whence {
        _ if offset >= size => Err(Errno::NXIO.into()),
        Whence::Data => Ok(offset),
        Whence::Hole => Ok(size),
    }
}

/// Length of the part of a copy to `offset` that may be made here; `None`: nothing. The kernel drops all pages of the
/// range, with stores of a mapping to their other bytes. So it copies partial pages itself, with ordinary reads and
/// writes.
pub fn whole_pages(offset: u64, len: u64, size: u64) -> Option<u64> {
    let end = offset.saturating_add(len);
    let end = if end >= size { end } else { end & !(PAGE - 1) };
    (offset.is_multiple_of(PAGE) && (end > offset || len == 0)).then(|| end.saturating_sub(offset))
}

/// Reserves, punches or zeroes bytes.
pub fn allocate(file: &Arc<File>, offset: u64, len: u64, mode: FallocateFlags) -> Result<()> {
    let keep_size = mode.contains(FallocateFlags::KEEP_SIZE);
    let what = mode - FallocateFlags::KEEP_SIZE;
    if what.is_empty() {
        file.allocate(offset, len, keep_size)
    } else if what == FallocateFlags::PUNCH_HOLE && keep_size {
        file.punch(offset, len)
    } else if what == FallocateFlags::ZERO_RANGE {
        file.zero(offset, len, keep_size)
    } else {
        Err(Errno::OPNOTSUPP.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-140]
    #[test]
    fn copies_are_made_of_whole_pages() {
        let size = 10 * PAGE + 7;
        assert_eq!(whole_pages(PAGE, 3 * PAGE, size), Some(3 * PAGE));
        assert_eq!(whole_pages(PAGE, 3 * PAGE + 5, size), Some(3 * PAGE), "the rest of the last page is the kernel's");
        assert_eq!(whole_pages(PAGE + 1, 3 * PAGE, size), None);
        assert_eq!(whole_pages(PAGE, 5, size), None);
        assert_eq!(whole_pages(10 * PAGE, 7, size), Some(7), "the file ends with it");
        assert_eq!(whole_pages(20 * PAGE, 5, size), Some(5));
        assert_eq!(whole_pages(PAGE, 0, size), Some(0));
    }
}
