//! Costs of accesses and moves on each tier, in device time.

use super::{Region, Tier};

/// Speed of one device. An access of `bytes` takes `latency + bytes * ns_per_byte`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCost {
    /// Part of a read that does not depend on its size.
    pub read_latency_ns: f64,
    /// Part of a write that does not depend on its size.
    pub write_latency_ns: f64,
    /// Time per byte read.
    pub read_ns_per_byte: f64,
    /// Time per byte written.
    pub write_ns_per_byte: f64,
}

impl DeviceCost {
    /// Makes a cost from the paper's unit: seconds per gigabyte (10^9 bytes), without latency.
    pub fn seconds_per_gb(read: f64, write: f64) -> DeviceCost {
        DeviceCost { read_latency_ns: 0.0, write_latency_ns: 0.0, read_ns_per_byte: read, write_ns_per_byte: write }
    }

    /// Returns the device time of one access.
    pub fn access_ns(&self, region: Region, bytes: f64) -> f64 {
        match region {
            Region::Read => self.read_latency_ns + bytes * self.read_ns_per_byte,
            Region::Write => self.write_latency_ns + bytes * self.write_ns_per_byte,
        }
    }
}

/// Costs of both tiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Cost of a fast device.
    pub fast: DeviceCost,
    /// Cost of a slow device.
    pub slow: DeviceCost,
    /// Number of fast devices.
    pub fast_devices: u32,
    /// Number of slow devices.
    pub slow_devices: u32,
}

impl Default for Costs {
    /// The paper's: 4 SSDs (read 0.1, write 0.5 s/GB) and 4 disks (read 1, write 2 s/GB).
    fn default() -> Costs {
        Costs {
            fast: DeviceCost::seconds_per_gb(0.1, 0.5),
            slow: DeviceCost::seconds_per_gb(1.0, 2.0),
            fast_devices: 4,
            slow_devices: 4,
        }
    }
}

impl Costs {
    /// Returns the cost of a device of a tier.
    pub fn of(&self, tier: Tier) -> &DeviceCost {
        match tier {
            Tier::Fast => &self.fast,
            Tier::Slow => &self.slow,
        }
    }
}
