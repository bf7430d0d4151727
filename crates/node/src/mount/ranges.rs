//! Operations on ranges of a file: reserving, punching, zeroing, finding holes, copying.

use super::Server;
use super::answer::Answer;
use super::front::Whence;
use crate::Result;
use engine::file::{Access, File};
use fuser::{ReplyEmpty, ReplyLseek, ReplyWrite};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a page of memory.
const PAGE: u64 = 4096;

impl Server {
    pub fn allocate(
        self: &Arc<Self>,
        handle: u64,
        (offset, len): (u64, u64),
        mode: FallocateFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        handle.wrote.store(true, Ordering::Relaxed);
        self.hand_over(handle.uid(), answer, move |answer| {
            answer.give(allocate(&handle.open.file, offset, len, mode).map_err(|error| error.errno()));
        });
    }

    pub fn seek(self: &Arc<Self>, handle: u64, offset: u64, whence: Whence, answer: Answer<ReplyLseek>) {
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        self.hand_over(handle.uid(), answer, move |answer| {
            let file = &handle.open.file;
            let found = match whence {
                _ if file.kernel_may_have_stores() => all_data(file.size(), offset, whence),
                Whence::Data => file.seek_data(offset),
                Whence::Hole => file.seek_hole(offset),
            };
            answer.give(found.map_err(|error| error.errno()));
        });
    }

    pub fn copy(self: &Arc<Self>, from: (u64, u64), to: (u64, u64), len: u64, mut answer: Answer<ReplyWrite>) {
        let (Some(source), Some(destination)) = (self.handles.get(from.0), self.handles.get(to.0)) else {
            return answer.give(Err(Errno::BADF));
        };
        destination.wrote.store(true, Ordering::Relaxed);
        answer.is_on(&destination.open.file);
        // The answer's field has 32 bits; the kernel sends another request for the rest.
        let len = len.min(1 << 30);
        let uid = destination.uid();
        let (source, destination) = (source.open.file.clone(), destination.open.file.clone());
        let Some(len) = whole_pages(to.1, len.min(source.size().saturating_sub(from.1)), destination.size()) else {
            return answer.give(Err(Errno::XDEV));
        };
        // A holder of writes must see them: the kernel copies instead, with ordinary reads and writes.
        let access = Access { write: true, offset: to.1, len };
        if destination.holder(access).is_some() {
            return answer.give(Err(Errno::XDEV));
        }
        self.hand_over(uid, answer, move |answer| {
            let done = destination.copy_range(&source, from.1, to.1, len).map_err(|error| error.errno());
            destination.tell_written(access, &done.map(drop).map_err(Into::into));
            answer.give(done.map(|copied| copied as usize));
        });
    }
}

/// Answers a seek if the kernel may have unsent stores in its pages: it does not send them before the request.
fn all_data(size: u64, offset: u64, whence: Whence) -> Result<u64> {
    match whence {
        _ if offset >= size => Err(Errno::NXIO.into()),
        Whence::Data => Ok(offset),
        Whence::Hole => Ok(size),
    }
}

/// Length of the part of a copy to `offset` that may be made here; `None`: nothing. The kernel drops all pages of the
/// range, with stores of a mapping to their other bytes. So it copies partial pages itself, with ordinary reads and
/// writes.
fn whole_pages(offset: u64, len: u64, size: u64) -> Option<u64> {
    let end = offset.saturating_add(len);
    let end = if end >= size { end } else { end & !(PAGE - 1) };
    (offset.is_multiple_of(PAGE) && (end > offset || len == 0)).then(|| end.saturating_sub(offset))
}

fn allocate(file: &Arc<File>, offset: u64, len: u64, mode: FallocateFlags) -> Result<()> {
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
