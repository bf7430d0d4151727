//! Which numbers had the volume, and were not seen off: a node says so in the store of the state when it joins, and takes that back when it
//! leaves. What is left of one that is over was killed, or stood still: something of it may be half done.

use super::Nodes;
use crate::Result;
use policy::cluster::Node;

/// The kind of what nodes say of themselves.
const RECORDS: &str = "state";
const HERE: &str = "here.";

impl Nodes {
    /// A number has the volume. Said again when the store of the state is back.
    pub(super) fn say_here(&self, node: Node) {
        let said = self.state.record_put(RECORDS, &format!("{HERE}{}", node.0), self.info.own.as_bytes());
        if let Err(error) = said {
            tracing::debug!("that {node} is here is not remembered yet: {error}");
        }
    }

    /// Nothing of a number is half done any more.
    pub fn see_off(&self, node: Node) -> Result<()> {
        self.state.record_remove(RECORDS, &format!("{HERE}{}", node.0)).map(drop)
    }

    /// The numbers that are over and were not seen off.
    pub fn not_seen_off(&self) -> Result<Vec<Node>> {
        let records = self.state.records(RECORDS)?;
        let numbers = records.iter().filter_map(|(key, _)| key.strip_prefix(HERE)?.parse().ok().map(Node));
        let membership = self.membership.lock();
        Ok(numbers.filter(|node| membership.is_over(*node)).collect())
    }
}
