//! Answers of `status.get` and `stats.get`.

use super::{Burst, Nodes, Target};
use engine::cache::CacheCounts;
use engine::mover::ProgressEntry;
use engine::recovery::Left;
use engine::stats::Snapshot;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// State of a volume. Parts that the volume does not have are missing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    #[serde(flatten)]
    pub facts: Facts,
    pub mount_point: PathBuf,
    pub pid: u32,
    pub targets: Vec<Target>,
    /// Reason why the state store does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_away: Option<String>,
    #[serde(flatten)]
    pub nodes: Option<Nodes>,
    pub mover: Mover,
    /// The burst buffer; null while the leader does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Option<Burst>>,
    /// Files that cannot be read now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away: Option<FilesAway>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Leftovers>,
    pub events: Vec<Note>,
    /// The volume's file, for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Facts about a volume, of its status and its dashboard. Only decisions on stripes and hot segments name files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub name: String,
    pub id: String,
    pub version: String,
    pub uptime_s: u64,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Objects that wait for their removal; unknown while the state store is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub garbage_objects: Option<u64>,
    pub repair: Repair,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotas: Option<QuotaCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiering: Option<Tiering>,
}

/// All metrics, in the format of Prometheus and as numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    pub prometheus: String,
    pub snapshot: Snapshot,
}

/// A sentence and its time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    pub at_ms: u64,
    pub text: String,
}

/// Moves of data.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mover {
    #[serde(flatten)]
    pub counts: MoverCounts,
    /// Moves under way in words, for the operator.
    pub moves: Vec<String>,
    #[serde(skip_deserializing)]
    pub lately: Vec<ProgressEntry>,
}

/// Counts of the mover since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MoverCounts {
    pub running: usize,
    pub changes_done: u64,
    pub changes_failed: u64,
    pub bytes_copied: u64,
}

/// Recovery of lost data.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Repair {
    pub stripes_lost: u64,
    pub stripes_recovered: u64,
    pub bytes_fetched: u64,
    pub reader_waits: u64,
    pub reader_delay_total_ms: u64,
    pub reader_delay_max_ms: u64,
    pub retries: u64,
    pub failures: u64,
    pub recoveries_started: u64,
    pub recoveries_completed: u64,
    pub recoveries_failed: u64,
    pub recoveries_running: u64,
    pub fetches_in_flight: u64,
}

/// Numbers of quotas by state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaCounts {
    /// Subjects that have limits.
    pub limits: usize,
    /// Subjects over a soft limit.
    pub over: usize,
    /// Subjects over a soft limit whose grace has ended.
    pub expired: usize,
    /// Subjects that have reached a hard limit.
    pub full: usize,
}

/// Load of the volume and the stripes that follow from it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stripes {
    pub mode: String,
    pub requests_per_s: f64,
    pub request_bytes: f64,
    pub writes_share: f64,
    pub files: usize,
    pub files_with_forks: usize,
    pub new_files: Option<String>,
    pub device: String,
    pub device_measured: bool,
    pub targets: u32,
    pub decisions: Vec<Note>,
}

/// Moves between tiers. Nothing is counted while the devices are being measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiering {
    pub policy: String,
    pub measuring: bool,
    #[serde(flatten)]
    pub counts: Option<TieringCounts>,
}

/// Counts of tiering.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TieringCounts {
    pub paused: bool,
    pub accesses: u64,
    pub fast_share: f64,
    pub working_set: usize,
    pub fast_segments: usize,
    pub room_segments: u64,
    pub segment_bytes: u64,
    pub promoted: u64,
    pub demoted: u64,
    pub failed: u64,
    pub waiting: usize,
    pub moving: usize,
    pub copies: usize,
    pub copied: u64,
    pub copying: usize,
    /// Reads within the window that make a segment hot.
    pub threshold: Option<u32>,
    pub hot: Vec<HotSegment>,
}

/// A hot segment of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HotSegment {
    pub file: String,
    pub segment: u64,
    pub reads: u32,
    pub writes: u32,
    pub tier: String,
}

/// Files without a mirror that can be read, and without a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesAway {
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Orphans after an unclean end of the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Leftovers {
    /// A scan is due, or was incomplete, with the reason.
    Due { due: bool, why: Option<String> },
    /// The orphans have been removed.
    Removed(Left),
}
