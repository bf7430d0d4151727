//! The parameters of a disk model, and the two drives that are known.

mod atlas10k;
mod cheetah9lp;

pub use atlas10k::ATLAS10K;
pub use cheetah9lp::CHEETAH9LP;

/// Everything that tells one drive from another. Sectors are of 512 bytes.
#[derive(Debug)]
pub struct Model {
    /// What the command line calls it.
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
    /// Activating another head.
    pub head_switch_ns: u64,
    /// What a write waits longer than a read after the head moved.
    pub write_settle_ns: u64,
    /// Moving one sector between drive and host. Belongs to the host's bus as much as to the drive: a disk can be given another.
    pub bus_sector_ns: u64,
    /// Zones, outer first.
    pub zones: &'static [Zone],
    /// The seek curve: cylinders crossed and microseconds, ascending; straight lines between the points.
    pub seeks: &'static [(u32, u32)],
    /// The buffer on the drive.
    pub buffer: Buffer,
    /// What a command costs before anything moves.
    pub overheads: Overheads,
    /// The root-mean-square distance between simulated and measured service times that DiskSim's authors report.
    pub published_demerit_ns: u64,
}

/// Cylinders with the same number of sectors per track.
#[derive(Debug)]
pub struct Zone {
    /// First cylinder.
    pub cylinder_first: u32,
    /// Last cylinder.
    pub cylinder_last: u32,
    /// Sectors on a track.
    pub track_sectors: u32,
    /// By how many sectors a track starts later than the one before on the same cylinder.
    pub track_skew_sectors: u32,
    /// By how many sectors the first track of a cylinder starts later than the last one of the cylinder before.
    pub cylinder_skew_sectors: u32,
    /// Sectors at the end of the zone that hold no data: spares, and as many as were slipped over defects.
    pub spare_sectors: u32,
}

/// The buffer on the drive, cut into segments that each hold one range.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// How many segments.
    pub segments: usize,
    /// How many of them may hold written data at a time.
    pub write_segments_max: usize,
    /// Sectors in a segment.
    pub segment_sectors: u64,
    /// How far the drive reads ahead of the last request.
    pub read_ahead_sectors_max: u64,
    /// Whether the head, once it has arrived, also reads what passes before the first sector asked for. Reading ahead then
    /// ends when the segment is full.
    pub read_on_arrival: bool,
}

/// Command overheads; the first number holds when the command before was a read, the second when it was a write.
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
    /// A zone; the arguments in the order of the fields.
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
    /// The models by name.
    pub const ALL: [&'static Model; 2] = [&CHEETAH9LP, &ATLAS10K];

    /// The model called `name`.
    pub fn named(name: &str) -> Option<&'static Model> {
        Model::ALL.into_iter().find(|model| model.name == name)
    }

    /// One revolution.
    pub fn revolution_ns(&self) -> u64 {
        (60_000_000_000 + u64::from(self.revolutions_per_minute) / 2) / u64::from(self.revolutions_per_minute)
    }
}
