//! Answer of `trace.record`.

use serde::{Deserialize, Serialize};

/// Progress of a recording.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceLines {
    /// Lines of the recording, as comma-separated values.
    pub lines: String,
}

/// Summary of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceRecord {
    pub seconds: f64,
    pub reads: u64,
    pub read_bytes: u64,
    pub read_mean_ms: f64,
    pub writes: u64,
    pub written_bytes: u64,
    pub write_mean_ms: f64,
    /// Operations that are not in the recording, since they came faster than they were written.
    pub dropped: u64,
    /// Size of the recording.
    pub bytes: u64,
    pub end: RecordEnd,
}

/// Reason of the end of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordEnd {
    /// Its time was over.
    #[default]
    Time,
    /// Its size was reached.
    Size,
    /// The client hung up, or the daemon ended.
    Stop,
}
