//! A node before its shutdown: it hands the lead over, ends its work, reports that it is ready, and leaves without an
//! error.

use crate::hosts::hosts;
use crate::random::seed;
use crate::real::{code, err, until_within};
use crate::volume::{Node, Shared, are_in_order, leading};
use crate::writers::Writers;
use std::time::Duration;

/// State of another host, as one node reports it.
fn state(asked: &Node<'_>, host: &str) -> (String, usize) {
    let nodes = asked.entrepot(&["node", "list"]);
    let nodes = nodes["nodes"].as_array().expect("nodes");
    // A node that takes another number is missing for a moment.
    let Some(found) = nodes.iter().find(|node| node["host"] == host) else { return (String::new(), 0) };
    (found["state"].as_str().expect("a state").into(), found["kept_by"].as_array().expect("reasons").len())
}

/// [S-209]
#[test]
fn a_node_that_drains_hands_the_lead_over_and_says_when_it_may_be_shut_down() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let led = leading(&nodes);
    let (leader, other) = (&nodes[led], &nodes[(led + 1) % 3]);
    let name = leader.name();
    let writers = Writers::start(&nodes, "drained", 60, seed());
    std::thread::sleep(Duration::from_secs(1));
    other.ok(&["node", "drain", &name, "--no-wait"]);
    until_within(30, "another leads", || !["", &name].contains(&&*other.leader()));
    until_within(30, "it says what keeps it", || {
        let (state, reasons) = state(other, &name);
        state == "draining" && reasons > 0
    });
    let unknown = other.run(&["node", "drain", "host9"]);
    assert!(code(&unknown) == 5 && err(&unknown).contains("no node host9 has the volume"), "{}", err(&unknown));
    for report in writers.stop() {
        assert!(report.errors.is_empty() && report.writes > 20, "{}: {:?}", report.writes, report.errors);
    }
    other.ok(&["node", "drain", &name]);
    assert_eq!((state(other, &name), state(leader, &name)), (("drained".into(), 0), ("drained".into(), 0)));
    assert_ne!(leader.leader(), name);
    other.ok(&["node", "restore", &name]);
    until_within(30, "it takes part again", || state(leader, &name) == ("ok".into(), 0));
    other.ok(&["node", "drain", &name]);
    leader.down();
    until_within(30, "it has left", || other.hosts().len() == 2);
    leader.up();
    until_within(30, "it is back", || other.hosts().len() == 3);
    assert_eq!(state(other, &name).0, "ok", "a daemon that is started takes part");
    are_in_order(&nodes);
}
