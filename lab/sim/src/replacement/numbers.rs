//! Dense numbers of blocks, in the order of their first accesses.
//!
//! A page holds the numbers of neighbouring blocks, so that a request of many blocks needs few lookups. A page fills
//! one line of the processor's cache. As long as each request is one block, as in traces of objects, neighbours mean
//! nothing, and there are no pages.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Blocks of a page.
const PAGE: u64 = 16;
const NONE: u32 = u32::MAX;

/// Numbers of the blocks of several address spaces.
#[derive(Default)]
pub(super) struct Numbers {
    /// Numbers by space and block, until a request has several blocks.
    single: HashMap<(u64, u64), u32, FixedState>,
    /// Place in `pages`, by space and number of the page.
    places: HashMap<(u64, u64), u32, FixedState>,
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
        if self.pages.is_empty() {
            if count == 1 {
                let number = match self.single.entry((space, first)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(take(&mut self.len)?),
                };
                to.push(number);
                return Some(());
            }
            self.move_to_pages();
        }
        let end = first + count;
        while first < end {
            let place = self.place((space, first / PAGE));
            let after = end.min((first / PAGE + 1) * PAGE);
            let page = &mut self.pages[place as usize].0;
            for number in &mut page[(first % PAGE) as usize..][..(after - first) as usize] {
                if *number == NONE {
                    *number = take(&mut self.len)?;
                }
                to.push(*number);
            }
            first = after;
        }
        Some(())
    }

    fn move_to_pages(&mut self) {
        for ((space, block), number) in std::mem::take(&mut self.single) {
            let place = self.place((space, block / PAGE));
            self.pages[place as usize].0[(block % PAGE) as usize] = number;
        }
    }

    /// Place of a page, which is new if it is not known.
    fn place(&mut self, name: (u64, u64)) -> u32 {
        if let Some((_, place)) = self.last.filter(|(last, _)| *last == name) {
            return place;
        }
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

/// Takes the next number; `None` if there are too many blocks.
fn take(len: &mut u32) -> Option<u32> {
    let number = *len;
    *len = number.checked_add(1).filter(|len| *len < NONE)?;
    Some(number)
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
        let (mut numbers, mut to) = (Numbers::default(), Vec::new());
        for (space, first, count) in
            [(0, 14, 1), (1, 14, 1), (0, 40, 1), (0, 14, 1), (0, 13, 3), (1, 14, 1), (0, 40, 1)]
        {
            numbers.of(space, first, count, &mut to).unwrap();
        }
        assert_eq!(to, [0, 1, 2, 0, 3, 0, 4, 1, 2]);
        assert_eq!(numbers.len(), 5);
    }
}
