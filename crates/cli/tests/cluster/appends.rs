//! Processes on all hosts append to one file: whole records, none lost, each writer's in its order.

use crate::agent::{Agent, Call};
use crate::hosts::hosts;
use crate::volume::{Shared, are_in_order};
use rustix::fs::OFlags;

/// Each process writes so many.
const RECORDS: usize = 60;
/// Number of appends that each node sends at once. The holder of the file may keep it for a while, so each must come at
/// least once in a round.
const AT_ONCE: usize = 10;

/// Length of a record; it identifies the record among those of a writer.
fn len(record: usize) -> usize {
    200 + 7 * record
}

/// [S-202]
#[test]
fn appends_of_several_nodes_are_whole_and_none_is_lost() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    let (path, flags) = (format!("{}/log", nodes[0].at), (OFlags::CREATE | OFlags::APPEND).bits());
    for agent in &mut agents {
        agent.ok(Call::Open { path: path.clone(), flags, of: "log".into() });
    }
    let began = std::time::Instant::now();
    for first in (0..RECORDS).step_by(AT_ONCE) {
        for record in first..first + AT_ONCE {
            for (agent, byte) in agents.iter_mut().zip(b'a'..) {
                agent.begin(&Call::Write { of: "log".into(), offset: None, byte, len: len(record) });
            }
        }
        for agent in &agents {
            for record in first..first + AT_ONCE {
                assert_eq!(agent.end().ok(), len(record));
            }
        }
    }
    println!("{} appends in {:.1?}", 3 * RECORDS, began.elapsed());
    let all = std::fs::read(nodes[0].path("log")).expect("read");
    let mut next = [0; 3];
    let mut turns = 0;
    for run in all.chunk_by(|a, b| a == b) {
        let writer = usize::from(run[0].wrapping_sub(b'a'));
        assert!(writer < 3, "byte {:#x} is nobody's", run[0]);
        let mut rest = run.len();
        while rest > 0 {
            let whole = len(next[writer]);
            assert!(rest >= whole, "host {}: record {} has {rest} of {whole} bytes", writer + 1, next[writer]);
            (rest, next[writer]) = (rest - whole, next[writer] + 1);
        }
        turns += 1;
    }
    assert_eq!(next, [RECORDS; 3], "all are there");
    assert!(turns > 2 * RECORDS / AT_ONCE, "they wrote at the same time, in {turns} turns");
    for node in &nodes {
        assert!(std::fs::read(node.path("log")).expect("read") == all, "host {} has the same", node.host.number);
    }
    drop(agents);
    are_in_order(&nodes);
}
