//! Parameters of a disk model, and the two drives with published parameters.

use serde::Deserialize;
use std::sync::LazyLock;

/// Seagate Cheetah 9LP.
pub static CHEETAH9LP: LazyLock<&Model> = LazyLock::new(|| Model::named("cheetah9lp").expect("it is built in"));
/// Quantum Atlas 10K.
pub static ATLAS10K: LazyLock<&Model> = LazyLock::new(|| Model::named("atlas10k").expect("it is built in"));

/// Parameters of a drive. Sectors have 512 bytes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name on the command line, or of the file.
    #[serde(skip)]
    pub name: String,
    /// Sectors that a host can address.
    pub sectors: u64,
    /// Surfaces with data, one head each.
    pub surfaces: u32,
    /// Cylinders, spare ones included.
    pub cylinders: u32,
    /// Whether odd cylinders are filled from the last surface to the first, so that crossing a cylinder keeps the head.
    pub serpentine: bool,
    /// Revolutions per minute.
    pub revolutions_per_minute: u32,
    /// Time to activate another head.
    pub head_switch_ns: u64,
    /// Additional settling time of a write after a movement of the head.
    pub write_settle_ns: u64,
    /// Time to move one sector between drive and host. It depends on the host's bus as well: a disk can be given
    /// another.
    pub bus_sector_ns: u64,
    /// Zones, outer first.
    pub zones: Vec<Zone>,
    /// The seek curve: cylinders crossed and microseconds, ascending; linear between the points.
    pub seeks: Vec<(u32, u32)>,
    /// Buffer of the drive.
    pub buffer: Buffer,
    /// Overheads of a command before any movement.
    pub overheads: Overheads,
    /// Root-mean-square distance between simulated and measured service times, as published by DiskSim's authors.
    pub published_demerit_ns: Option<u64>,
}

/// Cylinders with the same number of sectors per track.
#[derive(Debug, Deserialize)]
#[serde(from = "[u32; 6]")]
pub struct Zone {
    /// First cylinder of the zone.
    pub cylinder_first: u32,
    /// Last cylinder of the zone.
    pub cylinder_last: u32,
    /// Sectors on a track.
    pub track_sectors: u32,
    /// Skew between consecutive tracks of a cylinder, in sectors.
    pub track_skew_sectors: u32,
    /// Skew between the last track of a cylinder and the first of the next, in sectors.
    pub cylinder_skew_sectors: u32,
    /// Sectors at the end of the zone without data: spares, and as many as were slipped over defects.
    pub spare_sectors: u32,
}

/// The buffer on the drive, cut into segments that each hold one range.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Number of segments.
    pub segments: usize,
    /// Maximum of segments with written data.
    pub write_segments_max: usize,
    /// Sectors in a segment.
    pub segment_sectors: u64,
    /// Maximum of sectors that are read ahead of the last request.
    pub read_ahead_sectors_max: u64,
    /// Whether the head, after its arrival, also reads the sectors before the first requested one. Read-ahead then
    /// ends when the segment is full.
    pub read_on_arrival: bool,
}

/// Command overheads; the first number holds after a read, the second after a write.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// A read whose first sector is in the buffer.
    pub read_hit_ns: [u64; 2],
    /// Any other read.
    pub read_miss_ns: [u64; 2],
    /// A write that the buffer takes at once.
    pub write_hit_ns: [u64; 2],
    /// A write that waits for the medium: all segments are dirty, or it is longer than one.
    pub write_miss_ns: [u64; 2],
}

impl From<[u32; 6]> for Zone {
    /// The numbers are in the order of the fields.
    fn from(of: [u32; 6]) -> Zone {
        let [cylinder_first, cylinder_last, track_sectors, track_skew_sectors, cylinder_skew_sectors, spare_sectors] =
            of;
        Zone { cylinder_first, cylinder_last, track_sectors, track_skew_sectors, cylinder_skew_sectors, spare_sectors }
    }
}

impl Model {
    /// Returns the built-in model of this name.
    pub fn named(name: &str) -> Option<&'static Model> {
        super::devices::built_in().find(|(of, _)| *of == name)?.1.disk.as_ref()
    }

    /// Checks what the simulation takes for granted.
    pub(crate) fn check(&self) -> Result<(), String> {
        let above_0 = [
            (u64::from(self.surfaces), "surfaces"),
            (u64::from(self.revolutions_per_minute), "revolutions_per_minute"),
            (self.buffer.segments as u64, "buffer.segments"),
            (self.buffer.write_segments_max as u64, "buffer.write_segments_max"),
            (self.buffer.segment_sectors, "buffer.segment_sectors"),
            (self.seeks.len() as u64, "seeks"),
            (self.zones.len() as u64, "zones"),
        ];
        if let Some((_, name)) = above_0.iter().find(|(number, _)| *number == 0) {
            return Err(format!("{name} of a disk are more than 0"));
        }
        let right = |zone: &Zone| {
            zone.cylinder_first <= zone.cylinder_last && zone.cylinder_last < self.cylinders && zone.track_sectors > 0
        };
        let ascend = self.zones.windows(2).all(|pair| pair[0].cylinder_last < pair[1].cylinder_first);
        if !ascend || !self.zones.iter().all(right) {
            return Err("zones overlap, descend, are empty or end beyond the last cylinder".into());
        }
        if self.seeks.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            return Err("seeks are not ascending in their cylinders".into());
        }
        let held = |zone: &Zone| {
            let tracks = u64::from(zone.cylinder_last - zone.cylinder_first + 1) * u64::from(self.surfaces);
            (tracks * u64::from(zone.track_sectors)).saturating_sub(zone.spare_sectors.into())
        };
        let held: u64 = self.zones.iter().map(held).sum();
        if self.sectors == 0 || held < self.sectors {
            return Err(format!("zones hold {held} sectors, and the disk has {}", self.sectors));
        }
        Ok(())
    }

    /// Returns the time of one revolution.
    pub fn revolution_ns(&self) -> u64 {
        (60_000_000_000 + u64::from(self.revolutions_per_minute) / 2) / u64::from(self.revolutions_per_minute)
    }
}
