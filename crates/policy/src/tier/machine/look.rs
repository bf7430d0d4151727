//! What people want to know of the machine.

use super::Reorganizer;
use crate::tier::{Location, Tier};
use std::collections::BTreeMap;

/// How warm a location is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temperature {
    /// Which.
    pub location: Location,
    /// Reads within the window.
    pub reads: u32,
    /// Writes within the window.
    pub writes: u32,
    /// Where it lies.
    pub tier: Tier,
    /// It is on its way to the other tier.
    pub moving: bool,
}

impl Reorganizer {
    /// The locations that were accessed most often within the window, at most `max`; the hottest first.
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

    /// One location.
    pub fn look_at(&self, location: Location) -> Temperature {
        let (reads, writes) = self.temperature(location);
        let moving = self.moving.contains_key(&location);
        Temperature { location, reads, writes, tier: self.tier(location), moving }
    }

    /// Whether a location is on its way, or being copied.
    pub fn is_moving(&self, location: Location) -> bool {
        self.moving.contains_key(&location) || self.copies.is_making(location)
    }

    /// Locations that still fit on the fast tier.
    pub fn free_locations(&self) -> u64 {
        self.room()
    }

    /// The files whose locations the machine remembers.
    pub fn remembers(&self, file: u64) -> bool {
        let first = Location { file, segment: 0 };
        let last = Location { file, segment: u64::MAX };
        self.fast.range(first..=last).next().is_some()
            || self.read.of_file(file).next().is_some()
            || self.write.of_file(file).next().is_some()
    }
}
