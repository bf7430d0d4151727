//! What an emulated disk is asked to be.

use sim::setup::Setup;

/// How a disk is emulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device in the simulator's words: `disk`, `disks`, `raid`, `stripe_unit`, `disk_bus_mb_s`, `scheduler`.
    pub setup: Setup,
    /// Bytes, if less than the device has.
    pub capacity_bytes: Option<u64>,
    /// Requests that the block layer holds at most.
    pub queue_depth: usize,
    /// How many times faster than real time the device works.
    pub speedup: f64,
    /// Whether the kernel's page cache may hide the device.
    pub page_cache: bool,
    /// Whether `fsync` reaches the backing directory's file system.
    pub sync: bool,
    /// Bytes that a growing file reserves at least.
    pub extent_bytes: u64,
}
