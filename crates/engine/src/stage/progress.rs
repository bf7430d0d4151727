//! Progress of a long operation.

use super::limit::Limit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Progress of a staging or a repair. The callback gets it at most a few times per second.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Subject of the operation, such as a path.
    pub what: String,
    /// Bytes done, including earlier runs.
    pub done_bytes: u64,
    /// Total number of bytes.
    pub total_bytes: u64,
    /// Bytes per second since the start of this run.
    pub rate_bytes_s: f64,
    /// Seconds left at that rate; `None` without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// The limit in force, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// Callback that receives the progress.
pub type Report<'a> = &'a (dyn Fn(&Progress) + Sync);

/// Counts bytes from several threads and reports them.
pub(crate) struct Meter<'a> {
    report: Report<'a>,
    what: String,
    total_bytes: u64,
    earlier_bytes: u64,
    fetched_bytes: AtomicU64,
    /// Bytes of parts under way that have arrived. They are shown, and not kept if the part does not end.
    arrived_bytes: AtomicU64,
    reported_ms: AtomicU64,
    began: Instant,
}

/// Minimum interval between reports: a guess, smooth enough for people.
const REPORT_EVERY_MS: u64 = 100;

impl<'a> Meter<'a> {
    pub(crate) fn new(report: Report<'a>, what: &str, total_bytes: u64, earlier_bytes: u64) -> Meter<'a> {
        let meter = Meter {
            report,
            what: what.to_string(),
            total_bytes,
            earlier_bytes,
            fetched_bytes: AtomicU64::new(0),
            arrived_bytes: AtomicU64::new(0),
            reported_ms: AtomicU64::new(0),
            began: Instant::now(),
        };
        report(&meter.progress());
        meter
    }

    /// Adds bytes that were fetched and written.
    pub(crate) fn add(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.show();
    }

    /// Adds bytes that were shown by [`Meter::arrived`] and are written now.
    pub(crate) fn add_arrived(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.arrived(bytes, 0);
    }

    /// Shows `now` bytes of a part under way as arrived, where `before` were shown.
    pub(crate) fn arrived(&self, before: u64, now: u64) {
        self.arrived_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        self.show();
    }

    fn show(&self) {
        let now_ms = self.began.elapsed().as_millis() as u64;
        let last_ms = self.reported_ms.load(Ordering::Relaxed);
        let due = now_ms >= last_ms + REPORT_EVERY_MS;
        if due && self.reported_ms.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            (self.report)(&self.progress());
        }
    }

    /// Bytes fetched by this run.
    pub(crate) fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Ordering::Relaxed)
    }

    /// Sends the last report.
    pub(crate) fn finish(&self) {
        (self.report)(&self.progress());
    }

    fn progress(&self) -> Progress {
        let fetched_bytes = self.fetched_bytes() + self.arrived_bytes.load(Ordering::Relaxed);
        let done_bytes = self.earlier_bytes + fetched_bytes;
        let rate_bytes_s = fetched_bytes as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let left_bytes = self.total_bytes.saturating_sub(done_bytes) as f64;
        let left_s = (fetched_bytes > 0).then(|| left_bytes / rate_bytes_s);
        Progress {
            what: self.what.clone(),
            done_bytes,
            total_bytes: self.total_bytes,
            rate_bytes_s,
            left_s,
            limit: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn the_last_report_counts_everything() {
        let seen = Mutex::new(Vec::new());
        let report = |p: &Progress| seen.lock().push(p.clone());
        let meter = Meter::new(&report, "x", 100, 40);
        meter.add(30);
        meter.add(30);
        meter.finish();
        let seen = seen.into_inner();
        assert_eq!((seen[0].done_bytes, seen[0].left_s), (40, None));
        let last = seen.last().expect("reports");
        assert_eq!((last.done_bytes, last.total_bytes, last.left_s), (100, 100, Some(0.0)));
    }
}
