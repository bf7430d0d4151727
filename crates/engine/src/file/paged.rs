//! Bytes for a worker, aligned to a page of memory. A network file system's client sends whole pages, so unaligned
//! bytes that just fill its requests need one more request for each.

use std::sync::Arc;

/// Bytes of a page. With larger pages the result is still correct, but less useful.
const PAGE_BYTES: usize = 4096;

/// A shared copy of bytes.
#[derive(Clone)]
pub(super) struct Paged {
    bytes: Arc<Vec<u8>>,
    start: usize,
}

impl Paged {
    pub fn of(data: &[u8]) -> Paged {
        let mut bytes: Vec<u8> = Vec::with_capacity(data.len() + PAGE_BYTES);
        let start =
            Some(bytes.as_ptr().align_offset(PAGE_BYTES)).filter(|start| *start < PAGE_BYTES).unwrap_or_default();
        bytes.resize(start, 0);
        bytes.extend_from_slice(data);
        Paged { bytes: Arc::new(bytes), start }
    }

    pub fn all(&self) -> &[u8] {
        &self.bytes[self.start..]
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
            assert_eq!(paged.all(), data);
            assert_eq!(paged.all().as_ptr() as usize % PAGE_BYTES, 0, "{len} bytes");
        }
    }
}
