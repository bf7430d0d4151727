//! Dense numbers of blocks, in the order of their first accesses.
//!
//! A page holds the numbers of neighbouring blocks, so that a request of many blocks needs few lookups. A page fills
//! one line of the processor's cache.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Blocks of a page.
const PAGE: u64 = 16;
const NONE: u32 = u32::MAX;

/// Numbers of the blocks of several address spaces.
#[derive(Default)]
pub(super) struct Numbers {
    /// Place in `pages`, by space and number of the page.
    places: HashMap<(u64, u64), u32, BuildHasherDefault<Fold>>,
    pages: Vec<Page>,
    len: u32,
    /// The page of the last block, and its place.
    last: Option<((u64, u64), u32)>,
}

#[repr(align(64))]
struct Page([u32; PAGE as usize]);

impl Numbers {
    /// Appends the numbers of `count` blocks from `first` on; `None` if there are too many blocks.
    pub(super) fn of(&mut self, space: u64, mut first: u64, count: u64, to: &mut Vec<u32>) -> Option<()> {
        let end = first + count;
        while first < end {
            let name = (space, first / PAGE);
            let place = match self.last {
                Some((last, place)) if last == name => place,
                _ => self.place(name),
            };
            let after = end.min((first / PAGE + 1) * PAGE);
            let page = &mut self.pages[place as usize].0;
            for number in &mut page[(first % PAGE) as usize..][..(after - first) as usize] {
                if *number == NONE {
                    *number = self.len;
                    self.len = self.len.checked_add(1).filter(|len| *len < NONE)?;
                }
                to.push(*number);
            }
            first = after;
        }
        Some(())
    }

    /// Place of a page, which is new if it is not known.
    fn place(&mut self, name: (u64, u64)) -> u32 {
        let place = *self.places.entry(name).or_insert_with(|| {
            self.pages.push(Page([NONE; PAGE as usize]));
            self.pages.len() as u32 - 1
        });
        self.last = Some((name, place));
        place
    }

    /// Number of numbered blocks.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }
}

/// Hasher for pairs of numbers: the halves of a product of 128 bits, exclusively or'ed.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The fraction of the golden ratio, which is odd and without a pattern of bits.
        const GOLDEN: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0.rotate_left(32) ^ number) * GOLDEN;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbered_in_the_order_of_first_accesses_and_spaces_are_apart() {
        let (mut numbers, mut to) = (Numbers::default(), Vec::new());
        for (space, first, count) in [(0, 14, 4), (0, 15, 2), (1, 15, 2), (0, 1 << 50, 1), (0, 13, 2)] {
            numbers.of(space, first, count, &mut to).unwrap();
        }
        assert_eq!(to, [0, 1, 2, 3, 1, 2, 4, 5, 6, 7, 0]);
        assert_eq!(numbers.len(), 8);
    }
}
