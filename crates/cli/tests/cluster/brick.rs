//! The bricks of the shared file system die one after the other under nodes that write and read, and come back.

use crate::agent::Agent;
use crate::hosts::{Host, hosts};
use crate::random::seed;
use crate::real::{noise, out};
use crate::volume::{NODES, Node, Shared, are_in_order, is_well};
use crate::writers::Writers;
use crate::{audit, ceph, gluster};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A target's deadline, and as long again for a write that waits for a lease.
const SLOWEST: Duration = Duration::from_secs(60);

/// Whether the file of a node's lease lies on a brick. Files of other bricks that only point there are empty.
fn has_lease_of(server: &Host, brick: &str, node: &Node<'_>) -> bool {
    let at = format!("{brick}/{NODES}/namespace/nodes");
    let name = format!("{}.[0-9]*", node.number());
    !server.must("find", &[&at, "-name", &name, "-size", "+0"]).is_empty()
}

/// The contents of all files, by their paths below the mount.
fn contents(node: &Node<'_>) -> BTreeMap<PathBuf, Vec<u8>> {
    let (root, mut found) = (node.path(""), BTreeMap::new());
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.is_file() {
                let below = path.strip_prefix(&root).expect("below the mount").to_owned();
                found.insert(below, std::fs::read(&path).expect("read"));
            }
        }
    }
    found
}

/// [S-021] [S-162]
#[test]
fn a_brick_that_dies_and_comes_back_costs_nothing_acknowledged() {
    if ceph::is_wanted() {
        return eprintln!("skipped: bricks are GlusterFS's");
    }
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let data = noise(2_000_000);
    let files: Vec<String> = (0..6).map(|n| format!("brick{n}")).collect();
    for (n, file) in files.iter().enumerate() {
        std::fs::write(nodes[n % 3].path(file), &data[n..]).expect("write");
    }
    let before = contents(&nodes[0]);
    let writers = Writers::start(&nodes, "bricks", 60, seed());
    let reached = hosts.directory("bricks-reached");
    for (n, brick) in gluster::BRICKS.into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(500));
        // A node that cannot renew its lease meanwhile, if there is one.
        let checks = nodes.iter().find(|node| has_lease_of(&hosts.server, brick, node)).unwrap_or(&nodes[n]);
        gluster::kill_brick(&hosts.server, brick);
        let began = Instant::now();
        let checked = checks.run(&["check", "--repair", "--output", "json"]);
        println!("{brick} away: check ended with {:?} after {:.1?}", checked.status.code(), began.elapsed());
        let ended = checked.status.code().is_some_and(|code| code != 0);
        assert!(ended, "it ends, and sees that not all is there: {}", out(&checked));
        std::thread::sleep(Duration::from_secs(3).saturating_sub(began.elapsed()));
        gluster::restart_bricks(&hosts.server);
        nodes.iter().for_each(|node| Agent::start(node.host).reaches_all(&reached));
        is_well(&nodes);
        println!("{brick} and all nodes were back {:.1?} after its end", began.elapsed());
    }
    std::thread::sleep(Duration::from_millis(500));
    for report in writers.stop() {
        assert!(report.writes > 20, "only {} writes", report.writes);
        assert!(report.slowest < SLOWEST, "{:?}", report.slowest);
    }
    for node in &nodes {
        for (path, bytes) in &before {
            let now = std::fs::read(node.path("").join(path)).expect("read");
            assert!(now == *bytes, "host {}: {path:?}", node.host.number);
        }
    }
    are_in_order(&nodes);
    audit::balances(&nodes[0], NODES);
}
