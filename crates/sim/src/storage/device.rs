//! A device of any kind, as the block layer sees it.

use crate::block::Io;
use crate::disk::{Command, Disk};
use crate::ssd::Ssd;
use policy::time::Time;

/// One device.
#[derive(Debug)]
pub enum Device {
    /// A mechanical disk: one request at a time.
    Disk(Box<Disk>),
    /// A solid-state drive.
    Ssd(Ssd),
    /// The same service time for every request: for tests and for hand-checked examples.
    Constant(Service),
}

/// A device with a service time that depends on the size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Sectors that can be addressed.
    pub sectors: u64,
    /// Per request.
    pub request: Time,
    /// Per sector.
    pub sector: Time,
    /// What it did so far.
    pub busy_ns: u64,
}

impl Service {
    /// A device of 2^40 sectors with this service time.
    pub fn new(request: Time, sector: Time) -> Service {
        Service { sectors: 1 << 40, request, sector, busy_ns: 0 }
    }
}

impl Device {
    /// Sectors that can be addressed.
    pub fn sectors(&self) -> u64 {
        match self {
            Device::Disk(disk) => disk.sectors(),
            Device::Ssd(ssd) => ssd.model().sectors,
            Device::Constant(service) => service.sectors,
        }
    }

    /// Requests it takes at a time.
    pub fn slots(&self) -> u32 {
        match self {
            Device::Disk(_) | Device::Constant(_) => 1,
            Device::Ssd(ssd) => ssd.model().slots,
        }
    }

    /// Begin `io`; when it will be done.
    pub fn serve(&mut self, now: Time, io: &Io) -> Time {
        match self {
            Device::Disk(disk) => disk.serve(now, Command { sector: io.sector, count: io.count, write: io.write }).done,
            Device::Ssd(ssd) => ssd.serve(now, io.sector, io.count, io.write),
            Device::Constant(service) => {
                let took = service.request.0 + service.sector.0 * io.count;
                service.busy_ns += took;
                now + Time(took)
            }
        }
    }

    /// Time with something to do; 0 for a solid-state drive, whose requests overlap.
    pub fn busy_ns(&self) -> u64 {
        match self {
            Device::Disk(disk) => disk.counts().busy_ns,
            Device::Ssd(_) => 0,
            Device::Constant(service) => service.busy_ns,
        }
    }

    /// Panic unless its state makes sense.
    pub fn check(&self) {
        if let Device::Disk(disk) = self {
            disk.check();
        }
    }
}
