//! Figures of an emulated disk, for programs and people.

use serde::Serialize;

/// Figures of an emulated disk since its start. Times are the device's own, except for `late`.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Name of the model.
    pub model: String,
    /// Speed of the device's time relative to real time.
    pub speedup: f64,
    /// Size of the device.
    pub capacity_bytes: u64,
    /// Bytes that are neither used nor reserved.
    pub free_bytes: u64,
    /// The device's time since its start.
    pub elapsed_s: f64,
    /// Time with a request waiting or in service.
    pub busy_s: f64,
    /// `busy_s / elapsed_s`.
    pub utilisation: f64,
    /// Number of completed reads.
    pub reads: u64,
    /// Number of completed writes.
    pub writes: u64,
    /// Bytes of the completed reads.
    pub bytes_read: u64,
    /// Bytes of the completed writes.
    pub bytes_written: u64,
    /// Mean time from a read's arrival to its end.
    pub read_response_ms: f64,
    /// Response time that 99 % of the reads did not exceed.
    pub read_response_p99_ms: f64,
    /// Mean time from a write's arrival to its end.
    pub write_response_ms: f64,
    /// Response time that 99 % of the writes did not exceed.
    pub write_response_p99_ms: f64,
    /// Requests to the devices, after splitting and merging.
    pub device_requests: u64,
    /// Mean service time of a request in the device; 0 for a solid-state drive, whose requests overlap.
    pub service_ms: f64,
    /// Maximum of requests inside at once.
    pub inside_max: u64,
    /// Mean delay of answers after the device's completion, in microseconds of real time.
    pub late_mean_us: f64,
    /// Maximum of this delay.
    pub late_max_us: f64,
}

impl Figures {
    /// Formats the figures for people.
    pub fn text(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / 1048576.0;
        format!(
            "{} for {:.1} s of its time ({}x real time): {} reads, {:.1} MiB, {:.3} ms each (99 %: {:.3}); \
             {} writes, {:.1} MiB, {:.3} ms each (99 %: {:.3})\n\
             busy {:.1} %; {} requests to the device, {:.3} ms each in service; at most {} at once; \
             answers late by {:.0} us (at most {:.0}) of real time\n",
            self.model,
            self.elapsed_s,
            self.speedup,
            self.reads,
            mib(self.bytes_read),
            self.read_response_ms,
            self.read_response_p99_ms,
            self.writes,
            mib(self.bytes_written),
            self.write_response_ms,
            self.write_response_p99_ms,
            self.utilisation * 100.0,
            self.device_requests,
            self.service_ms,
            self.inside_max,
            self.late_mean_us,
            self.late_max_us,
        )
    }
}
