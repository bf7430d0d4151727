//! A node whose daemon stands still for longer than its lease, as in a host that has too much to do: the others go on
//! without it, and it goes on as another when it wakes.

use crate::audit;
use crate::hosts::hosts;
use crate::random::seed;
use crate::real::until_within;
use crate::volume::{NODES, Shared, are_in_order, leading};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// A lease lasts five seconds.
const FROZEN: Duration = Duration::from_secs(8);
/// Time until another node is over.
const TAKEOVER: Duration = Duration::from_secs(10);

/// [S-204] [S-212] [S-213]
#[test]
fn the_others_go_on_when_the_leader_stands_still() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let led = leading(&nodes);
    let (first, second) = (&nodes[(led + 1) % 3], &nodes[(led + 2) % 3]);
    let is_there = |of: &(String, String)| audit::lying(second, NODES).contains(of);
    // One command on any node finds the remains of all nodes. No node is over, so nothing is removed automatically.
    // Where a node of an earlier test is over and not yet cleaned up, that can happen: then the second copy stays.
    let began = Instant::now();
    let left = loop {
        let left = [&nodes[led], first].map(|node| audit::orphan(node, NODES, "target2"));
        let found = second.checked(&[]).1;
        let orphans = found["findings"].as_array().expect("findings").iter().filter(|f| f["kind"] == "orphan");
        let orphans: Vec<_> = orphans.map(|f| f["object"].as_str().unwrap_or_default().to_owned()).collect();
        if left.iter().all(|(_, object)| orphans.contains(object)) {
            break left;
        }
        let is_known = |of: &(String, String)| orphans.contains(&of.1) || !is_there(of);
        assert!(left.iter().all(is_known) && began.elapsed().as_secs() < 60, "{found:#}");
    };
    let writers = Writers::start(&nodes, "frozen", 60, seed());
    std::thread::sleep(Duration::from_secs(1));
    let (frozen, began) = (nodes[led].freeze(), Instant::now());
    std::thread::scope(|scope| {
        // There are no writers of the moved files.
        let drain = scope.spawn(|| {
            first.empties("target1");
            began.elapsed()
        });
        let check = scope.spawn(|| second.checked(&["--repair"]));
        until_within(30, "another leads", || !["", &nodes[led].name()].contains(&&*second.leader()));
        let took = began.elapsed();
        println!("the leader stood still: another led after {took:.1?}");
        assert!(took < TAKEOVER, "{took:?}");
        let (exit, found) = check.join().expect("checked");
        let parts = found["nodes"].as_array().expect("nodes");
        // A check that begins after the lease has ended is complete without the frozen node, and may repair. Until
        // then that node takes part, and its silence forbids every repair.
        if let Some(frozen) = parts.iter().find(|part| part["host"] == *nodes[led].name()) {
            let findings = found["findings"].as_array().expect("findings");
            let is_repaired = findings.iter().any(|finding| finding["outcome"] == "repaired");
            assert!(exit == 7 && frozen["answered"] == false && !is_repaired, "{found:#}");
        }
        assert!(parts.iter().all(|part| part["answered"] == (part["host"] != *nodes[led].name())), "{found:#}");
        println!("what it wrote was moved after {:.1?}", drain.join().expect("drained"));
    });
    std::thread::sleep(FROZEN.saturating_sub(began.elapsed()));
    drop(frozen);
    let woken = Instant::now();
    // The one that leads now removes it: the number of the one that stood still is over.
    until_within(60, "what was left is gone", || !left.iter().any(is_there));
    println!("what was left was gone {:.1?} after it stood still", began.elapsed());
    until_within(30, "it has joined again", || second.hosts().len() == 3);
    println!("it had joined again {:.1?} after it woke", woken.elapsed());
    nodes[led].ok(&["target", "restore", "target1"]);
    std::thread::sleep(Duration::from_secs(1));
    for (n, report) in writers.stop().iter().enumerate() {
        assert!(report.errors.is_empty(), "what was not acknowledged is done again: {:?}", report.errors);
        assert!(n == led || report.slowest < TAKEOVER, "the others go on: {:?}", report.slowest);
    }
    are_in_order(&nodes);
}
