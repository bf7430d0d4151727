//! Messages between the nodes of a volume. They may get lost, so a sender that needs an answer repeats them.

use policy::cluster::Node;

/// Live node of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the node.
    pub node: Node,
    /// Name under which the node receives messages, if known.
    pub own: Option<String>,
    /// Name of its host, or `?`.
    pub host: String,
}

/// Messages to the other nodes. Nodes receive them under names that stay when their numbers change.
pub trait Talk: Send + Sync {
    /// Present number of this node.
    fn me(&self) -> Node;
    /// Returns the name under which this node receives messages.
    fn own(&self) -> &str;
    /// Whether this node leads.
    fn leads(&self) -> bool;
    /// Name of the leader, if known.
    fn leader(&self) -> Option<String>;
    /// Whether a node is known to be over.
    fn is_over(&self, node: Node) -> bool;
    /// Returns all live nodes, including this one. May wait some seconds for the list.
    fn members(&self) -> Vec<Member>;
    /// Sends to the node of that name. The message may get lost.
    fn tell(&self, name: &str, text: &str);
    /// Sends to all other nodes. The message may get lost.
    fn tell_all(&self, text: &str);
}
