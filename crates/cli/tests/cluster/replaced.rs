//! Files that one node replaces or truncates, again and again, while the others read them without any lock: each read gives the
//! whole file, and no zero that nobody wrote, and nearly each finds it.
//!
//! Seconds in a run of the tests; `ENTREPOT_MINUTES` says how long else.

use crate::agent::{Agent, Call};
use crate::hosts::hosts;
use crate::saves::{How, Orders, Report};
use crate::soak::wanted;
use crate::volume::{Node, Shared, are_in_order, logs};
use std::time::Duration;

const SHORT: Duration = Duration::from_secs(3);

/// What the writer and the readers saw.
fn run(nodes: &[Node<'_>], how: How) -> Vec<Report> {
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    let name = format!("{how:?}").replace(['(', ')'], "-");
    nodes[0].new_file(&name);
    let stop = nodes[0].signal_file(&format!("{name}.stop"));
    let orders = Orders { path: format!("{}/{name}", nodes[0].at), last: 0, stop, how };
    // Once, so that a version is there.
    let once = Orders { stop: nodes[0].signal_file(&format!("{name}.once")), ..orders.clone() };
    agents[0].begin(&Call::Save(once.clone()));
    crate::real::until_within(30, "a version is there", || {
        std::fs::metadata(nodes[0].path(&name)).is_ok_and(|now| now.len() > 0)
    });
    std::fs::write(nodes[0].host.path(&once.stop), "").expect("told");
    let last = serde_json::from_value::<Report>(agents[0].end().ok()).expect("a report").last;
    let orders = Orders { last, ..orders };
    agents.iter_mut().enumerate().for_each(|(n, agent)| {
        agent.begin(&if n == 0 { Call::Save(orders.clone()) } else { Call::Load(orders.clone()) });
    });
    std::thread::sleep(wanted().unwrap_or(SHORT));
    for node in nodes {
        std::fs::write(node.host.path(&orders.stop), "").expect("told");
    }
    agents.iter().map(|agent| serde_json::from_value(agent.end().ok()).expect("a report")).collect()
}

/// [S-350] [S-410] [S-411]
#[test]
fn readers_find_a_file_that_is_only_ever_replaced() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    // A long run has bytes in the stub and in objects, of both kinds.
    let all = [How::Replaced(50_000), How::Truncated(3000), How::Replaced(100), How::Truncated(200_000)];
    for how in all.into_iter().take(if wanted().is_some() { 4 } else { 2 }) {
        let reports = run(&nodes, how);
        // GlusterFS may refuse a rename beside lookups.
        println!("{how:?}: written {} times, errors {:?}", reports[0].done, reports[0].errors);
        assert!(reports[0].done > 0, "{:?}\n{}", reports[0].errors, logs(&nodes));
        for read in &reports[1..] {
            println!("{how:?}: {} loads, errors {:?}", read.done, read.errors);
            assert!(read.wrong.is_empty(), "{how:?}: {:?}\n{}", read.wrong, logs(&nodes));
            // On a loaded machine the file system may report a name absent for longer than it is looked up again.
            let errors: u64 = read.errors.values().sum();
            assert!(read.done > 0 && errors <= 3 + read.done / 20, "{how:?}: {:?}\n{}", read.errors, logs(&nodes));
        }
    }
    are_in_order(&nodes);
}
