//! The nodes of a volume, for those that promise space to jobs: by the leases in its namespace.

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

/// The nodes, where there may be several.
pub fn peers(core: &Core) -> Option<Arc<dyn Peers>> {
    let (nodes, calls) = core.nodes.as_ref().zip(core.calls.as_ref())?;
    Some(Arc::new(OfVolume { nodes: nodes.clone(), own: calls.own().to_owned() }))
}

impl Peers for OfVolume {
    fn own(&self) -> String {
        self.own.clone()
    }

    fn number(&self) -> Option<Node> {
        // Looked at after the number: that of a lease that is over has none.
        Some(self.nodes.number()).filter(|_| self.nodes.has_lease())
    }

    fn is_over(&self, node: Node) -> bool {
        Cluster::is_over(&*self.nodes, node)
    }
}
