//! Set of node numbers that are over, folded into few names, so that listings of lease files do not grow for ever.
//!
//! ```text
//!   N -> new.ID, N.over      two names for each number that is over
//!   past.ID                  "1-40 42-77": one for many; the union of all such files counts
//! ```
//! Numbers in a file are over for ever. So files are only joined, and one is removed only once another holds all its
//! numbers.

use super::Node;
use std::collections::BTreeMap;
use std::fmt;

/// Number of unfolded names that is left alone. A guess: a listing costs hardly more, and a small cluster rarely folds.
const NAMES_MAX: usize = 64;

/// Returns how many of `named` unfolded numbers to fold at once. Folding is two renames each, during which the folder
/// does not list.
pub fn to_fold(named: usize) -> usize {
    if named < NAMES_MAX { 0 } else { NAMES_MAX }
}

/// A set of numbers that are over, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Last number of each range, by its first. No two ranges touch.
    ranges: BTreeMap<u32, u32>,
}

impl Past {
    /// Adds one number.
    pub fn insert(&mut self, node: Node) {
        self.insert_range(node.0, node.0);
    }

    /// Adds all numbers of another set.
    pub fn join(&mut self, other: &Past) {
        other.ranges.iter().for_each(|(first, last)| self.insert_range(*first, *last));
    }

    fn insert_range(&mut self, mut first: u32, mut last: u32) {
        let touching = |range: &(u32, u32)| range.1.saturating_add(1) >= first;
        let below = self.ranges.range(..=first).next_back().map(|(first, last)| (*first, *last)).filter(touching);
        if let Some((start, end)) = below {
            (first, last) = (start, last.max(end));
        }
        while let Some((&start, &end)) = self.ranges.range(first..=last.saturating_add(1)).next() {
            self.ranges.remove(&start);
            last = last.max(end);
        }
        self.ranges.insert(first, last);
    }

    /// Whether a number is in the set.
    pub fn contains(&self, node: Node) -> bool {
        self.ranges.range(..=node.0).next_back().is_some_and(|(_, last)| *last >= node.0)
    }

    /// Highest number in the set.
    pub fn last(&self) -> Option<Node> {
        self.ranges.last_key_value().map(|(_, last)| Node(*last))
    }

    /// All numbers, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last).map(Node)
    }

    /// Parses the output of `Display`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Past> {
        let mut past = Past::default();
        for range in text.split_whitespace() {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first == 0 || first > last {
                return None;
            }
            past.insert_range(first, last);
        }
        (past.to_string() == text.trim_end()).then_some(past)
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.ranges.iter().enumerate() {
            let space = if n == 0 { "" } else { " " };
            match first == last {
                true => write!(f, "{space}{first}")?,
                false => write!(f, "{space}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(numbers: &[u32]) -> Past {
        let mut past = Past::default();
        numbers.iter().copied().map(Node).for_each(|node| past.insert(node));
        past
    }

    #[test]
    fn numbers_that_follow_each_other_are_one_range() {
        assert_eq!(of(&[3, 1, 2, 7, 5]).to_string(), "1-3 5 7");
        assert_eq!(of(&[5, 7, 6, u32::MAX]).to_string(), "5-7 4294967295");
        assert_eq!(of(&[]).to_string(), "");
    }

    #[test]
    fn only_what_is_written_so_is_read() {
        for text in ["", "1", "1-40 42-77"] {
            assert_eq!(Past::parse(text).unwrap().to_string(), text);
        }
        for text in ["0", "3-1", "1-2 3", "5 1", "1-2-3", "a", "-", "1,2"] {
            assert_eq!(Past::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_set_of_numbers_holds(
            first in prop::collection::vec(1u32..60, 0..40),
            second in prop::collection::vec(1u32..60, 0..40),
        ) {
            let (mut past, other) = (of(&first), of(&second));
            past.join(&other);
            let all: BTreeSet<Node> = first.iter().chain(&second).copied().map(Node).collect();
            prop_assert_eq!(past.nodes().collect::<BTreeSet<_>>(), all.clone());
            prop_assert_eq!(past.last(), all.last().copied());
            prop_assert!((1..62).map(Node).all(|node| past.contains(node) == all.contains(&node)));
            prop_assert_eq!(Past::parse(&past.to_string()), Some(past));
        }
    }
}
