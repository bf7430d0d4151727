//! The ghost list: what was accessed lately, and how often since, whether or not it is on the fast tier.
//!
//! A location's stay begins when it is accessed and not in the list, and ends when more others were accessed since its last access than the
//! list has room for. Memory: one entry for each location of the list.

use super::{Location, Region};
use std::collections::BTreeMap;

/// A location in its stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// Reads so far.
    pub reads: u32,
    /// Writes so far.
    pub writes: u32,
    /// The number of its last access, from 1; 0 if there is none.
    pub last: u64,
}

impl Stay {
    /// Accesses so far.
    pub fn accesses(&self) -> u32 {
        self.reads.saturating_add(self.writes)
    }
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct GhostList {
    held: BTreeMap<Location, Stay>,
    order: BTreeMap<u64, Location>,
    accesses: u64,
}

impl GhostList {
    /// Counts an access and gives the stay before it, which has no accesses if it only begins.
    pub fn touch(&mut self, location: Location, region: Region) -> Stay {
        self.accesses += 1;
        let stay = self.held.entry(location).or_default();
        let before = *stay;
        match region {
            Region::Read => stay.reads = stay.reads.saturating_add(1),
            Region::Write => stay.writes = stay.writes.saturating_add(1),
        }
        stay.last = self.accesses;
        self.order.remove(&before.last);
        self.order.insert(self.accesses, location);
        before
    }

    /// Ends the stay of the location that was accessed longest ago, if there are more than `room`.
    pub fn end(&mut self, room: usize) -> Option<Stay> {
        let oldest = *self.order.first_key_value().filter(|_| self.held.len() > room)?.1;
        self.forget(oldest)
    }

    /// Forgets a location, and gives its stay if it had one.
    pub fn forget(&mut self, location: Location) -> Option<Stay> {
        let stay = self.held.remove(&location)?;
        self.order.remove(&stay.last);
        Some(stay)
    }

    /// The locations of a file.
    pub fn of_file(&self, file: u64) -> Vec<Location> {
        let all = Location { file, segment: 0 }..=Location { file, segment: u64::MAX };
        self.held.range(all).map(|(location, _)| *location).collect()
    }

    /// The stay of a location; without accesses if it has none.
    pub fn get(&self, location: Location) -> Stay {
        self.held.get(&location).copied().unwrap_or_default()
    }

    /// The stays whose last access was later than number `after` and not later than number `until`.
    pub fn between(&self, after: u64, until: u64) -> impl Iterator<Item = Stay> + '_ {
        self.order
            .range(after + 1..=until.max(after + 1))
            .map(|(_, location)| self.get(*location))
            .filter(move |stay| stay.last <= until)
    }

    /// Locations in the list.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// All accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment: u64) -> Location {
        Location { file: 0, segment }
    }

    #[test]
    fn a_stay_ends_when_enough_others_were_accessed_since() {
        let mut ghosts = GhostList::default();
        for block in [1, 2, 1, 3] {
            ghosts.touch(at(block), Region::Read);
            assert!(ghosts.end(3).is_none());
        }
        assert_eq!(ghosts.touch(at(1), Region::Write), Stay { reads: 2, writes: 0, last: 3 });
        ghosts.touch(at(4), Region::Read);
        assert_eq!(ghosts.end(3), Some(Stay { reads: 1, writes: 0, last: 2 }), "the second was accessed longest ago");
        assert_eq!((ghosts.get(at(1)), ghosts.get(at(2))), (Stay { reads: 2, writes: 1, last: 5 }, Stay::default()));
        assert_eq!(ghosts.between(3, 5).map(|stay| stay.last).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(ghosts.between(4, 4).count(), 0);
        assert!(ghosts.forget(at(3)).is_some() && ghosts.forget(at(3)).is_none());
        assert_eq!((ghosts.of_file(0), ghosts.len(), ghosts.accesses()), (vec![at(1), at(4)], 2, 6));
    }
}
