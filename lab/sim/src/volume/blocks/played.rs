//! Results of playing requests.

use super::World;
use crate::latency::Latencies;
use policy::Time;
use policy::tier::machine::Reorganizer;
use serde::Serialize;

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Played {
    /// Number of served requests.
    pub requests: u64,
    /// Time from the first request, or the end of the warm-up, to the last answer, in seconds.
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
    /// Blocks moved to the fast tier.
    pub promoted: u64,
    /// Blocks moved to the slow tier.
    pub demoted: u64,
    /// Moves given up because the block was written during the move.
    pub failed: u64,
    /// Slow copies made while the devices were idle, also before the first request.
    pub copied: u64,
    /// Maximum space of slow copies, in megabytes (2^20).
    pub copies_mib: f64,
    /// Megabytes (2^20) that moves and cache fills read and wrote.
    pub moved_mib: f64,
    /// Hotness above which reads are promoted at the end, if a machine moves data.
    pub threshold: Option<u32>,
}

/// Counters, and their start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    began: Time,
    pub latencies: Latencies,
    /// Accesses by tier.
    pub accesses: [u64; 2],
    /// Bytes read and written by moves and cache fills.
    pub moved_bytes: u64,
    /// Busy time before the start, by tier.
    busy_ns: [u64; 2],
}

impl World<'_> {
    /// Starts the counters at the end of the warm-up.
    pub(super) fn count_from_now(&mut self) {
        let (now, busy_ns) = (self.now, [0, 1].map(|tier| self.busy_ns(tier, self.now)));
        if let Some(playing) = &mut self.playing {
            playing.counts = Counts { began: now, busy_ns, ..Counts::default() };
        }
    }

    fn busy_ns(&self, tier: u8, now: Time) -> u64 {
        let of_tier = self.targets.all.iter().filter(|target| target.tier == tier);
        of_tier.map(|target| target.busy_ns(now)).sum()
    }

    pub(super) fn played(&self) -> Played {
        let Some(playing) = &self.playing else { return Played::default() };
        let Counts { began, latencies, accesses, moved_bytes, busy_ns } = &playing.counts;
        let span = playing.end.since(*began);
        let busy = |tier: u8| {
            let devices = self.targets.all.iter().filter(|target| target.tier == tier).count().max(1);
            let sum = self.busy_ns(tier, playing.end) - busy_ns[usize::from(tier)];
            sum as f64 / (span.0.max(1) as f64 * devices as f64)
        };
        let machine = self.volume.tiers();
        let stats = machine.map(Reorganizer::stats).unwrap_or_default();
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Played {
            requests: latencies.count(),
            span_s: span.as_secs_f64(),
            mean_ms: latencies.mean_ms(),
            p95_ms: latencies.quantile_ms(0.95),
            fast_share: accesses[0] as f64 / accesses.iter().sum::<u64>().max(1) as f64,
            fast_busy: busy(0),
            slow_busy: busy(1),
            promoted: stats.promoted,
            demoted: stats.demoted,
            failed: stats.failed,
            copied: stats.copied,
            copies_mib: mib(self.copies.most_bytes()),
            moved_mib: mib(*moved_bytes),
            threshold: machine.and_then(Reorganizer::threshold),
        }
    }
}
