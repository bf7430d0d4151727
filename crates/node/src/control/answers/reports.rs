//! Answers of `check.run`, `scrub.run`, `balance.*`, `state.dump` and `source.get`.

use engine::recovery::{Finding, Report};
use engine::source::Place;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Result of a check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    #[serde(flatten)]
    pub report: Report,
    /// Whether nothing is left to repair.
    pub healthy: bool,
}

/// The last scrub, or the one under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scrub {
    #[serde(flatten)]
    pub pass: Pass,
    pub under_way: bool,
    /// Whether nothing is left to repair.
    pub healthy: bool,
}

/// The last balance, or the one under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Balance {
    /// `running`, `paused` or `idle`.
    pub state: String,
    #[serde(flatten)]
    pub run: BalanceRun,
}

/// State of a run. It is recorded, so that every node can report its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BalanceRun {
    /// Start in nanoseconds since 1970: unique among runs.
    pub began_ns: u64,
    /// Host of the daemon that moves the files.
    pub host: String,
    pub pass: u32,
    pub files: u64,
    /// Files that stay where they lie.
    pub kept: u64,
    pub moves: u64,
    pub bytes: u64,
    pub left: u64,
    /// Outcome; none during the run.
    pub outcome: Option<BalanceOutcome>,
    /// A sentence about the end.
    pub ended: Option<String>,
}

/// A backup of the state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Dump {
    pub file: PathBuf,
    pub rows: usize,
}

/// Origin of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    pub sources: Vec<Place>,
    pub size: u64,
    /// Whether the file was written to since: then it is not recovered from a source.
    pub modified: bool,
    pub checksums: bool,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BalanceOutcome {
    /// All possible moves are done.
    Done,
    /// An operator stopped the run.
    Stopped,
    /// The run's daemon ended, or is no longer the leader.
    Cut,
    /// An error ended the run.
    Failed,
}

/// One pass over all files, perhaps in several parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pass {
    /// Start, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time when the pass reached the end of the files.
    pub ended_ms: Option<u64>,
    /// The last file that was scanned.
    pub after: String,
    /// Number of files scanned.
    pub files: u64,
    /// Number of bytes compared.
    pub bytes: u64,
    /// Number of objects with a finding.
    pub found: u64,
    /// Number of objects rebuilt.
    pub mended: u64,
    /// Bytes of the rebuilt objects.
    pub mended_bytes: u64,
    /// Number of files that could not be compared.
    pub left: u64,
    /// Some of the uncompared files, with the reason.
    pub left_files: Vec<String>,
    /// Findings: first those that are still wrong.
    pub findings: Vec<Finding>,
}
