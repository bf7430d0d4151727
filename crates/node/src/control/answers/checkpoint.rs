//! Answers of `checkpoint.*`.

use serde::{Deserialize, Serialize};

/// State of the burst buffer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Burst {
    pub size: u64,
    pub room: u64,
    pub used: u64,
    pub not_demoted: u64,
    pub versions: usize,
    pub waiting: usize,
    pub writing: usize,
    pub held_writes: usize,
    pub policy: String,
    pub pattern: String,
    pub written_in_period: u64,
    pub expected_in_period: u64,
    /// Bytes per second; `None`: unlimited.
    pub write_rate: Option<u64>,
    /// Bytes per second; `None`: unlimited.
    pub demotion_rate: Option<u64>,
    pub limits: String,
    pub committed: u64,
    pub demoted: u64,
    pub demoted_bytes: u64,
    pub failed: u64,
    pub replicated: u64,
    pub lacking_replicas: usize,
    pub trims: u64,
    pub restarts_from_buffer: u64,
    pub restarts_from_capacity: u64,
    /// Applications that the caller may see.
    pub applications: Vec<Application>,
}

/// An application that writes checkpoints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Application {
    pub name: String,
    /// Mean time between failures; 0: unknown.
    pub mtbf_s: u64,
    pub mtbf_from: MtbfFrom,
    pub restarts: u64,
    /// Size of the last checkpoint.
    pub bytes: u64,
    /// Time that the last checkpoint took; 0: unknown.
    pub cost_s: f64,
    pub advised_interval_s: Option<f64>,
    pub interval_s: Option<u64>,
    pub newest: Option<String>,
    pub newest_in_buffer: bool,
}

/// Versions in the burst buffer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Versions {
    pub versions: Vec<Row>,
}

/// A version that begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Begun {
    pub app: String,
    pub label: String,
}

/// A version that is complete.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Committed {
    pub app: String,
    pub label: String,
    pub number: u64,
    pub bytes: u64,
    pub files: usize,
}

/// A version that was given up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Abandoned {
    pub app: String,
    pub label: String,
    pub abandoned: bool,
}

/// The version to restart from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Restart {
    pub app: String,
    pub label: String,
    pub number: u64,
    /// Directory of its files, below the mount point.
    pub directory: String,
    pub bytes: u64,
    pub files: usize,
    pub at_ms: u64,
}

/// A line of `entrepot checkpoint list`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the application.
    pub app: String,
    /// Its number; larger is newer.
    pub number: u64,
    /// As the application names it.
    pub label: String,
    /// `waiting`, `writing`, `complete`, or `damaged`: a file of it was removed.
    pub state: String,
    /// Size of the version in bytes.
    pub bytes: u64,
    /// Paths of its files.
    pub files: Vec<String>,
    /// Tiers that hold the version: `fast`, `capacity`, `both`.
    pub place: String,
    /// When it was complete, in milliseconds since 1970; 0: not yet.
    pub at_ms: u64,
    /// Whether it is the newest complete one of its application.
    pub newest: bool,
}

/// How the time between failures of an application is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtbfFrom {
    /// Unknown: the default, a guess.
    #[default]
    Default,
    /// Given by a user.
    Given,
    /// From its number of nodes.
    Nodes,
    /// From the restarts seen.
    Learned,
}
