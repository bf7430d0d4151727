//! Records of numbers that had the volume. A node writes one to the state store when it joins, and removes it when it
//! leaves. A record of a number that is over shows that the node's work may be half done.

use super::{Nodes, RECORDS};
use crate::Result;
use policy::cluster::Node;

const HERE: &str = "here.";

impl Nodes {
    /// Records that a number has the volume. Repeated when the state store is back.
    pub(super) fn say_here(&self, node: Node) {
        if let Err(error) = self.put_here(node) {
            tracing::debug!("the presence of {node} could not be saved yet: {error}");
        }
    }

    fn put_here(&self, node: Node) -> Result<()> {
        self.state.record_put(RECORDS, &format!("{HERE}{}", node.0), self.info.own.as_bytes())
    }

    /// Makes the leader search for orphans, even if it did so after the last life of this node. A number of that life
    /// is over, or its record still exists.
    pub fn search_for_orphans_again(&self) -> Result<()> {
        let over = self.membership.lock().last_over();
        over.map_or(Ok(()), |node| self.put_here(node))
    }

    /// Removes the record of a number once no work of it is half done.
    pub fn see_off(&self, node: Node) -> Result<()> {
        self.state.record_remove(RECORDS, &format!("{HERE}{}", node.0)).map(drop)
    }

    /// Numbers that are over and still have a record.
    pub fn not_seen_off(&self) -> Result<Vec<Node>> {
        let records = self.state.records(RECORDS)?;
        let numbers = records.iter().filter_map(|(key, _)| key.strip_prefix(HERE)?.parse().ok().map(Node));
        let membership = self.membership.lock();
        Ok(numbers.filter(|node| membership.is_over(*node)).collect())
    }
}
