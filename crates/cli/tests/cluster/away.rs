//! What connects the nodes is away for a while: the store of the state, or a host's network.

use crate::agent::Agent;
use crate::ceph;
use crate::hosts::hosts;
use crate::random::seed;
use crate::real::{out, until_within};
use crate::volume::{Shared, are_in_order, leading};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// [S-205]
#[test]
fn open_files_go_on_while_the_store_of_the_state_is_away() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let writers = Writers::start(&nodes, "storeless", 60, seed());
    std::thread::sleep(Duration::from_secs(1));
    hosts.kill_redis();
    std::thread::sleep(Duration::from_secs(1));
    let away = nodes[0].entrepot(&["status"])["state_away"].take();
    assert!(away.as_str().is_some_and(|why| why.contains("Redis")), "{away}");
    let shown = nodes[0].run(&["status"]);
    assert!(out(&shown).contains("state    AWAY: "), "{}", out(&shown));
    std::thread::sleep(Duration::from_secs(1));
    hosts.server.start_redis();
    until_within(30, "targets can be emptied again", || nodes[1].run(&["target", "drain", "target1"]).status.success());
    nodes[2].ok(&["target", "restore", "target1"]);
    std::thread::sleep(Duration::from_secs(1));
    for report in writers.stop() {
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        assert!(report.writes > 20, "only {} writes", report.writes);
    }
    are_in_order(&nodes);
}

/// [S-204]
#[test]
fn a_host_that_was_cut_off_has_lost_nothing_and_joins_again() {
    if ceph::is_wanted() {
        return eprintln!("skipped: CephFS shuts a client out that was cut off, until it mounts again");
    }
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let led = leading(&nodes);
    let (first, second) = (&nodes[(led + 1) % 3], &nodes[(led + 2) % 3]);
    let writers = Writers::start(&nodes, "away", 60, seed());
    std::thread::sleep(Duration::from_secs(1));
    hosts.hosts[led].cut();
    let began = Instant::now();
    until_within(30, "another leads", || !["", &nodes[led].name()].contains(&&*first.leader()));
    let took = began.elapsed();
    println!("the leader was cut off: another led after {took:.1?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    second.empties("target1");
    println!("what it wrote was moved after {:.1?}", began.elapsed());
    hosts.hosts[led].join();
    let joined = Instant::now();
    until_within(30, "it has joined again", || second.hosts().len() == 3);
    println!("it had joined again {:.1?} after the cable", joined.elapsed());
    Agent::start(&hosts.hosts[led]).reaches_all(&hosts.directory("reached"));
    // To it all targets had failed.
    for target in ["target1", "target2"] {
        nodes[led].ok(&["target", "restore", target]);
    }
    std::thread::sleep(Duration::from_secs(1));
    let reports = writers.stop();
    for (_, report) in reports.iter().enumerate().filter(|(n, _)| *n != led) {
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
    are_in_order(&nodes);
}
