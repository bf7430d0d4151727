//! One burst buffer for all nodes: checkpoints that processes on several hosts write together.

use crate::hosts::{Hosts, hosts};
use crate::real::{err, noise, until, until_within};
use crate::volume::{Node, Shared, State, leading};
use serde_json::Value;
use std::fs::{File, create_dir_all};
use std::io::Write;

const BYTES: usize = 3 << 20;

/// A volume with a fast tier that all reach.
fn volume<'a>(hosts: &'a Hosts, name: &str) -> Shared<'a> {
    let quick = hosts.directory(&format!("{name}/quick"));
    let burst = format!(
        "[[target]]\nname = \"quick\"\ntier = \"fast\"\npath = \"{quick}\"\n[tier.fast]\nspeed = \"2000/1000\"\n\
         [health]\ndeadline = \"30s\"\n\
         [burst]\nfast = \"fast\"\ncapacity = \"disk\"\nsize = \"64MiB\"\ncheckpoints = [\"ck/{{app}}/{{version}}/**\"]\n"
    );
    Shared::new(hosts, name, State::Redis, &burst)
}

fn versions(node: &Node<'_>, app: &str) -> Vec<Value> {
    node.entrepot(&["checkpoint", "list", app])["versions"].as_array().expect("versions").clone()
}

fn version(node: &Node<'_>, app: &str, label: &str) -> Option<Value> {
    versions(node, app).into_iter().find(|version| version["label"] == label)
}

fn is_complete(node: &Node<'_>, app: &str, label: &str, files: usize) -> bool {
    let is_it = |of: Value| of["state"] == "complete" && of["files"].as_array().map(Vec::len) == Some(files);
    version(node, app, label).is_some_and(is_it)
}

