//! Performance of devices relative to their nominal one: an input of the rules, unknown to the model.
//!
//! `1/2` times the expected time of an operation over its real time: 0.5 is nominal, 0.25 takes twice as long. The
//! expected time includes the wait in the device's queue. Behind a network only the sum of network and device is
//! measurable.

use super::device::BLOCK_BYTES;
use super::model::{Device, Parameters};

/// Least number of operations for a mean. A guess.
const OPERATIONS_MIN: u64 = 8;

/// Measured operations on devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Number of operations.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Duration of the operations in nanoseconds, summed.
    pub took_ns: u64,
    /// Operations on the device at the start of each operation, including itself, summed.
    pub queued: u64,
}

impl Served {
    /// Returns the sum of both.
    pub fn and(self, other: Served) -> Served {
        Served {
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
            took_ns: self.took_ns + other.took_ns,
            queued: self.queued + other.queued,
        }
    }

    /// Returns the difference from `before`, if both are counted from the same start.
    pub fn since(self, before: Served) -> Served {
        Served {
            operations: self.operations.saturating_sub(before.operations),
            bytes: self.bytes.saturating_sub(before.bytes),
            took_ns: self.took_ns.saturating_sub(before.took_ns),
            queued: self.queued.saturating_sub(before.queued),
        }
    }
}

/// Recent performance of devices: half of it from the latest operations, half from earlier ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Performance {
    gathered: Served,
    now: Option<f64>,
}

impl Performance {
    /// Adds operations of devices with these parameters.
    pub fn add(&mut self, parameters: &Parameters, more: Served) {
        self.gathered = self.gathered.and(more);
        if self.gathered.operations < OPERATIONS_MIN {
            return;
        }
        let Served { operations, bytes, took_ns, queued } = std::mem::take(&mut self.gathered);
        let count = operations as f64;
        let blocks = bytes as f64 / count / BLOCK_BYTES;
        let channels = match parameters.device {
            Device::Disk { .. } => 1.0,
            Device::Flash { channels, .. } => channels.max(1.0),
        };
        let alone_s = Parameters { request_blocks: blocks, ..*parameters }.predict(1).service_s;
        let expected_s = alone_s * (queued as f64 / count / channels).max(1.0);
        let did = (0.5 * expected_s / (took_ns as f64 / 1e9 / count).max(1e-9)).clamp(0.0, 1.0);
        self.now = Some(self.now.map_or(did, |before| (before + did) / 2.0));
    }

    /// Returns the performance, from 0 to 1; `None` while too few operations are measured.
    pub fn now(&self) -> Option<f64> {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stripe::device::Measured;

    /// Ten operations of 64 KiB on a disk, each with `times` the expected duration, with `queue` at a time.
    fn after(times: f64, queue: u64) -> Option<f64> {
        let disk = Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0);
        let service_s = disk.latency_s + 65536.0 / disk.read_rate;
        let took_ns = (service_s * times * 1e10) as u64;
        let mut performance = Performance::default();
        performance.add(&disk.parameters(8), Served { operations: 10, bytes: 655_360, took_ns, queued: 10 * queue });
        performance.now()
    }

    #[test]
    fn half_is_as_said_and_queues_are_no_slowness() {
        for (times, queue, expected) in [(1.0, 1, 0.5), (2.0, 1, 0.25), (0.25, 1, 1.0), (4.0, 4, 0.5)] {
            let now = after(times, queue).unwrap();
            assert!((now - expected).abs() < 1e-6, "{times} {queue}: {now}");
        }
    }

    #[test]
    fn few_operations_say_nothing_until_there_are_more() {
        let parameters = Measured::default().parameters(8);
        let mut performance = Performance::default();
        let three = Served { operations: 3, bytes: 3 << 16, took_ns: 30_000_000, queued: 3 };
        for known in [false, false, true] {
            performance.add(&parameters, three);
            assert_eq!(performance.now().is_some(), known);
        }
    }
}
