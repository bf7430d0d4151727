//! Redis dies and comes back as it was a while ago: what the state forgot costs no byte, and `check` finds what is left
//! over.

use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::real::{noise, until_within};
use crate::volume::{Shared, are_in_order};
use crate::writers::Writers;
use crate::{audit, volume};
use std::time::Duration;

/// [S-205] [S-161]
#[test]
fn a_store_that_is_put_back_from_an_old_snapshot_costs_no_byte() {
    let Some(hosts) = hosts() else { return };
    let seed = seed();
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let (mut random, data) = (Random(seed), noise(3_000_000));
    std::fs::write(nodes[0].path("before"), &data).expect("write");
    hosts.keep_redis();
    let writers = Writers::start(&nodes, "forgotten", 60, seed);
    for n in 0..6 {
        let node = &nodes[n % 3];
        std::fs::write(node.path(&format!("after{n}")), &data[n..]).expect("write");
        std::fs::write(node.path("often"), &data[..1_000_000 + n]).expect("write");
    }
    nodes[1].empties("target1");
    nodes[2].ok(&["target", "restore", "target1"]);
    // Redis forgets a move in progress, and the node that makes it dies.
    let (order, killed) = (&nodes[0], &nodes[0]);
    order.ok(&["target", "drain", "target2", "--no-wait"]);
    std::thread::sleep(Duration::from_millis(random.below(200)));
    let pid = killed.pid();
    hosts.kill_redis();
    killed.kill(&pid);
    hosts.put_redis_back();
    killed.up();
    volume::is_well(&nodes);
    for n in 6..9 {
        std::fs::write(nodes[n % 3].path(&format!("after{n}")), &data[n..]).expect("write");
    }
    // An object whose removal Redis forgot stays until a check finds it, and keeps a target from being emptied.
    let found = || nodes[1].run(&["check", "--repair"]);
    until_within(30, "what is left over is found and removed", || found().status.success());
    nodes[1].empties("target1");
    nodes[2].ok(&["target", "restore", "target1"]);
    for (n, report) in writers.stop().iter().enumerate() {
        assert!(n == 0 || report.errors.is_empty(), "{:?}", report.errors);
    }
    for node in &nodes {
        assert!(std::fs::read(node.path("before")).expect("read") == data);
        assert!(std::fs::read(node.path("often")).expect("read") == data[..1_000_005]);
        for n in 0..9 {
            assert!(std::fs::read(node.path(&format!("after{n}"))).expect("read") == data[n..]);
        }
    }
    until_within(30, "what is left over is found and removed", || {
        nodes[1].run(&["check", "--repair"]).status.success()
    });
    are_in_order(&nodes);
    audit::balances(&nodes[2], volume::NODES);
}
