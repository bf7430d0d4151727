//! A set of rows as ranges: its size depends on the number of gaps, not of rows.

use std::collections::BTreeMap;
use std::ops::Range;

/// Rows, kept as disjoint ranges that do not touch: first row to one past the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowSet {
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl RowSet {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether the row is in it.
    pub(super) fn contains(&self, row: u64) -> bool {
        self.gap_from(row) != row
    }

    /// Whether all rows of the range are in it; true for an empty range.
    pub(super) fn contains_all(&self, rows: &Range<u64>) -> bool {
        rows.is_empty() || self.gap_from(rows.start) >= rows.end
    }

    /// Whether any row of the range is in it.
    pub(super) fn intersects(&self, rows: &Range<u64>) -> bool {
        !rows.is_empty() && self.ranges.range(..rows.end).next_back().is_some_and(|(_, &end)| end > rows.start)
    }

    /// Returns the first row at or after `from` that is not in the set.
    pub(super) fn gap_from(&self, from: u64) -> u64 {
        match self.ranges.range(..=from).next_back() {
            Some((_, &end)) if end > from => end,
            _ => from,
        }
    }

    /// Returns the first row at or after `from` that is in the set.
    pub(super) fn next_from(&self, from: u64) -> Option<u64> {
        if self.contains(from) { Some(from) } else { self.ranges.range(from..).next().map(|(&start, _)| start) }
    }

    /// Adds a range of rows.
    pub(super) fn insert(&mut self, rows: Range<u64>) {
        if rows.is_empty() {
            return;
        }
        let (mut start, mut end) = (rows.start, rows.end);
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            self.ranges.remove(&s);
            self.len -= e - s;
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
        self.len += end - start;
    }

    /// Removes one row.
    pub(super) fn remove(&mut self, row: u64) {
        let Some((&start, &end)) = self.ranges.range(..=row).next_back().filter(|(_, e)| **e > row) else { return };
        self.ranges.remove(&start);
        self.len -= 1;
        if start < row {
            self.ranges.insert(start, row);
        }
        if row + 1 < end {
            self.ranges.insert(row + 1, end);
        }
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        *self = RowSet::default();
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
            let mut set = RowSet::default();
            let mut plain = BTreeSet::new();
            for (add, start, len) in steps {
                if add {
                    set.insert(start..start + len);
                    plain.extend(start..start + len);
                } else {
                    set.remove(start);
                    plain.remove(&start);
                }
                prop_assert_eq!(set.len(), plain.len() as u64);
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
