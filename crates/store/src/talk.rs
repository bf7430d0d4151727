//! How the nodes of a volume talk to each other: words that may get lost, so who needs an answer says them again.

use policy::cluster::Node;

/// A node that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub node: Node,
    /// The name under which it hears, if that is known.
    pub own: Option<String>,
    /// Its host, `?` if that is not known.
    pub host: String,
}

/// The other nodes, as those see them that talk to them. Nodes hear under names that stay when their numbers change.
pub trait Talk: Send + Sync {
    /// This node's number now.
    fn me(&self) -> Node;
    /// The name under which this node hears.
    fn own(&self) -> &str;
    /// Whether this node leads.
    fn leads(&self) -> bool;
    /// The name of the node that leads, as far as is known.
    fn leader(&self) -> Option<String>;
    /// Whether a node is over for ever, as far as is known.
    fn is_over(&self, node: Node) -> bool;
    /// All nodes that are there, this one too. May wait some seconds for them to be known.
    fn members(&self) -> Vec<Member>;
    /// Tells the node of that name. May get lost.
    fn tell(&self, name: &str, text: &str);
    /// Tells all others. May get lost.
    fn tell_all(&self, text: &str);
}
