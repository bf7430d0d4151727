//! What an emulated disk did, for programs and for people.

use serde::Serialize;

/// What an emulated disk did since its start. Times are the device's own, but for `late`.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The model.
    pub model: String,
    /// How many times faster than real time.
    pub speedup: f64,
    /// Size of the device.
    pub capacity_bytes: u64,
    /// Neither used nor reserved.
    pub free_bytes: u64,
    /// The device's time since its start.
    pub elapsed_s: f64,
    /// Of it, with a request waiting or in service.
    pub busy_s: f64,
    /// `busy_s / elapsed_s`.
    pub utilisation: f64,
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Mean time from a read's arrival to its end.
    pub read_response_ms: f64,
    /// What 99 % of the reads did not exceed.
    pub read_response_p99_ms: f64,
    /// Mean time from a write's arrival to its end.
    pub write_response_ms: f64,
    /// What 99 % of the writes did not exceed.
    pub write_response_p99_ms: f64,
    /// Requests to the devices, after splitting and merging.
    pub device_requests: u64,
    /// Mean time that one took in the device; 0 for a solid-state drive, whose requests overlap.
    pub service_ms: f64,
    /// Requests inside at once, at most.
    pub inside_max: u64,
    /// How much later than the device's end answers went out, mean, in microseconds of real time.
    pub late_mean_us: f64,
    /// The same, at most.
    pub late_max_us: f64,
}

impl Figures {
    /// The same for people.
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
