//! Deadlines of files in order of time, so that a tick visits only the files that are due.

use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Bound;

/// Deadline of each file. It follows from the files, so it counts for neither equality nor hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    ordered: BTreeSet<(Time, u64)>,
    of: BTreeMap<u64, Time>,
}

impl PartialEq for Deadlines {
    fn eq(&self, _: &Deadlines) -> bool {
        true
    }
}

impl Eq for Deadlines {}

impl Hash for Deadlines {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Deadlines {
    /// Sets or removes the deadline of a file.
    pub fn set(&mut self, key: u64, deadline: Option<Time>) {
        let before = match deadline {
            Some(time) => self.of.insert(key, time),
            None => self.of.remove(&key),
        };
        if before != deadline {
            if let Some(time) = before {
                self.ordered.remove(&(time, key));
            }
            self.ordered.extend(deadline.map(|time| (time, key)));
        }
    }

    /// Place of a file in the order.
    pub fn place(&self, key: u64) -> Option<(Time, u64)> {
        Some((*self.of.get(&key)?, key))
    }

    /// Files after a place, in order.
    pub fn after(&self, place: (Time, u64)) -> impl Iterator<Item = (Time, u64)> {
        self.ordered.range((Bound::Excluded(place), Bound::Unbounded)).copied()
    }

    /// The first deadline.
    pub fn first(&self) -> Option<Time> {
        self.ordered.first().map(|(time, _)| *time)
    }

    /// Files whose deadline has passed.
    pub fn due(&self, now: Time) -> Vec<u64> {
        self.ordered.range(..=(now, u64::MAX)).map(|(_, key)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_deadline_and_only_due_files_are_visited() {
        let mut deadlines = Deadlines::default();
        (0..100_000).for_each(|key| deadlines.set(key, Some(Time(1000 + key))));
        deadlines.set(7, Some(Time(500)));
        deadlines.set(1, None);
        assert_eq!(deadlines.first(), Some(Time(500)));
        assert_eq!((deadlines.due(Time(499)), deadlines.due(Time(1002))), (vec![], vec![7, 0, 2]));
        deadlines.set(7, None);
        assert_eq!(deadlines.first(), Some(Time(1000)));
    }
}
