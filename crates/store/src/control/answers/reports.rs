//! Answers of `check.run`, `scrub.run`, `balance.*`, `state.dump` and `source.get`.

use crate::daemon::{BalanceOutcome, Pass};
use crate::recovery::Report;
use crate::source::Place;
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
    pub host: String,
    pub pass: u32,
    pub files: u64,
    /// Files that stay where they lie.
    pub kept: u64,
    pub moves: u64,
    pub bytes: u64,
    pub left: u64,
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
