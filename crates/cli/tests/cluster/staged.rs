//! Data that come in by several nodes.

use crate::hosts::hosts;
use crate::real::{err, noise, out};
use crate::volume::{Node, Shared, are_in_order, is_well};
use crate::web::Web;
use std::collections::BTreeMap;
use std::time::Duration;

/// Size of twelve units.
const SIZE: usize = 48 << 20;
const FILES: usize = 60;

fn has(node: &Node<'_>, file: &str, data: &[u8]) {
    let there = std::fs::read(node.path(file)).expect("it is read");
    assert!(there == data, "{} sees {} bytes of {}", node.name(), there.len(), data.len());
}

fn staged_bytes(node: &Node<'_>) -> u64 {
    let metrics = out(&node.run(&["stats", "--prometheus"]));
    let of = |line: &str| line.strip_prefix("entrepot_stage_in_bytes_total")?.split_whitespace().last()?.parse().ok();
    metrics.lines().find_map(of).expect("a metric")
}

/// [S-216]
#[test]
fn a_large_file_is_brought_by_several_nodes_each_byte_once() {
    let Some(hosts) = hosts() else { return };
    let Some(web) = Web::start(&hosts.server) else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let data = noise(SIZE);
    web.put("big", &data);
    for (n, node) in nodes.iter().take(2).enumerate() {
        // A draining node takes no part.
        let (part, idle) = nodes.split_at(nodes.len() - n);
        idle.iter().for_each(|drains| node.ok(&["node", "drain", &drains.name()]));
        // On a loaded machine a node may begin after the others have brought everything.
        let shared_by_all = (0..3).any(|attempt| {
            web.forget();
            let file = format!("big{n}.{attempt}");
            node.ok(&["stage", "in", &web.uri("slow/big"), &format!("{}/{file}", node.at)]);
            nodes.iter().for_each(|node| has(node, &file, &data));
            let mut by: BTreeMap<String, usize> = BTreeMap::new();
            web.asked_by().into_iter().for_each(|(range, host)| *by.entry(host).or_default() += range.len());
            println!("bytes by host: {by:?}");
            let all: usize = by.values().sum();
            assert!(
                (SIZE..SIZE + 100).contains(&all),
                "{all} bytes but for what is asked to see whether ranges are served"
            );
            let takes_part = |node: &Node<'_>| by.get(&node.host.address()).is_some_and(|bytes| *bytes > 4 << 20);
            by.len() <= part.len() && part.iter().all(takes_part)
        });
        assert!(shared_by_all, "{}", node.log());
        idle.iter().for_each(|drained| node.ok(&["node", "restore", &drained.name()]));
    }
    are_in_order(&nodes);
}

/// [S-216]
#[test]
fn the_requester_fetches_the_share_of_a_node_that_dies() {
    let Some(hosts) = hosts() else { return };
    let Some(web) = Web::start(&hosts.server) else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let data = noise(2 * SIZE);
    web.put("helped", &data);
    let (asked, dies) = (&nodes[0], &nodes[2]);
    let pid = dies.pid();
    web.forget();
    std::thread::scope(|scope| {
        let to = format!("{}/helped", asked.at);
        let uri = web.uri("slow/helped");
        let stages = scope.spawn(move || asked.run(&["stage", "in", &uri, &to]));
        // The rate of a connection makes the transfer last eight seconds.
        std::thread::sleep(Duration::from_secs(2));
        dies.kill(&pid);
        let done = stages.join().expect("no panic");
        assert!(done.status.success(), "{}\n{}", err(&done), asked.log());
    });
    let address = dies.host.address();
    assert!(web.asked_by().iter().any(|(range, host)| *host == address && range.len() > 4096), "it took part");
    has(asked, "helped", &data);
    dies.up();
    is_well(&nodes);
    has(dies, "helped", &data);
    are_in_order(&nodes);
}

/// [S-216]
#[test]
fn the_files_of_a_directory_are_brought_by_several_nodes() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let source = hosts.directory("source-of-many");
    let data: Vec<Vec<u8>> = (0..FILES).map(|n| noise(100_000 + n)).collect();
    for (n, bytes) in data.iter().enumerate() {
        std::fs::write(nodes[0].host.path(&format!("{source}/file{n}")), bytes).expect("a source");
    }
    let before: Vec<u64> = nodes.iter().map(staged_bytes).collect();
    nodes[1].ok(&["stage", "in", "--directory", &format!("file://{source}"), &format!("{}/many", nodes[1].at)]);
    let brought: Vec<u64> = nodes.iter().zip(&before).map(|(node, before)| staged_bytes(node) - before).collect();
    println!("bytes by host: {brought:?}");
    let all: usize = data.iter().map(Vec::len).sum();
    assert!(brought.iter().sum::<u64>() == all as u64 && brought.iter().all(|bytes| *bytes > 0), "{brought:?}");
    for (n, bytes) in data.iter().enumerate() {
        has(&nodes[n % 3], &format!("many/file{n}"), bytes);
    }
    let again =
        nodes[2].run(&["stage", "in", "--directory", &format!("file://{source}"), &format!("{}/many", nodes[2].at)]);
    assert!(!again.status.success() && err(&again).contains("there already"), "{}", err(&again));
    are_in_order(&nodes);
}
