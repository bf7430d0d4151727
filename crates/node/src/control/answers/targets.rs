//! Answer of `target.list`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// Targets, tiers and the volume, with their space. A file system that several of them share counts once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Targets {
    pub targets: Vec<Target>,
    pub tiers: Vec<Tier>,
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// A target with its state and space.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    pub name: String,
    pub id: u16,
    pub tier: Option<String>,
    /// State of the target; `elsewhere` for one that only other nodes reach.
    pub state: String,
    /// Whether the order of the operator is not in the state store yet.
    pub order_kept: bool,
    /// Hosts that reach it; all if empty, none known without its section in the configuration.
    pub only_on: Option<Vec<String>>,
    /// 0: never measured.
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub path: Option<PathBuf>,
    /// Connections to its file servers, in the form of the crate that keeps them.
    pub connections: Option<Value>,
}

/// A tier with its space.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tier {
    pub name: String,
    pub total_bytes: u64,
    pub free_bytes: u64,
}
