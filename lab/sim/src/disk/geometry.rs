//! Location of a sector: logical number to cylinder, surface and angle.
//!
//! ```text
//! zone:  cylinder c          cylinder c+1
//!        surface 0 1 .. n-1  surface 0 1 .. n-1      (serpentine: n-1 .. 0 on odd cylinders)
//! start of each track is later by the track skew, of each cylinder's first track by the cylinder skew
//! ```

use super::model::Model;

/// A sector on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the cylinder.
    pub cylinder: u32,
    /// Surface, which is the number of its head.
    pub surface: u32,
    /// Number on its track.
    pub sector: u32,
    /// Sectors on that track.
    pub track_sectors: u32,
    /// Angle behind the index mark, in sector widths.
    pub angle_sectors: u32,
}

/// Mapping of one model, with precomputed parts.
#[derive(Debug)]
pub struct Geometry {
    zones: Vec<ZoneMap>,
    surfaces: u64,
    serpentine: bool,
    sectors: u64,
}

#[derive(Debug)]
struct ZoneMap {
    first: u64,
    cylinder_first: u32,
    track_sectors: u64,
    track_skew: u64,
    /// Skew between the first tracks of consecutive cylinders.
    cylinder_pitch: u64,
}

impl Geometry {
    /// Computes the mapping of `model`.
    pub fn new(model: &Model) -> Geometry {
        let surfaces = u64::from(model.surfaces);
        let mut first = 0;
        let zones = model.zones.iter().map(|zone| {
            let map = ZoneMap {
                first,
                cylinder_first: zone.cylinder_first,
                track_sectors: u64::from(zone.track_sectors),
                track_skew: u64::from(zone.track_skew_sectors),
                cylinder_pitch: (surfaces - 1) * u64::from(zone.track_skew_sectors)
                    + u64::from(zone.cylinder_skew_sectors),
            };
            let cylinders = u64::from(zone.cylinder_last - zone.cylinder_first + 1);
            first += cylinders * surfaces * u64::from(zone.track_sectors) - u64::from(zone.spare_sectors);
            map
        });
        let zones: Vec<_> = zones.collect();
        assert!(first >= model.sectors, "{}: zones hold {first} sectors of {}", model.name, model.sectors);
        Geometry { zones, surfaces, serpentine: model.serpentine, sectors: model.sectors }
    }

    /// Number of sectors that a host can address.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the location of `sector`.
    pub fn place(&self, sector: u64) -> Place {
        debug_assert!(sector < self.sectors);
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first <= sector) - 1];
        let offset = sector - zone.first;
        let track = offset / zone.track_sectors;
        let on_track = offset % zone.track_sectors;
        let cylinder = track / self.surfaces;
        let nth = track % self.surfaces;
        let skew = cylinder * zone.cylinder_pitch + nth * zone.track_skew;
        let absolute = zone.cylinder_first + cylinder as u32;
        let surface = if self.serpentine && absolute % 2 == 1 { self.surfaces - 1 - nth } else { nth };
        Place {
            cylinder: absolute,
            surface: surface as u32,
            sector: on_track as u32,
            track_sectors: zone.track_sectors as u32,
            angle_sectors: ((on_track + skew) % zone.track_sectors) as u32,
        }
    }

    /// Returns the number of sectors from `sector` on that follow without a movement of the head, including `sector`.
    /// A zone whose last track is partly spare ends early.
    pub fn run(&self, sector: u64) -> u64 {
        let at = self.zones.partition_point(|zone| zone.first <= sector);
        let zone = &self.zones[at - 1];
        let left_on_track = zone.track_sectors - (sector - zone.first) % zone.track_sectors;
        let zone_end = self.zones.get(at).map_or(self.sectors, |next| next.first);
        left_on_track.min(zone_end - sector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::{ATLAS10K, CHEETAH9LP};

    #[test]
    fn tracks_cylinders_and_zones_follow_each_other_with_their_skews() {
        let map = Geometry::new(&CHEETAH9LP);
        assert_eq!(map.sectors(), 17_783_240);
        let first = map.place(0);
        assert_eq!((first.cylinder, first.surface, first.angle_sectors), (0, 0, 0));
        let next_track = map.place(254);
        assert_eq!((next_track.cylinder, next_track.surface, next_track.angle_sectors), (0, 1, 97));
        let next_cylinder = map.place(254 * 12);
        assert_eq!((next_cylinder.cylinder, next_cylinder.surface), (1, 0));
        assert_eq!(next_cylinder.angle_sectors, (11 * 97 + 133) % 254);
        assert_eq!(map.run(250), 4);
        let last = map.place(17_783_239);
        assert_eq!(last.track_sectors, 167);
        assert!(last.cylinder <= 6961);
    }

    #[test]
    fn serpentine_keeps_the_surface_across_a_cylinder() {
        let map = Geometry::new(&ATLAS10K);
        assert_eq!(map.place(334 * 6 - 1).surface, 5);
        assert_eq!(map.place(334 * 6).surface, 5);
        assert_eq!(map.place(334 * 12).surface, 0);
    }

    #[test]
    fn no_two_sectors_share_a_place() {
        let map = Geometry::new(&CHEETAH9LP);
        let mut before = map.place(0);
        for sector in 1..200_000 {
            let place = map.place(sector);
            let forward =
                (place.cylinder, place.surface, place.sector) > (before.cylinder, before.surface, before.sector);
            assert!(forward, "sector {sector} does not lie behind the one before");
            before = place;
        }
    }
}
