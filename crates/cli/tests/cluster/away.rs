//! Loss of the connection between nodes for a while: the state store, or a host's network.

use crate::agent::Agent;
use crate::ceph;
use crate::hosts::{LOCAL, hosts};
use crate::random::seed;
use crate::real::{code, err, noise, out, until_within};
use crate::volume::{Node, PATIENT, Shared, State, are_in_order, is_well, leading, logs};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// [S-205] [S-427]
#[test]
fn open_files_go_on_while_the_store_of_the_state_is_away() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let writers = Writers::start(&nodes, "storeless", 60, seed());
    writers.until_all_write();
    hosts.kill_redis();
    until_within(10, "the status names Redis", || {
        let away = nodes[0].entrepot(&["status"])["state_away"].take();
        away.as_str().is_some_and(|why| why.contains("Redis"))
    });
    writers.until_all_write();
    let shown = nodes[0].run(&["status"]);
    assert!(out(&shown).contains("state    AWAY: "), "{}", out(&shown));
    // A server without the data is not the store.
    hosts.keep_redis();
    hosts.server.must("rm", &["-rf", &format!("{LOCAL}/redis")]);
    hosts.server.start_redis();
    until_within(10, "the empty server is recognised", || {
        let away = nodes[0].entrepot(&["status"])["state_away"].take();
        away.as_str().is_some_and(|why| why.contains("no state of this volume"))
    });
    let order = nodes[0].run(&["target", "drain", "target1", "--no-wait"]);
    assert!(code(&order) == 7 && err(&order).contains("it is kept"), "{}", err(&order));
    hosts.kill_redis();
    hosts.put_redis_back();
    until_within(30, "targets can be emptied again", || nodes[1].run(&["target", "drain", "target1"]).status.success());
    nodes[2].ok(&["target", "restore", "target1"]);
    writers.until_all_write();
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
    let reached = hosts.directory("reached"); // made before the cut, which may be that of the host that makes it
    writers.until_all_write();
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
    Agent::start(&hosts.hosts[led]).reaches_all(&reached);
    // To it all targets had failed.
    for target in ["target1", "target2"] {
        nodes[led].ok(&["target", "restore", target]);
    }
    // The writer of the cut host may have ended with an error.
    writers.until_write(|n| n != led);
    let reports = writers.stop();
    for (_, report) in reports.iter().enumerate().filter(|(n, _)| *n != led) {
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
    are_in_order(&nodes);
}

/// The state of a target on a node, and whether other nodes have yet to get the order.
fn seen(node: &Node<'_>, target: &str) -> (String, bool) {
    let told = node.entrepot(&["target", "list"]);
    let found = told["targets"].as_array().expect("targets").iter().find(|t| t["name"] == target).expect("a target");
    (found["state"].as_str().expect("a state").into(), found["order_kept"] == true)
}

fn all_see(nodes: &[Node<'_>], target: &str, state: &str) {
    let is_right = || nodes.iter().all(|node| seen(node, target) == (state.into(), false));
    let began = Instant::now();
    while !is_right() {
        if began.elapsed() > Duration::from_secs(30) {
            let shown: Vec<_> = nodes.iter().map(|node| seen(node, target)).collect();
            panic!("all have the order that {target} is {state} and keep none: {shown:?}\n{}", logs(nodes));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An order that holds on this node only for now.
fn is_kept(node: &Node<'_>, words: &[&str], state: &str) {
    let done = node.run(&[&["target"], words].concat());
    let said = err(&done);
    assert!(code(&done) == 7 && said.contains("on this node only") && said.contains("over a restart"), "{said}");
    assert_eq!(seen(node, words[1]), (state.into(), true));
    let shown = out(&node.run(&["target", "list"]));
    assert!(shown.contains("on this node only: other nodes get the order when the state is back"), "{shown}");
}

/// [S-338] [S-339]
#[test]
fn an_order_given_while_the_store_is_away_holds_there_at_once_and_on_all_when_it_is_back() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "ordered", State::Redis, PATIENT);
    let nodes: Vec<_> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    is_well(&nodes);
    let [first, second, third] = &nodes[..] else { panic!("three nodes") };
    hosts.kill_redis();
    is_kept(first, &["fail", "target1"], "failed");
    assert_eq!(seen(second, "target1"), ("ok".into(), false));
    // The later of two orders wins, also if different nodes keep them.
    is_kept(second, &["drain", "target2"], "draining");
    is_kept(third, &["restore", "target2"], "ok");
    // A daemon that ends now cannot start without the store, and loses nothing.
    first.kill(&first.pid());
    let refused = first.try_up();
    assert!(!refused.status.success() && err(&refused).contains("cannot be reached"), "{}", err(&refused));
    hosts.server.start_redis();
    until_within(30, "those that are up have told", || [second, third].iter().all(|node| !seen(node, "target2").1));
    assert_eq!(seen(second, "target1"), ("ok".into(), false), "only the one that is down knows");
    first.up();
    all_see(&nodes, "target1", "failed");
    all_see(&nodes, "target2", "ok");

    // The last word of three, the first and the last of one node.
    third.ok(&["target", "restore", "target1"]);
    all_see(&nodes, "target1", "ok");
    hosts.kill_redis();
    is_kept(first, &["fail", "target1"], "failed");
    is_kept(second, &["fail", "target1"], "failed");
    is_kept(first, &["restore", "target1"], "ok");
    hosts.server.start_redis();
    all_see(&nodes, "target1", "ok");
    // A server that hangs breaks no connection, and its clients do not notice.
    hosts.signal_redis("-STOP");
    is_kept(second, &["fail", "target2"], "failed");
    hosts.signal_redis("-CONT");
    all_see(&nodes, "target2", "failed");
    first.ok(&["target", "restore", "target2"]);
    all_see(&nodes, "target2", "ok");
    std::fs::write(nodes[0].path("file"), noise(3 << 20)).expect("write");
    assert!(std::fs::read(nodes[2].path("file")).expect("read") == noise(3 << 20));
    are_in_order(&nodes);
    nodes.iter().for_each(Node::down);
}
