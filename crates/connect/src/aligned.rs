//! Page-aligned buffers. An unaligned request past the page cache takes one page more. It is split where a mount
//! limits the pages of a request (GlusterFS: 32).
//!
//! Large buffers are reused, the latest first: memory that was just released is still in the processor's caches.
//! Fresh memory costs a page fault per page, which is more than the copy into it.

use parking_lot::Mutex;

const PAGE: usize = 4096;
/// From this size a buffer counts as large, and gets [`LARGE`] bytes.
const LARGE_FROM: usize = 64 << 10;
/// Size of the largest request of the kernel.
const LARGE: usize = 1 << 20;
/// Unused large buffers that are kept.
const SPARE_MAX: usize = 32;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer that begins on a page's border.
#[derive(Debug, Default)]
pub struct Aligned {
    /// All bytes are initialised.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Returns whether a caller's buffer is page-aligned.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.as_ptr().align_offset(PAGE) == 0
    }

    /// Returns a buffer of `len` bytes with undefined contents.
    pub fn room(len: usize) -> Aligned {
        let large = (LARGE_FROM..=LARGE).contains(&len);
        let spare = if large { SPARE.lock().pop() } else { None };
        let bytes = spare.unwrap_or_else(|| vec![0u8; if large { LARGE } else { len } + PAGE]);
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Aligned { bytes, start, len }
    }

    /// Returns an aligned copy.
    pub fn copy_of(data: &[u8]) -> Aligned {
        let mut copy = Aligned::room(data.len());
        copy.copy_from_slice(data);
        copy
    }

    /// Appends bytes; a buffer that is too small is replaced by one of at least `most` bytes.
    pub fn extend(&mut self, data: &[u8], most: usize) {
        let (old, new) = (self.len, self.len + data.len());
        if self.start + new > self.bytes.len() {
            let mut larger = Aligned::room(most.max(new));
            larger[..old].copy_from_slice(self);
            *self = larger;
        }
        self.len = new;
        self[old..].copy_from_slice(data);
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if self.bytes.len() == LARGE + PAGE {
            let mut spare = SPARE.lock();
            if spare.len() < SPARE_MAX {
                spare.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_on_a_border_whatever_is_done_to_it() {
        let mut bytes = Aligned::copy_of(&[1; 100]);
        for more in [1usize, 5000, 70_000] {
            bytes.extend(&vec![2; more], 80_000);
            assert_eq!(bytes.as_ptr().align_offset(PAGE), 0, "after {more} more");
        }
        assert_eq!((bytes.len(), bytes[99], bytes[100], bytes[75_100]), (75_101, 1, 2, 2));
        for len in [10_000, 2 << 20] {
            let room = Aligned::room(len);
            assert_eq!((room.len(), room.as_ptr().align_offset(PAGE)), (len, 0));
        }
    }

    #[test]
    fn a_large_one_that_is_used_again_has_the_bytes_that_were_put_there() {
        for round in 0..100u8 {
            let (mut one, mut other) = (Aligned::copy_of(&[round; LARGE_FROM]), Aligned::copy_of(&[round; LARGE]));
            one.extend(&[round + 1; 1000], LARGE);
            other.truncate(10);
            assert!(one[..LARGE_FROM].iter().all(|b| *b == round) && one[LARGE_FROM..].iter().all(|b| *b == round + 1));
            assert_eq!((one.len(), &other[..]), (LARGE_FROM + 1000, &[round; 10][..]));
            assert_eq!(one.as_ptr().align_offset(PAGE), 0);
        }
    }
}
