//! A node that is frozen or dead in the middle of a move, and that an operator makes another node forget.

use crate::hosts::{Hosts, hosts};
use crate::random::seed;
use crate::real::{code, err, until_within};
use crate::volume::{Frozen, Node, Shared, are_in_order, leading};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// Keys of the state store that belong to one node.
fn own_keys(hosts: &Hosts, node: &Node<'_>, what: &str) -> Vec<String> {
    let own = node.host.must("cat", &[&node.local("node")]);
    let (address, pattern) = (hosts.server.address(), format!("entrepot:*:at.{}{what}", own.trim()));
    let keys = hosts.server.must("redis-cli", &["-h", &address, "--scan", "--pattern", &pattern]);
    keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Makes a node empty targets in turn until it is frozen in the middle of a move.
fn frozen_in_a_move<'a>(hosts: &Hosts, node: &'a Node<'a>) -> Frozen<'a> {
    let began = Instant::now();
    for n in 0.. {
        assert!(began.elapsed() < Duration::from_secs(60), "no move was seen");
        let (from, to) = if n % 2 == 0 { ("target1", "target2") } else { ("target2", "target1") };
        node.ok(&["target", "restore", to]);
        node.ok(&["target", "drain", from, "--no-wait"]);
        for _ in 0..5 {
            let frozen = node.freeze();
            if !own_keys(hosts, node, ":journal").is_empty() {
                return frozen;
            }
            drop(frozen);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    unreachable!("the loop ends with a move or a panic")
}

fn settled(done: &std::process::Output) -> usize {
    assert_eq!(code(done), 0, "{}", err(done));
    let said = String::from_utf8_lossy(&done.stdout);
    let moves = said.split("is forgotten: ").nth(1).and_then(|rest| rest.split(' ').next());
    moves.and_then(|moves| moves.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

/// [S-207] [S-280]
#[test]
fn what_a_node_left_that_will_not_come_back_is_settled_by_another() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    for kills in [false, true] {
        // The one that leads empties targets.
        let led = leading(&nodes);
        let (lost, asked, third) = (&nodes[led], &nodes[(led + 1) % 3], &nodes[(led + 2) % 3]);
        let (name, both) = (lost.name(), [asked, third]);
        let refused = asked.run(&["node", "forget", &name]);
        assert!(code(&refused) == 2 && err(&refused).contains("is alive"), "{}", err(&refused));
        let how = if kills { "killed" } else { "frozen" };
        let writers = Writers::start(&nodes, &format!("forgotten-{how}"), 60, seed());
        std::thread::sleep(Duration::from_secs(1));
        let frozen = frozen_in_a_move(&hosts, lost);
        if kills {
            lost.kill(&frozen.pid);
        }
        until_within(30, "it is over", || both.iter().all(|node| node.hosts().len() == 2));
        until_within(30, "it is listed as dead", || both.iter().all(|node| node.dead() == [name.clone()]));
        let shown = asked.run(&["node", "list"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(&format!("`entrepot node forget {name}`")), "{shown}");
        let settled = settled(&asked.run(&["node", "forget", &name]));
        println!("{settled} moves were settled for one that was {how}");
        assert!(settled > 0, "{}", asked.log());
        assert!(own_keys(&hosts, lost, "*").is_empty(), "nothing is left that only it would ask for");
        assert!(both.iter().all(|node| node.dead().is_empty()), "it is missed no more");
        for target in ["target1", "target2"] {
            asked.ok(&["target", "restore", target]);
        }
        if kills {
            drop(frozen);
            lost.up();
        } else {
            // The order was wrong: the node wakes, and its work comes too late.
            drop(frozen);
            until_within(30, "it has joined again", || both.iter().all(|node| node.hosts().len() == 3));
        }
        // A daemon that is killed takes calls with it, as `killed` has it.
        for (n, report) in writers.stop().iter().enumerate() {
            assert!(kills || report.errors.is_empty(), "host {}: {:?}\n{}", n + 1, report.errors, nodes[n].log());
        }
        are_in_order(&nodes);
    }
    // A node that leaves in order is not dead, and neither is one whose daemon is started again.
    let (first, others) = (&nodes[0], &nodes[1..]);
    let frozen = first.freeze();
    first.kill(&frozen.pid);
    drop(frozen);
    until_within(30, "it is listed as dead", || others.iter().all(|node| node.dead() == [first.name()]));
    first.up();
    until_within(30, "it is back", || others.iter().all(|node| node.hosts().len() == 3));
    assert!(others.iter().all(|node| node.dead().is_empty()), "it is back");
    first.ok(&["down"]);
    until_within(30, "it has left", || others.iter().all(|node| node.hosts().len() == 2));
    assert!(others.iter().all(|node| node.dead().is_empty()), "it left in order");
}
