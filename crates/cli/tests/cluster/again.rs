//! Files that a node opens again under the hold of its last open.

use crate::audit;
use crate::bench::calls::Calls;
use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::real::{noise, until_within};
use crate::volume::{NODES, Shared, are_in_order};
use std::io::ErrorKind;

/// [S-330]
#[test]
fn a_file_that_is_read_again_takes_no_open_and_no_read_of_the_shared_file_system() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let names: Vec<String> = (0..20).map(|n| format!("again{n}")).collect();
    let read = |node: usize| names.iter().map(|name| std::fs::read(nodes[node].path(name)).expect("read")).collect();
    names.iter().for_each(|name| std::fs::write(nodes[0].path(name), name).expect("write"));
    let idle = Calls::idle(&hosts.hosts);
    // On a slow machine too much time may pass between two reads.
    let takes_none = (0..5).any(|_| {
        let first: Vec<Vec<u8>> = read(1);
        assert!(first.iter().zip(&names).all(|(read, name)| read == name.as_bytes()));
        let calls = Calls::during(&hosts.hosts, &idle, || assert_eq!(first, read(1) as Vec<Vec<u8>>));
        println!("{}", calls.named());
        ["open", "read", "flush"].iter().all(|name| calls.of_name(name) < 10.0)
    });
    assert!(takes_none);
    names.iter().for_each(|name| std::fs::write(nodes[0].path(name), "new").expect("write"));
    assert!((read(1) as Vec<Vec<u8>>).iter().all(|read| read == b"new"), "what another node wrote shows");
}

/// [S-330] [S-411]
#[test]
fn a_file_that_is_opened_again_shows_what_any_node_did_since() {
    let Some(hosts) = hosts() else { return };
    let (shared, mut random) = (Shared::of_all(&hosts), Random(seed()));
    let nodes = shared.up();
    let before = audit::lying(&nodes[0], NODES);
    let mut known: Vec<Option<Vec<u8>>> = vec![None; 6];
    for step in 0..400 {
        let (one, other) = (&nodes[random.below(3) as usize], &nodes[random.below(3) as usize]);
        let n = random.below(known.len() as u64) as usize;
        let (path, part) = (one.path(&format!("shown{n}")), one.path(&format!("part{step}")));
        let bytes = noise(random.one_of(&[1, 700, 9000, 47_008, 200_000]));
        match random.below(6) {
            0 => std::fs::write(path, &bytes).map(|()| known[n] = Some(bytes)).expect("write"),
            1 => {
                std::fs::write(&part, &bytes).and_then(|()| std::fs::rename(&part, path)).expect("replace");
                known[n] = Some(bytes);
            }
            2 if known[n].take().is_some() => std::fs::remove_file(path).expect("removal"),
            _ => {}
        }
        for node in [one, other] {
            match (std::fs::read(node.path(&format!("shown{n}"))), &known[n]) {
                (Ok(read), Some(known)) => {
                    assert!(read == *known, "step {step}: {} of {} bytes", read.len(), known.len())
                }
                (Err(error), None) if error.kind() == ErrorKind::NotFound => {}
                (done, _) => panic!("step {step}: {done:?}"),
            }
        }
    }
    for n in 0..known.len() {
        let _ = std::fs::remove_file(nodes[0].path(&format!("shown{n}")));
    }
    until_within(30, "all objects are removed", || audit::lying(&nodes[0], NODES) == before);
    are_in_order(&nodes);
}
