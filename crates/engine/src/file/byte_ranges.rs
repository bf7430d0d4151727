//! Ranges of a file: for example those written while the mover copied it, or those of a checkpoint that could not be
//! written.

use parking_lot::Mutex;
use policy::ranges::RangeSet;
use std::ops::Range;

/// Ranges, merged where they touch. Too many ranges become a single one that covers all, so the set may hold more than
/// was added, never less.
#[derive(Default)]
pub struct ByteRanges(Mutex<RangeSet>);

/// Maximum number of ranges that are kept apart.
const RANGES_MAX: usize = 4096;

impl ByteRanges {
    /// Adds `[start, end)`.
    pub fn add(&self, start: u64, end: u64) {
        self.change(|ranges| ranges.insert(start..end));
    }

    /// Removes `[start, end)`.
    pub fn remove(&self, start: u64, end: u64) {
        self.change(|ranges| ranges.remove(start..end));
    }

    fn change(&self, change: impl FnOnce(&mut RangeSet)) {
        let mut ranges = self.0.lock();
        change(&mut ranges);
        if ranges.iter().len() > RANGES_MAX {
            ranges.close_gaps();
        }
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes all ranges out, ascending.
    pub fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut *self.0.lock()).iter().collect()
    }

    /// All ranges, ascending.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.0.lock().iter().collect()
    }

    /// Whether any part of the range is in the set.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.0.lock().intersects(range)
    }

    /// Total length of all ranges.
    pub fn bytes(&self) -> u64 {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_touches_is_merged() {
        let d = ByteRanges::default();
        d.add(10, 20);
        d.add(30, 40);
        d.add(20, 25);
        d.add(5, 5);
        assert_eq!(d.bytes(), 25);
        assert!(d.touches(&(0..11)) && d.touches(&(24..26)) && d.touches(&(12..13)) && d.touches(&(0..99)));
        assert!(!d.touches(&(0..10)) && !d.touches(&(25..30)) && !d.touches(&(40..50)));
        assert_eq!(d.take(), vec![10..25, 30..40]);
        assert_eq!(d.take(), vec![]);
    }

    proptest! {
        #[test]
        fn covers_exactly_what_was_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..30), 0..60),
        ) {
            let d = ByteRanges::default();
            let mut model = [false; 256];
            for (add, start, len) in steps {
                if add { d.add(start, start + len) } else { d.remove(start, start + len) }
                model[start as usize..(start + len) as usize].fill(add);
                prop_assert_eq!(d.is_empty(), !model.contains(&true));
            }
            let mut seen = [false; 256];
            let mut last = None;
            for r in d.take() {
                prop_assert!(r.start < r.end && last.is_none_or(|e| e < r.start));
                last = Some(r.end);
                seen[r.start as usize..r.end as usize].fill(true);
            }
            prop_assert_eq!(seen, model);
        }
    }
}
