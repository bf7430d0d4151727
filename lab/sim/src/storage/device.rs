//! A device of any kind, as the block layer sees it.

use super::drawn::Drawn;
use crate::block::Io;
use crate::disk::{Command, Disk};
use crate::ssd::Ssd;
use policy::tier::cost::DeviceCost;
use policy::time::Time;

/// A device of one of the kinds.
#[derive(Debug)]
pub enum Device {
    /// A mechanical disk: one request at a time.
    Disk(Box<Disk>),
    /// A solid-state drive.
    Ssd(Ssd),
    /// A service time that depends on the size alone: for tests, examples computed by hand, and devices known by
    /// their bandwidth.
    Constant(Service),
    /// A device with random positioning times. One request at a time.
    Drawn(Drawn),
}

/// A device with a service time that depends on the size alone. One request at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Number of addressable sectors.
    pub sectors: u64,
    /// Cost of a read.
    pub read: Cost,
    /// Cost of a write.
    pub write: Cost,
    /// Busy time so far.
    pub busy_ns: u64,
}

/// A service time: a part per request and a part per byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Time per request.
    pub request: Time,
    /// Per sector, in picoseconds: a sector at 1 GB/s takes 512 000 of them.
    pub sector_ps: u64,
}

impl Cost {
    fn of(&self, sectors: u64) -> u64 {
        self.request.0 + (u128::from(self.sector_ps) * u128::from(sectors) / 1000) as u64
    }
}

impl Service {
    /// Creates a device of 2^40 sectors with this service time for reads and writes.
    pub fn new(request: Time, sector: Time) -> Service {
        let cost = Cost { request, sector_ps: sector.0 * 1000 };
        Service { sectors: 1 << 40, read: cost, write: cost, busy_ns: 0 }
    }
}

impl Device {
    /// Creates a device with a service time of latency plus bytes over bandwidth.
    pub fn of_cost(of: &DeviceCost) -> Device {
        let cost = |latency_ns: f64, ns_per_byte: f64| Cost {
            request: Time(latency_ns as u64),
            sector_ps: (ns_per_byte * 512.0 * 1000.0) as u64,
        };
        Device::Constant(Service {
            sectors: 1 << 40,
            read: cost(of.read_latency_ns, of.read_ns_per_byte),
            write: cost(of.write_latency_ns, of.write_ns_per_byte),
            busy_ns: 0,
        })
    }

    /// Number of addressable sectors.
    pub fn sectors(&self) -> u64 {
        match self {
            Device::Disk(disk) => disk.sectors(),
            Device::Ssd(ssd) => ssd.model().sectors,
            Device::Constant(service) => service.sectors,
            Device::Drawn(_) => 1 << 40,
        }
    }

    /// Maximum of concurrent requests.
    pub fn slots(&self) -> u32 {
        match self {
            Device::Disk(_) | Device::Constant(_) | Device::Drawn(_) => 1,
            Device::Ssd(ssd) => ssd.model().slots,
        }
    }

    /// Begins `io`; returns the time of its completion.
    #[inline]
    pub fn serve(&mut self, now: Time, io: &Io) -> Time {
        match self {
            Device::Disk(disk) => disk.serve(now, Command { sector: io.sector, count: io.count, write: io.write }).done,
            Device::Ssd(ssd) => ssd.serve(now, io.sector, io.count, io.write),
            Device::Constant(service) => {
                let took = if io.write { service.write } else { service.read }.of(io.count);
                service.busy_ns += took;
                now + Time(took)
            }
            Device::Drawn(drawn) => drawn.serve(now, io.count),
        }
    }

    /// Busy time; 0 for a solid-state drive, whose requests overlap, and for random positioning.
    pub fn busy_ns(&self) -> u64 {
        match self {
            Device::Disk(disk) => disk.counts().busy_ns,
            Device::Ssd(_) | Device::Drawn(_) => 0,
            Device::Constant(service) => service.busy_ns,
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        if let Device::Disk(disk) = self {
            disk.check();
        }
    }
}
