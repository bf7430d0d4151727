//! The nodes of a volume for the promises of space, from the leases in its namespace.

use engine::file::Cluster;
use jobs::arrivals::Peers;
use node::daemon::Core;
use node::nodes::Nodes;
use policy::cluster::Node;
use std::sync::Arc;

struct OfVolume {
    nodes: Arc<Nodes>,
    own: String,
}

/// The nodes; `None` on a volume of one node.
pub fn peers(core: &Core) -> Option<Arc<dyn Peers>> {
    let (nodes, calls) = core.nodes.as_ref().zip(core.calls.as_ref())?;
    Some(Arc::new(OfVolume { nodes: nodes.clone(), own: calls.own().to_owned() }))
}

impl Peers for OfVolume {
    fn own(&self) -> String {
        self.own.clone()
    }

    fn number(&self) -> Option<Node> {
        // The lease is checked after the number is read, so the number of an ended lease is never returned.
        Some(self.nodes.me_now()).filter(|_| self.nodes.has_lease())
    }

    fn is_over(&self, node: Node) -> bool {
        Cluster::is_over(&*self.nodes, node)
    }
}
