//! Bytes that begin on a page's border: a request past the page cache that does not takes one page more, and is split where a request has a
//! limit of pages (GlusterFS's mounts: 32).

const PAGE: usize = 4096;

/// A buffer that begins on a page's border.
#[derive(Debug, Default)]
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    /// Room for so many bytes.
    pub fn with_capacity(len: usize) -> Aligned {
        let mut bytes: Vec<u8> = Vec::with_capacity(len + PAGE);
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        bytes.resize(start, 0);
        Aligned { bytes, start }
    }

    /// So many zeros.
    pub fn zeroed(len: usize) -> Aligned {
        // Fresh zeros come from the system for nothing.
        let bytes = vec![0u8; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        let mut zeroed = Aligned { bytes, start };
        zeroed.truncate(len);
        zeroed
    }

    /// A copy.
    pub fn copy_of(data: &[u8]) -> Aligned {
        let mut copy = Aligned::with_capacity(data.len());
        copy.bytes.extend_from_slice(data);
        copy
    }

    /// Adds bytes; makes room for `most` bytes if there is none.
    pub fn extend(&mut self, data: &[u8], most: usize) {
        if self.bytes.len() + data.len() > self.bytes.capacity() {
            let mut larger = Aligned::with_capacity(most.max(self.len() + data.len()));
            larger.bytes.extend_from_slice(self);
            *self = larger;
        }
        self.bytes.extend_from_slice(data);
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(self.start + len);
    }

    /// The first `len` bytes, made if there are fewer.
    pub fn first(&mut self, len: usize) -> &mut [u8] {
        if self.len() < len {
            *self = Aligned::zeroed(len);
        }
        &mut self[..len]
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
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
        assert_eq!((bytes.len(), bytes[99], bytes[100]), (75_101, 1, 2));
        let mut zeroed = Aligned::zeroed(10_000);
        assert_eq!((zeroed.len(), zeroed.as_ptr().align_offset(PAGE)), (10_000, 0));
        assert_eq!(zeroed.first(20_000).len(), 20_000);
        assert_eq!(zeroed.as_ptr().align_offset(PAGE), 0);
    }
}
