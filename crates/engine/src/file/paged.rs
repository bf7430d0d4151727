//! Bytes that begin with a page of memory. The client of a file system in user space takes a request from whole pages, so
//! unaligned bytes that just fill its requests need one more request for each.

use std::ops::{Deref, DerefMut};

/// Bytes of a page. With larger pages the result is still correct, but less useful.
const PAGE_BYTES: usize = 4096;

/// Bytes on their way from or to a target.
#[derive(Debug, Default)]
pub struct Paged {
    bytes: Vec<u8>,
    start: usize,
}

impl Paged {
    /// Zeros, for a read to replace.
    pub fn zeroed(len: usize) -> Paged {
        let mut bytes = vec![0; len + PAGE_BYTES];
        let start =
            Some(bytes.as_ptr().align_offset(PAGE_BYTES)).filter(|start| *start < PAGE_BYTES).unwrap_or_default();
        bytes.truncate(start + len);
        Paged { bytes, start }
    }

    /// A copy that a worker can keep.
    pub fn of(data: &[u8]) -> Paged {
        let mut paged = Paged::zeroed(data.len());
        paged.copy_from_slice(data);
        paged
    }
}

impl Deref for Paged {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Paged {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_same_and_begin_with_a_page() {
        for len in [0, 1, 4095, 4096, 1 << 20] {
            let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let paged = Paged::of(&data);
            assert_eq!(paged[..], data);
            assert_eq!(paged.as_ptr() as usize % PAGE_BYTES, 0, "{len} bytes");
        }
    }
}
