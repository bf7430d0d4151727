//! Gauges of the burst buffer and the tiers, for monitoring.

use super::Adapt;
use engine::stats::{Gauge, Level};

impl Adapt {
    /// Present values of the machines; empty on nodes that do not decide.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let mut all = self.burst().map(|burst| burst.gauges()).unwrap_or_default();
        if let Some(report) = self.report().filter(|_| self.has_tiers()) {
            all.extend([
                Gauge::new(Level::TieringFastSegments, report.fast_segments as f64),
                Gauge::new(Level::TieringRoomSegments, report.room_segments as f64),
                Gauge::new(Level::TieringWaiting, report.waiting as f64),
                Gauge::new(Level::TieringCopiesKept, report.copies as f64),
            ]);
        }
        all
    }
}
