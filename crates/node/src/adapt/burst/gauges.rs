//! Gauges of the buffer: fill level, turns, and outcomes of checkpoints.

use super::Burst;
use engine::stats::{Gauge, Level};
use std::sync::atomic::Ordering;

impl Burst {
    /// All gauges of the buffer; empty on nodes that do not decide.
    pub(in crate::adapt) fn gauges(&self) -> Vec<Gauge> {
        let machine = self.driver.machine();
        let (Some(admission), Some(done)) = (machine.admission(), machine.burst_stats()) else { return Vec::new() };
        let buffer = admission.buffer();
        let (versions, not_demoted) = buffer.tables().in_buffer();
        let writing = buffer.unfinished().saturating_sub(buffer.waiting());
        let failed = self.counts.failed.load(Ordering::Relaxed) + done.failed;
        vec![
            Gauge::new(Level::BurstSize, self.capacity_bytes as f64),
            Gauge::new(Level::BurstUsed, buffer.used().max(0.0)),
            Gauge::new(Level::BurstNotDemoted, not_demoted as f64),
            Gauge::new(Level::BurstVersions, versions as f64),
            Gauge::new(Level::BurstWaiting, buffer.waiting() as f64),
            Gauge::new(Level::BurstWriting, writing as f64),
            Gauge::new(Level::BurstHeldWrites, admission.held() as f64),
            Gauge::new(Level::CheckpointsCommitted, self.counts.committed.load(Ordering::Relaxed) as f64),
            Gauge::new(Level::CheckpointsFailed, failed as f64),
            Gauge::new(Level::CheckpointsDemoted, done.demoted as f64),
            Gauge::new(Level::CheckpointsDemotedBytes, done.demoted_bytes as f64),
            Gauge::new(Level::RestartsFromBuffer, done.hits as f64),
            Gauge::new(Level::RestartsFromCapacity, done.misses as f64),
        ]
    }
}
