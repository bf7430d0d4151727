//! Options of an emulated disk.

use sim::setup::Setup;

/// Options of the emulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device, in settings of the simulator: `disk`, `disks`, `raid`, `stripe_unit`, `disk_bus_mb_s`,
    /// `scheduler`.
    pub setup: Setup,
    /// Capacity in bytes, if less than the device's.
    pub capacity_bytes: Option<u64>,
    /// Maximum of requests in the block layer.
    pub queue_depth: usize,
    /// Speed of the device's time relative to real time.
    pub speedup: f64,
    /// Whether the kernel's page cache may hide the device.
    pub page_cache: bool,
    /// Whether `fsync` reaches the backing directory's file system.
    pub sync: bool,
    /// Minimum that a growing file reserves, in bytes.
    pub extent_bytes: u64,
}
