//! Accounts of a volume on several nodes: each adds what it counted.

use crate::hosts::hosts;
use crate::real::until_within;
use crate::volume::{Node, Shared, State};

const INPUT: &str = "/tmp/entrepot-input";

/// [S-255] Of several nodes.
#[test]
fn nodes_add_up_what_each_of_them_counted() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "accounts", State::Redis, "[health]\ndeadline = \"30s\"\n");
    let nodes: Vec<_> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    for (n, node) in nodes.iter().enumerate() {
        std::fs::write(node.host.path(INPUT), vec![7; 100_000]).expect("a source");
        node.ok(&["stage", "in", &format!("file://{INPUT}"), &format!("{}/{n}", node.at)]);
    }
    let staged = |node: &Node| {
        let users = node.entrepot(&["accounting"])["users"].clone();
        let root = users.as_array().into_iter().flatten().find(|user| user["uid"] == 0).cloned();
        root.and_then(|root| root["staged_in_bytes"].as_u64())
    };
    until_within(60, "all have written", || nodes.iter().all(|node| staged(node) == Some(300_000)));
    nodes[2].down();
    assert_eq!(staged(&nodes[0]), Some(300_000), "what the one that left counted stays");
    nodes[..2].iter().for_each(Node::down);
}
