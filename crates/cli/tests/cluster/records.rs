//! Several nodes write one file, each its own records: nothing is lost, and all agree on the size.

use crate::agent::{Agent, Call};
use crate::hosts::hosts;
use crate::random::seed;
use crate::volume::{Node, Shared, are_in_order};
use crate::writers::{RECORD, is_there, orders, report};

/// Writers on these hosts write all records of a new file, once each and at the same time.
fn written(nodes: &[Node<'_>], on: &[usize], file: &str, record: usize, slots: u64, seed: u64) {
    nodes[0].new_file(file);
    let mut agents: Vec<Agent<'_>> = on.iter().map(|n| Agent::of_user(nodes[*n].host)).collect();
    let path = format!("{}/{file}", nodes[0].at);
    for (agent, orders) in agents.iter_mut().zip(orders(&path, record, slots, on.len() as u64, seed)) {
        agent.begin(&Call::Records(orders));
    }
    let reports: Vec<_> = agents.iter().map(|agent| report(agent.end().ok())).collect();
    for report in &reports {
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
    assert_eq!(reports.iter().map(|report| report.writes).sum::<u64>(), slots);
    is_there(nodes, file, record, &reports);
    assert_eq!(std::fs::metadata(nodes[0].path(file)).expect("stat").len(), slots * record as u64);
}

/// [S-201]
#[test]
fn records_that_several_nodes_write_at_once_are_all_there() {
    let Some(hosts) = hosts() else { return };
    let seed = seed();
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let began = std::time::Instant::now();
    written(&nodes, &[0, 1, 2, 0], "large", RECORD, 240, seed);
    println!("240 records of {RECORD} bytes by four processes in {:.1?}", began.elapsed());
    let began = std::time::Instant::now();
    // The records begin in the stub.
    for n in 0..5 {
        written(&nodes, &[0, 1, 2], &format!("small{n}"), 1000, 120, seed + n);
    }
    println!("five files that outgrew their stubs in {:.1?}", began.elapsed());
    are_in_order(&nodes);
}

/// [S-330]
#[test]
fn growth_shows_at_once_to_its_writer_and_to_readers() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    nodes[0].new_file("grows");
    let path = format!("{}/grows", nodes[0].at);
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    let size = || Call::SizeOf { of: "f".into() };
    let mut end = 0;
    let mut grow = |agent: &mut Agent<'_>, byte: u8| {
        let write = Call::Write { of: "f".into(), offset: Some(end as u64), byte, len: RECORD };
        assert_eq!(agent.ok(write), RECORD);
        end += RECORD;
        assert_eq!(agent.ok(size()), end, "after record {byte}");
        end
    };
    agents[0].open(&path, "f");
    for byte in 1..4 {
        grow(&mut agents[0], byte);
    }
    agents[1..].iter_mut().for_each(|agent| agent.open(&path, "f"));
    for byte in 4..20 {
        let end = grow(&mut agents[usize::from(byte) % 3], byte);
        for agent in &mut agents {
            let last = Call::Read { of: "f".into(), offset: (end - RECORD) as u64, len: 2 * RECORD };
            assert_eq!(agent.ok(last), serde_json::json!([[byte, RECORD]]));
        }
    }
    agents.iter_mut().for_each(|agent| drop(agent.ok(Call::Sync { of: "f".into() })));
    for agent in &mut agents {
        assert_eq!(agent.ok(size()), 19 * RECORD);
        assert_eq!(agent.ok(Call::Size { path: path.clone() }), 19 * RECORD);
    }
    are_in_order(&nodes);
}
