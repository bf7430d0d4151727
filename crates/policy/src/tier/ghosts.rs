//! The ghost list: recently accessed locations and their counts, on either tier.
//!
//! A stay begins when a location is accessed that is not in the list. It ends when more others were accessed since its
//! last access than the list has room for. Memory: one entry for each location of the list.

use super::{Location, Region};
use std::collections::BTreeMap;

/// Entry of a location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// Reads in the stay.
    pub reads: u32,
    /// Writes in the stay.
    pub writes: u32,
    /// Number of its last access, from 1; 0 without accesses.
    pub last: u64,
}

impl Stay {
    /// Returns the accesses in the stay.
    pub fn accesses(&self) -> u32 {
        self.reads.saturating_add(self.writes)
    }
}

/// The list of one volume.
#[derive(Clone, Debug, Default)]
pub struct GhostList {
    held: BTreeMap<Location, Stay>,
    order: BTreeMap<u64, Location>,
    accesses: u64,
}

impl GhostList {
    /// Counts an access and returns the stay before it, without accesses if the stay begins.
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

    /// Ends the stay of the least recently used location, if the list has more than `room` entries.
    pub fn end(&mut self, room: usize) -> Option<Stay> {
        let oldest = *self.order.first_key_value().filter(|_| self.held.len() > room)?.1;
        self.forget(oldest)
    }

    /// Removes a location, and returns its stay if it had one.
    pub fn forget(&mut self, location: Location) -> Option<Stay> {
        let stay = self.held.remove(&location)?;
        self.order.remove(&stay.last);
        Some(stay)
    }

    /// Returns the locations of a file.
    pub fn of_file(&self, file: u64) -> Vec<Location> {
        let all = Location { file, segment: 0 }..=Location { file, segment: u64::MAX };
        self.held.range(all).map(|(location, _)| *location).collect()
    }

    /// Returns all locations of the list, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Location, &Stay)> {
        self.held.iter().map(|(location, stay)| (*location, stay))
    }

    /// Returns the stay of a location; without accesses if it has none.
    pub fn get(&self, location: Location) -> Stay {
        self.held.get(&location).copied().unwrap_or_default()
    }

    /// Returns the stays with a last access after number `after`, up to and including `until`.
    pub fn between(&self, after: u64, until: u64) -> impl Iterator<Item = Stay> + '_ {
        self.order
            .range(after + 1..=until.max(after + 1))
            .map(|(_, location)| self.get(*location))
            .filter(move |stay| stay.last <= until)
    }

    /// Returns the number of locations in the list.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the number of all accesses so far.
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
