//! A set of numbers (bytes of a file, rows of an object) as ranges: its size depends on the number of gaps.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers, kept as disjoint ranges that do not touch: first number to one past the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl RangeSet {
    /// Returns how many numbers are in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Whether the number is in it.
    pub fn contains(&self, number: u64) -> bool {
        self.gap_from(number) != number
    }

    /// Whether the whole range is in it; true for an empty range.
    pub fn contains_all(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.gap_from(range.start) >= range.end
    }

    /// Whether any part of the range is in it.
    pub fn intersects(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.ranges.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    /// Returns the first number at or after `from` that is not in the set.
    pub fn gap_from(&self, from: u64) -> u64 {
        match self.ranges.range(..=from).next_back() {
            Some((_, &end)) if end > from => end,
            _ => from,
        }
    }

    /// Returns the first number at or after `from` that is in the set.
    pub fn next_from(&self, from: u64) -> Option<u64> {
        if self.contains(from) { Some(from) } else { self.ranges.range(from..).next().map(|(&start, _)| start) }
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            self.ranges.remove(&s);
            self.len -= e - s;
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
        self.len += end - start;
    }

    /// Adds all numbers between the first and the last.
    pub fn close_gaps(&mut self) {
        if let (Some((&start, _)), Some((_, &end))) = (self.ranges.first_key_value(), self.ranges.last_key_value()) {
            self.insert(start..end);
        }
    }

    /// Removes a range.
    pub fn remove(&mut self, range: Range<u64>) {
        while self.intersects(&range)
            && let Some((&start, &end)) = self.ranges.range(..range.end).next_back()
        {
            self.ranges.remove(&start);
            self.len -= end.min(range.end) - start.max(range.start);
            if range.end < end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        *self = RangeSet::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..8), 1..80),
        ) {
            let mut set = RangeSet::default();
            let mut plain = BTreeSet::new();
            for (add, start, len) in steps {
                if add {
                    set.insert(start..start + len);
                    plain.extend(start..start + len);
                } else {
                    set.remove(start..start + len);
                    plain.retain(|number| !(start..start + len).contains(number));
                }
                prop_assert_eq!(set.len(), plain.len() as u64);
                prop_assert_eq!(set.is_empty(), plain.is_empty());
                prop_assert!(set.iter().flatten().eq(plain.iter().copied()));
                for (s, e) in &set.ranges {
                    prop_assert!(s < e && !set.ranges.contains_key(e), "ranges do not touch");
                }
                for row in 0..70 {
                    prop_assert_eq!(set.contains(row), plain.contains(&row));
                    prop_assert_eq!(set.gap_from(row), (row..).find(|r| !plain.contains(r)).unwrap_or(0));
                    prop_assert_eq!(set.next_from(row), plain.range(row..).next().copied());
                    let range = row..row + len;
                    prop_assert_eq!(set.contains_all(&range), range.clone().all(|r| plain.contains(&r)));
                    prop_assert_eq!(set.intersects(&range), range.clone().any(|r| plain.contains(&r)));
                }
            }
        }
    }
}
