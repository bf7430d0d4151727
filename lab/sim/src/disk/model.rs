//! Parameters of a disk model, and the two drives with published parameters.

mod atlas10k;
mod cheetah9lp;

pub use atlas10k::ATLAS10K;
pub use cheetah9lp::CHEETAH9LP;

/// Parameters of a drive. Sectors have 512 bytes.
#[derive(Debug)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
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
    pub zones: &'static [Zone],
    /// The seek curve: cylinders crossed and microseconds, ascending; linear between the points.
    pub seeks: &'static [(u32, u32)],
    /// Buffer of the drive.
    pub buffer: Buffer,
    /// Overheads of a command before any movement.
    pub overheads: Overheads,
    /// Root-mean-square distance between simulated and measured service times, as published by DiskSim's authors.
    pub published_demerit_ns: u64,
}

/// Cylinders with the same number of sectors per track.
#[derive(Debug)]
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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

impl Zone {
    /// Creates a zone; the arguments are in the order of the fields.
    pub const fn new(
        cylinder_first: u32,
        cylinder_last: u32,
        track_sectors: u32,
        track_skew_sectors: u32,
        cylinder_skew_sectors: u32,
        spare_sectors: u32,
    ) -> Zone {
        Zone { cylinder_first, cylinder_last, track_sectors, track_skew_sectors, cylinder_skew_sectors, spare_sectors }
    }
}

impl Model {
    /// All models, by name.
    pub const ALL: [&'static Model; 2] = [&CHEETAH9LP, &ATLAS10K];

    /// Returns the model with this name.
    pub fn named(name: &str) -> Option<&'static Model> {
        Model::ALL.into_iter().find(|model| model.name == name)
    }

    /// Returns the time of one revolution.
    pub fn revolution_ns(&self) -> u64 {
        (60_000_000_000 + u64::from(self.revolutions_per_minute) / 2) / u64::from(self.revolutions_per_minute)
    }
}
