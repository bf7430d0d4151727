//! Answer of `node.list`.

use serde::{Deserialize, Serialize};

/// The nodes of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nodes {
    pub nodes: Vec<Node>,
    /// The nodes that died; unknown while the state store is away.
    pub dead_nodes: Option<Vec<Node>>,
}

/// One node. The facts of its lease are missing while they cannot be read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub node: u32,
    pub host: Option<String>,
    pub mount_point: Option<String>,
    pub since_ms: Option<u64>,
    /// `ok`, `draining`, `drained` or `dead`.
    pub state: String,
    /// Facts about a node that is not dead.
    #[serde(flatten)]
    pub life: Option<Life>,
}

/// Facts about a node with a lease.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Life {
    pub pid: Option<u32>,
    pub is_self: bool,
    pub leads: bool,
    /// Work that keeps it from shutting down.
    pub kept_by: Vec<String>,
}
