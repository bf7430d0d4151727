//! What came out of a world.

use super::{Device, World};
use crate::latency::Latencies;
use policy::tier::machine::Reorganizer;
use policy::time::Time;
use serde::Serialize;

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests served.
    pub requests: u64,
    /// From the first request, or the end of the warm-up, to the last answer, in seconds.
    pub span_s: f64,
    /// Mean response time, in milliseconds.
    pub mean_ms: f64,
    /// 95th percentile of the response times, in milliseconds.
    pub p95_ms: f64,
    /// Share of the accesses that the fast tier served.
    pub fast_share: f64,
    /// Share of the time that a fast device was busy.
    pub fast_busy: f64,
    /// Share of the time that a slow device was busy.
    pub slow_busy: f64,
    /// Locations moved to the fast tier.
    pub promoted: u64,
    /// Locations moved to the slow tier.
    pub demoted: u64,
    /// Moves given up because the location was written meanwhile.
    pub failed: u64,
    /// Slow copies made while the devices were idle, also before the first request.
    pub copied: u64,
    /// The most space that slow copies took at a time, in megabytes (2^20).
    pub copies_mib: f64,
    /// Megabytes (2^20) that moves and cache fills read and wrote.
    pub moved_mib: f64,
    /// Hotness above which reads are promoted at the end, if a machine moves data.
    pub threshold: Option<u32>,
}

/// What is counted, and since when.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub began: Time,
    pub latencies: Latencies,
    /// By tier.
    pub accesses: [u64; 2],
    /// Read and written by moves and cache fills.
    pub moved_bytes: u64,
}

impl World<'_> {
    pub(super) fn figures(&self) -> Figures {
        let Counts { began, latencies, accesses, moved_bytes } = &self.counts;
        let span = self.end.since(*began);
        let busy = |devices: &[Device]| {
            let sum: u64 = devices.iter().map(|device| device.busy_ns).sum();
            sum as f64 / (span.0.max(1) as f64 * devices.len().max(1) as f64)
        };
        let (fast, slow) = self.devices.split_at(self.fast_devices);
        let stats = self.machine.as_ref().map(Reorganizer::stats).unwrap_or_default();
        Figures {
            requests: latencies.count(),
            span_s: span.as_secs_f64(),
            mean_ms: latencies.mean_ms(),
            p95_ms: latencies.quantile_ms(0.95),
            fast_share: accesses[0] as f64 / accesses.iter().sum::<u64>().max(1) as f64,
            fast_busy: busy(fast),
            slow_busy: busy(slow),
            promoted: stats.promoted,
            demoted: stats.demoted,
            failed: stats.failed,
            copied: stats.copied,
            copies_mib: (self.copies.most * self.setup.block_bytes) as f64 / f64::from(1 << 20),
            moved_mib: *moved_bytes as f64 / f64::from(1 << 20),
            threshold: self.machine.as_ref().and_then(Reorganizer::threshold),
        }
    }
}
