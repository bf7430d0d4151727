//! Requests between nodes take connections of their own: they need no store of the state, and name a network that does
//! not carry them.

use crate::hosts::hosts;
use crate::random::seed;
use crate::real::{err, until_within};
use crate::volume::{Node, Shared, are_in_order, leading};
use crate::writers::Writers;

/// The leader's answer to a request that it refuses, asked by way of another node.
const REFUSED: &str = "moves nothing between tiers";

fn ask(node: &Node<'_>) -> String {
    err(&node.run(&["tiering", "pause"]))
}

/// [S-430]
#[test]
fn requests_reach_the_leader_without_the_store_and_bytes_are_shared_without_requests() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let led = leading(&nodes);
    let (host, other) = (&hosts.hosts[(led + 1) % 3], &nodes[(led + 1) % 3]);
    assert!(ask(other).contains(REFUSED), "{}", ask(other));
    hosts.kill_redis();
    assert!(ask(other).contains(REFUSED), "{}", ask(other));
    hosts.server.start_redis();
    let writers = Writers::start(&nodes, "requests", 60, seed());
    writers.until_all_write();
    let route = |verb| {
        let address = format!("{}/32", hosts.hosts[led].address());
        host.must("ip", &["route", verb, "unreachable", &address]);
    };
    route("add");
    until_within(60, "the cause is named", || {
        let said = ask(other);
        said.contains("cannot be reached") && said.contains(&hosts.hosts[led].address())
    });
    writers.until_all_write();
    route("del");
    until_within(60, "the leader answers again", || ask(other).contains(REFUSED));
    let reports = writers.stop();
    assert!(reports.iter().all(|report| report.errors.is_empty()), "{:?}", reports[0].errors);
    are_in_order(&nodes);
}
