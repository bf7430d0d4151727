//! Nodes that died: their number was over before they reported that they leave. Each is recorded until its daemon is
//! back or an operator forgets it.
//!
//! Each state directory has one record of how its last life ended. Numbers only grow, so a late finding about an
//! earlier number never replaces that of a later one.

use super::{Info, Nodes, RECORDS};
use crate::Result;
use meta::records;
use policy::cluster::Node;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const LAST: &str = "last.";

/// End of the last life of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Last {
    node: u32,
    /// Text of its lease; none if it left in order, or was forgotten.
    died: Option<Info>,
}

fn key(own: &str) -> String {
    format!("{LAST}{own}")
}

impl Nodes {
    fn put_last(&self, own: &str, last: &Last) -> Result<()> {
        records::put(&*self.state, RECORDS, &key(own), last)
    }

    /// Records that this node leaves in order.
    pub(super) fn say_left(&self) -> Result<()> {
        self.forget_dead(&self.info.own, self.me_now())
    }

    /// Records numbers as dead that are over and did not leave in order.
    pub fn note_dead(&self, numbers: &[Node]) -> Result<()> {
        self.unrecorded(numbers)?.iter().try_for_each(|(own, last)| self.put_last(own, last))
    }

    /// Ends of lives by numbers that are over, of nodes without a record of a later one. Each node's last one is last.
    fn unrecorded(&self, numbers: &[Node]) -> Result<Vec<(String, Last)>> {
        let mut ends = Vec::new();
        for node in numbers.iter().copied().collect::<BTreeSet<_>>() {
            let Some(info) = self.leases.info_of_over(node) else { continue };
            let known: Option<Last> = records::get(&*self.state, RECORDS, &key(&info.own))?;
            if known.is_none_or(|last| last.node < node.0) {
                ends.push((info.own.clone(), Last { node: node.0, died: Some(info) }));
            }
        }
        Ok(ends)
    }

    /// Dead nodes that neither came back nor were forgotten, also those that the leader has not recorded so far.
    pub fn dead(&self) -> Result<Vec<(Node, Info)>> {
        let members = self.known().members();
        let alive: Vec<String> = members.into_iter().filter_map(|node| Some(self.leases.info(node)?.own)).collect();
        let records = self.state.records(RECORDS)?.into_iter().filter_map(|(key, bytes)| {
            Some((key.strip_prefix(LAST)?.to_owned(), serde_json::from_slice::<Last>(&bytes).ok()?))
        });
        let mut lives: BTreeMap<String, Last> = records.collect();
        lives.extend(self.unrecorded(&self.not_seen_off()?)?);
        let died = |last: Last| Some((Node(last.node), last.died?));
        let mut dead: Vec<(Node, Info)> =
            lives.into_values().filter_map(died).filter(|(_, info)| !alive.contains(&info.own)).collect();
        dead.sort_by_key(|(node, _)| *node);
        Ok(dead)
    }

    /// Forgets the death of a node, for its numbers up to this one.
    pub fn forget_dead(&self, own: &str, node: Node) -> Result<()> {
        self.put_last(own, &Last { node: node.0, died: None })
    }
}
