//! A node dies amid a checkpoint: the others have the last one that was complete.

use crate::agent::{Agent, Call};
use crate::audit;
use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::real::{code, err, until_within};
use crate::saves::{How, Orders, Report, version};
use crate::volume::{NODES, Shared, are_in_order};
use std::time::Duration;

fn report(agent: &Agent<'_>) -> Report {
    serde_json::from_value(agent.end().ok()).expect("a report")
}

/// [S-021] [S-204]
#[test]
fn the_last_checkpoint_is_whole_when_its_writer_dies() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut random = Random(seed());
    let path = format!("{}/saved", nodes[0].at);
    let refused = nodes[0].run(&["checkpoint", "begin", "app", "--path", &path]);
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    assert!(err(&refused).contains("no burst buffer"), "{}", err(&refused));
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    let mut last = 0;
    for round in 0..3 {
        let (writer, readers) = (round % 3, [(round + 1) % 3, (round + 2) % 3]);
        let stop = nodes[0].signal_file(&format!("saved{round}"));
        let orders = Orders { path: path.clone(), last, stop, how: How::Synced };
        agents[writer].begin(&Call::Save(orders.clone()));
        let first = nodes[readers[0]].path("saved");
        let is_saved = || std::fs::read(&first).is_ok_and(|read| version(&read).is_ok_and(|version| version > last));
        until_within(30, "one is saved", is_saved);
        readers.iter().for_each(|reader| agents[*reader].begin(&Call::Load(orders.clone())));
        std::thread::sleep(Duration::from_millis(500 + random.below(500)));
        nodes[writer].kill(&nodes[writer].pid());
        let wrote = report(&agents[writer]);
        std::thread::sleep(Duration::from_millis(500));
        for reader in readers {
            std::fs::write(nodes[reader].host.path(&orders.stop), "").expect("told");
            let read = report(&agents[reader]);
            println!("host {}: saved up to {}, {} loads, errors {:?}", reader + 1, wrote.last, read.done, read.errors);
            assert!(read.wrong.is_empty(), "host {}: {:?}", reader + 1, read.wrong);
            assert!(read.done > 0, "host {} loaded none", reader + 1);
            let there = version(&std::fs::read(nodes[reader].path("saved")).expect("read"));
            // The rename may have been done and not answered.
            assert!(
                [Ok(wrote.last), Ok(wrote.last + 1)].contains(&there),
                "host {}: {there:?} after {}",
                reader + 1,
                wrote.last
            );
            last = there.expect("a version");
        }
        assert_eq!(wrote.errors.len(), 1, "its writer died with the node: {wrote:?}");
        nodes[writer].up();
    }
    drop(agents);
    for node in &nodes {
        assert!(!node.log().contains("objects of a removed file stay"), "{}", node.log());
    }
    // The check finds objects that the dead node had yet to remove.
    until_within(30, "it is found", || nodes[1].run(&["check", "--repair"]).status.success());
    are_in_order(&nodes);
    audit::balances(&nodes[1], NODES);
}
