//! Data of the dashboard, as it is sent. A field that reveals files, users or jobs is optional.

use super::rates::Rate;
use crate::control::answers::{Burst, Facts, Heat, Layout, MoverCounts, Node, Target, Tier};
use engine::events::Event;
use engine::mover::DrainProgress;
use serde::Serialize;
use std::path::PathBuf;

/// The volume at a glance.
#[derive(Clone, Debug, Serialize)]
pub struct Glance {
    #[serde(flatten)]
    pub facts: Facts,
    pub with_names: bool,
    pub host: String,
    pub now_ms: u64,
    /// Problems that need an operator.
    pub problems: Vec<String>,
    pub tiers: Vec<Tier>,
    pub targets: Vec<ShownTarget>,
    pub nodes: Vec<ShownNode>,
    pub mover: MoverCounts,
    pub rates: Vec<Rate>,
    pub moves: Vec<Move>,
    pub drains: Vec<Drain>,
    pub events: Vec<Event>,
    pub burst: Option<ShownBurst>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<PathBuf>,
}

/// A target without its path.
#[derive(Clone, Debug, Serialize)]
pub struct ShownTarget {
    pub name: String,
    pub tier: Option<String>,
    pub state: String,
    pub only_on: Option<Vec<String>>,
    pub total_bytes: u64,
    pub free_bytes: u64,
}

impl From<Target> for ShownTarget {
    fn from(target: Target) -> ShownTarget {
        let Target { name, tier, state, only_on, total_bytes, free_bytes, .. } = target;
        ShownTarget { name, tier, state, only_on, total_bytes, free_bytes }
    }
}

/// A node without its mount point and its work.
#[derive(Clone, Debug, Serialize)]
pub struct ShownNode {
    pub node: u32,
    pub host: Option<String>,
    pub since_ms: Option<u64>,
    pub is_self: bool,
    pub leads: bool,
    pub state: String,
}

impl From<Node> for ShownNode {
    fn from(node: Node) -> ShownNode {
        let Node { node, host, since_ms, state, life, .. } = node;
        let (is_self, leads) = life.map_or((false, false), |life| (life.is_self, life.leads));
        ShownNode { node, host, since_ms, is_self, leads, state }
    }
}

/// A running move.
#[derive(Clone, Debug, Serialize)]
pub struct Move {
    pub number: u64,
    pub what: &'static str,
    /// Mechanism that requested it.
    pub by: &'static str,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Seconds left at the present rate.
    pub left_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A running drain.
#[derive(Clone, Debug, Serialize)]
pub struct Drain {
    pub target: String,
    #[serde(flatten)]
    pub progress: DrainProgress,
}

/// The burst buffer.
#[derive(Clone, Debug, Serialize)]
pub struct ShownBurst {
    #[serde(flatten)]
    pub burst: Burst,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions_shown: Option<Vec<ShownVersion>>,
}

/// A version in the burst buffer, without the paths of its files.
#[derive(Clone, Debug, Serialize)]
pub struct ShownVersion {
    pub app: String,
    pub label: String,
    pub state: String,
    pub bytes: u64,
    /// Number of files.
    pub files: usize,
    pub place: String,
    pub at_ms: u64,
}

/// Layout of a file, with the reasons and the load.
#[derive(Clone, Debug, Serialize)]
pub struct ShownFile {
    #[serde(flatten)]
    pub layout: Layout,
    pub sentences: Vec<String>,
    pub heat: Option<Heat>,
    pub uid: u32,
}