/// A process of each host writes its file of a version; what is to be closed.
fn write(nodes: &[Node<'_>], dir: &str) -> Vec<File> {
    create_dir_all(nodes[0].path(dir)).expect("a directory");
    let open = |(rank, node): (usize, &Node<'_>)| {
        let mut file = File::create(node.path(&format!("{dir}/rank{rank}"))).expect("create");
        noise(BYTES + rank).chunks(100_000).for_each(|record| file.write_all(record).expect("write"));
        file
    };
    nodes.iter().enumerate().map(open).collect()
}

fn is_readable(nodes: &[Node<'_>], dir: &str) {
    for rank in 0..nodes.len() {
        let reader = &nodes[(rank + 1) % nodes.len()];
        let read = std::fs::read(reader.path(&format!("{dir}/rank{rank}"))).expect("read");
        assert!(read == noise(BYTES + rank), "{dir}/rank{rank}: {} bytes", read.len());
    }
}

/// The tiers of a file's mirrors.
fn tiers(node: &Node<'_>, file: &str) -> String {
    let layout = node.entrepot(&["layout", &format!("{}/{file}", node.at)]).to_string();
    let has = |target: &str| layout.contains(&format!("\"{target}"));
    format!("{}{}", if has("quick") { "F" } else { "" }, if has("target1") || has("target2") { "c" } else { "" })
}

/// [S-210]
#[test]
fn checkpoints_of_several_nodes_are_one_version_and_leave_for_the_capacity_tier() {
    let Some(hosts) = hosts() else { return };
    let shared = volume(&hosts, "bursts");
    let nodes = shared.up();
    let led = leading(&nodes);
    let [leader, follower, other] = [0, 1, 2].map(|n| &nodes[(led + n) % nodes.len()]);
    // By their paths: complete when the last of all is closed.
    let mut files = write(&nodes, "ck/wave/1");
    until("it is known everywhere", || {
        nodes
            .iter()
            .all(|node| version(node, "wave", "1").is_some_and(|of| of["files"].as_array().map(Vec::len) == Some(3)))
    });
    assert!(nodes.iter().all(|node| version(node, "wave", "1").is_some_and(|of| of["state"] == "writing")));
    assert_eq!(tiers(follower, "ck/wave/1/rank0"), "F");
    drop(files.split_off(1));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(!is_complete(other, "wave", "1", 3), "one is still open");
    drop(files);
    until_within(30, "it is complete", || nodes.iter().all(|node| is_complete(node, "wave", "1", 3)));
    is_readable(&nodes, "ck/wave/1");
    until_within(30, "it has left", || (0..3).all(|rank| tiers(other, &format!("ck/wave/1/rank{rank}")).contains('c')));
    is_readable(&nodes, "ck/wave/1");

    // Announced on one, written on all and still open, committed on another.
    create_dir_all(follower.path("own")).expect("a directory");
    let at = format!("{}/own", follower.at);
    let begun = follower.run(&["checkpoint", "begin", "own", "--path", &at, "--version", "a"]);
    assert!(begun.status.success(), "{}\n{}", err(&begun), leader.log());
    let files = write(&nodes, "own/a");
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(version(leader, "own", "a").is_some_and(|of| of["state"] == "writing"), "{:?}", versions(leader, "own"));
    other.ok(&["checkpoint", "commit", "own"]);
    let bytes = version(other, "own", "a").expect("the version")["bytes"].as_u64();
    assert_eq!(bytes, Some(3 * BYTES as u64 + 3), "what is still in files that are open counts");
    drop(files);
    assert!(nodes.iter().all(|node| is_complete(node, "own", "a", 3)));
    is_readable(&nodes, "own/a");
    // Each node reports the restart directory by its own mount point; also after another has renamed it, and while
    // files in it are open.
    let held: Vec<File> = nodes.iter().map(|node| File::open(node.path("own/a/rank0")).expect("open")).collect();
    for (dir, restarts) in [("own", "own"), ("own.aside", "own.aside/a")] {
        if dir != "own" {
            std::fs::rename(follower.path("own"), follower.path(dir)).expect("rename");
        }
        for node in &nodes {
            let told = node.entrepot(&["checkpoint", "restart", "own"]);
            assert_eq!(told["directory"], format!("{}/{restarts}", node.at), "{told}");
        }
    }
    drop(held);
    assert_eq!(other.run(&["checkpoint", "restart", "none"]).status.code(), Some(5));
    let nothing = other.run(&["checkpoint", "commit", "own"]);
    assert!(err(&nothing).contains("no version of own was begun"), "{}", err(&nothing));

    // More than the buffer holds, from all: what has left makes room.
    for n in 2..10 {
        drop(write(&nodes, &format!("ck/wave/{n}")));
    }
    until_within(60, "the last is complete", || is_complete(follower, "wave", "9", 3));
    (2..10).for_each(|n| is_readable(&nodes, &format!("ck/wave/{n}")));
    nodes.iter().for_each(Node::down);
}

/// [S-211] [S-363]
#[test]
fn a_lost_node_costs_the_version_that_it_wrote_and_the_buffer_goes_on() {
    let Some(hosts) = hosts() else { return };
    let shared = volume(&hosts, "bursts");
    let nodes = shared.up();
    let led = leading(&nodes);
    let [leader, follower, other] = [0, 1, 2].map(|n| &nodes[(led + n) % nodes.len()]);
    drop(write(&nodes, "ck/lost/1"));
    until_within(30, "the first is complete", || is_complete(other, "lost", "1", 3));
    // A node that follows dies while it writes.
    let files = write(&nodes, "ck/lost/2");
    until("all are known", || {
        version(leader, "lost", "2").is_some_and(|of| of["files"].as_array().map(Vec::len) == Some(3))
    });
    let failed = |node: &Node<'_>| node.entrepot(&["checkpoint", "status"])["failed"].as_u64();
    let before = failed(leader);
    follower.kill(&follower.pid());
    drop(files);
    until_within(30, "it does not count", || failed(leader) > before);
    assert!(version(other, "lost", "2").is_none() && is_complete(other, "lost", "1", 3));
    follower.up();
    // The lead is handed over while all write, and Redis is away for a moment.
    let files = write(&nodes, "ck/lost/handed");
    other.ok(&["node", "drain", "--no-wait", &leader.name()]);
    until_within(30, "another leads", || other.leader() != leader.name());
    hosts.kill_redis();
    drop(files);
    std::thread::sleep(std::time::Duration::from_secs(2));
    hosts.server.start_redis();
    until_within(60, "it is complete", || is_complete(leader, "lost", "handed", 3));
    is_readable(&nodes, "ck/lost/handed");
    other.ok(&["node", "restore", &leader.name()]);
    let led = leading(&nodes);
    let [leader, follower, other] = [0, 1, 2].map(|n| &nodes[(led + n) % nodes.len()]);
    // The node that leads dies while others write: the next has what they wrote, and knows what was complete.
    let dir = "ck/lost/3";
    create_dir_all(other.path(dir)).expect("a directory");
    let two = [follower, other].map(|node| {
        let mut file = File::create(node.path(&format!("{dir}/{}", node.name()))).expect("create");
        file.write_all(&noise(BYTES)).expect("write");
        file
    });
    leader.kill(&leader.pid());
    let [mut first, second] = two;
    first.write_all(&noise(BYTES)).expect("a write while nobody leads");
    drop((first, second));
    until_within(60, "what the others wrote is complete", || is_complete(other, "lost", "3", 2));
    assert!(is_complete(follower, "lost", "1", 3));
    let read = std::fs::read(other.path(&format!("{dir}/{}", follower.name()))).expect("read");
    assert!(read == [noise(BYTES), noise(BYTES)].concat());
    leader.up();
    is_readable(&nodes, "ck/lost/1");
    // An announced version: the file of the lost node is there and no part of it.
    let led = leading(&nodes);
    let [leader, follower, other] = [0, 1, 2].map(|n| &nodes[(led + n) % nodes.len()]);
    create_dir_all(follower.path("own/1")).expect("a directory");
    follower.ok(&["checkpoint", "begin", "own", "--path", &format!("{}/own", follower.at), "--version", "1"]);
    drop(write(&nodes, "own/1"));
    leader.kill(&leader.pid());
    until_within(60, "another leads", || other.leader() != leader.name());
    let refused = other.run(&["checkpoint", "commit", "own"]);
    assert_eq!(refused.status.code(), Some(7), "{}", err(&refused));
    assert!(err(&refused).contains(&format!("own/1/rank{led}")), "{}", err(&refused));
    leader.up();
    drop(write(&nodes, "ck/lost/4"));
    until_within(30, "it goes on", || is_complete(leader, "lost", "4", 3));
    nodes.iter().for_each(Node::down);
}
