//! The bytes of one object: a length and the pages that are not holes.

use std::collections::BTreeMap;

/// Size of a page, which a crash keeps or loses as a whole.
pub const PAGE_BYTES: u64 = 4096;

/// Sparse bytes. Invariant: no page lies wholly beyond the length, and bytes of the last page beyond it are zero.
#[derive(Clone, Default)]
pub struct Content {
    len: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

/// Splits a range into (page, offset in the page, length).
pub fn by_page(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let inside = at % PAGE_BYTES;
            let piece = (PAGE_BYTES - inside).min(end - at);
            let cut = (at / PAGE_BYTES, inside as usize, piece as usize);
            at += piece;
            cut
        })
    })
}

impl Content {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    pub fn pages_missing(&self, offset: u64, len: u64) -> u64 {
        by_page(offset, len).filter(|(page, ..)| !self.pages.contains_key(page)).count() as u64
    }

    pub fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64);
        let mut done = 0;
        for (page, inside, piece) in by_page(offset, len) {
            match self.pages.get(&page) {
                Some(bytes) => buf[done..done + piece].copy_from_slice(&bytes[inside..inside + piece]),
                None => buf[done..done + piece].fill(0),
            }
            done += piece;
        }
        done
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        for (page, inside, piece) in by_page(offset, data.len() as u64) {
            self.page(page)[inside..inside + piece].copy_from_slice(&data[done..done + piece]);
            done += piece;
        }
        if !data.is_empty() {
            self.len = self.len.max(offset + data.len() as u64);
        }
    }

    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.punch(len, self.len - len);
        }
        self.len = len;
    }

    pub fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len);
        let to_page_end = if end == self.len { end.next_multiple_of(PAGE_BYTES) } else { end };
        for (page, inside, piece) in by_page(offset, to_page_end.saturating_sub(offset)) {
            if piece as u64 == PAGE_BYTES {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                bytes[inside..inside + piece].fill(0);
            }
        }
    }

    pub fn allocate(&mut self, offset: u64, len: u64) {
        for (page, ..) in by_page(offset, len) {
            self.page(page);
        }
        self.len = self.len.max(offset + len);
    }

    pub fn seek_data(&self, offset: u64) -> Option<u64> {
        if offset >= self.len {
            return None;
        }
        let (page, _) = self.pages.range(offset / PAGE_BYTES..).next()?;
        Some(offset.max(page * PAGE_BYTES))
    }

    pub fn seek_hole(&self, offset: u64) -> Option<u64> {
        if offset >= self.len {
            return None;
        }
        let mut page = offset / PAGE_BYTES;
        while self.pages.contains_key(&page) {
            page += 1;
        }
        Some(offset.max(page * PAGE_BYTES).min(self.len))
    }

    fn page(&mut self, page: u64) -> &mut [u8] {
        self.pages.entry(page).or_insert_with(|| vec![0; PAGE_BYTES as usize].into_boxed_slice())
    }
}
