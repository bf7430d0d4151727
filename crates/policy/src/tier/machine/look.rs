//! Reports on the machine for users.

use super::Reorganizer;
use crate::tier::{Location, Tier};
use std::collections::BTreeMap;

/// Accesses and place of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temperature {
    /// The reported location.
    pub location: Location,
    /// Reads within the window.
    pub reads: u32,
    /// Writes within the window.
    pub writes: u32,
    /// Its present tier.
    pub tier: Tier,
    /// Whether it is being moved.
    pub moving: bool,
}

impl Reorganizer {
    /// Returns the locations with most accesses within the window, at most `max`, hottest first.
    pub fn hottest(&self, max: usize) -> Vec<Temperature> {
        let mut counts: BTreeMap<Location, u32> = BTreeMap::new();
        for (location, entry) in self.read.iter().chain(self.write.iter()) {
            *counts.entry(location).or_default() += entry.hotness();
        }
        let mut ranks: Vec<(u32, Location)> = counts.into_iter().map(|(location, count)| (count, location)).collect();
        ranks.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        ranks.truncate(max);
        ranks.into_iter().map(|(_, location)| self.look_at(location)).collect()
    }

    /// Returns the report on one location.
    pub fn look_at(&self, location: Location) -> Temperature {
        let (reads, writes) = self.temperature(location);
        let moving = self.moving.contains_key(&location);
        Temperature { location, reads, writes, tier: self.tier(location), moving }
    }

    /// Whether a location is being moved or copied.
    pub fn is_moving(&self, location: Location) -> bool {
        self.moving.contains_key(&location) || self.copies.is_making(location)
    }

    /// Returns the number of locations that still fit on the fast tier.
    pub fn free_locations(&self) -> u64 {
        self.room()
    }

    /// Whether the machine has entries for a file.
    pub fn remembers(&self, file: u64) -> bool {
        let first = Location { file, segment: 0 };
        let last = Location { file, segment: u64::MAX };
        self.fast.range(first..=last).next().is_some()
            || self.read.of_file(file).next().is_some()
            || self.write.of_file(file).next().is_some()
    }
}
