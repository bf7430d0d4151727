//! Files that are removed or replaced, by the node that made them or by another, in use elsewhere or not: their objects
//! go.

use crate::agent::{Agent, Call};
use crate::audit::{self, Objects};
use crate::hosts::hosts;
use crate::real::noise;
use crate::volume::{NODES, Node, Shared, are_in_order, logs};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::json;

/// [S-200] [S-411]
#[test]
fn the_objects_of_removed_files_go() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let data = noise(1_500_000);
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    let before = audit::lying(&nodes[0], NODES);
    for maker in 0..3 {
        let remover = &nodes[(maker + usize::from(maker > 0)) % 3];
        let name = |what: &str| format!("{what}{maker}");
        for what in ["unlinked", "replaced", "used", "new"] {
            nodes[maker].new_file(&name(what));
            std::fs::write(nodes[maker].path(&name(what)), &data).expect("write");
        }
        let reader = &mut agents[(maker + 2) % 3];
        reader.ok(Call::Open { path: format!("{}/{}", nodes[0].at, name("used")), flags: 0, of: "used".into() });
        reader.ok(Call::Read { of: "used".into(), offset: 0, len: 100 });
        assert_eq!(reader.ok(Call::SizeOf { of: "used".into() }), data.len());
        std::fs::remove_file(remover.path(&name("unlinked"))).expect("unlink");
        std::fs::rename(remover.path(&name("new")), remover.path(&name("replaced"))).expect("rename");
        std::fs::remove_file(remover.path(&name("used"))).expect("unlink");
        // Another node goes on reading, up to the end too.
        let read = reader.ok(Call::Read { of: "used".into(), offset: 0, len: data.len() + 100 });
        let read: Vec<(u8, usize)> = serde_json::from_value(read).expect("runs");
        let read: Vec<u8> = read.into_iter().flat_map(|(byte, times)| vec![byte; times]).collect();
        assert!(read == data, "{} bytes of a removed file", read.len());
        assert_eq!(reader.ok(Call::SizeOf { of: "used".into() }), data.len());
        reader.ok(Call::Close { of: "used".into() });
        std::fs::remove_file(remover.path(&name("replaced"))).expect("unlink");
    }
    objects_go(&nodes, &before);
}

/// A file that one node removes or replaces while two others use it: they go on, and its objects go after their close.
/// [S-411]
#[test]
fn a_removed_file_stays_readable_and_writable_where_it_is_open() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    let before = audit::lying(&nodes[0], NODES);
    for (round, replaced) in [(0, false), (1, true), (2, false)] {
        let name = format!("open{round}");
        let path = format!("{}/{name}", nodes[0].at);
        let (remover, one, other) = (round, (round + 1) % 3, (round + 2) % 3);
        let open = |of: &str, flags: OFlags| Call::Open { path: path.clone(), flags: flags.bits(), of: of.into() };
        let write = |of: &str, offset, byte, len| Call::Write { of: of.into(), offset, byte, len };
        let read = |offset, len| Call::Read { of: "one".into(), offset, len };
        nodes[remover].new_file(&name);
        agents[one].ok(open("one", OFlags::empty()));
        agents[one].ok(write("one", Some(0), 1, 300_000));
        agents[other].ok(open("other", OFlags::APPEND));
        match replaced {
            true => {
                nodes[remover].new_file("new");
                std::fs::rename(nodes[remover].path("new"), nodes[remover].path(&name)).expect("rename");
            }
            false => std::fs::remove_file(nodes[remover].path(&name)).expect("unlink"),
        }
        if round == 0 {
            // The remover looks for other users again and again.
            std::thread::sleep(std::time::Duration::from_secs(6));
        }
        assert_eq!(agents[one].ok(read(0, 400_000)), json!([[1, 300_000]]), "round {round}");
        agents[one].ok(write("one", Some(1000), 2, 1000));
        agents[one].ok(write("one", Some(300_000), 3, 500_000));
        agents[other].ok(write("other", None, 4, 50_000));
        assert_eq!(agents[one].ok(read(799_000, 100_000)), json!([[3, 1000], [4, 50_000]]), "round {round}");
        agents[other].ok(write("other", None, 5, 50_000));
        agents[one].ok(write("one", Some(850_000 - 10), 6, 20));
        assert_eq!(agents[one].ok(read(849_000, 100_000)), json!([[4, 990], [6, 20], [5, 49_990]]), "round {round}");
        agents[one].ok(Call::Sync { of: "one".into() });
        assert_eq!(agents[one].ok(Call::SizeOf { of: "one".into() }), 900_000);
        assert_eq!(agents[other].ok(Call::SizeOf { of: "other".into() }), 900_000);
        agents[other].ok(Call::Close { of: "other".into() });
        assert_eq!(agents[one].ok(read(0, 2000)), json!([[1, 1000], [2, 1000]]), "round {round}");
        agents[one].ok(Call::Truncate { of: "one".into(), size: 1500 });
        agents[one].ok(write("one", Some(2000), 7, 1000));
        let cut = json!([[1, 1000], [2, 500], [0, 500], [7, 1000]]);
        assert_eq!(agents[one].ok(read(0, 5000)), cut, "round {round}");
        agents[one].ok(Call::Close { of: "one".into() });
        drop(std::fs::remove_file(nodes[remover].path(&name)));
    }
    objects_go(&nodes, &before);
}

/// A removed file that is in its stub goes on there; it cannot move to objects. [S-411]
#[test]
fn a_small_removed_file_stays_readable_and_writable_where_it_is_open() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents: Vec<Agent<'_>> = nodes.iter().map(|node| Agent::of_user(node.host)).collect();
    nodes[0].new_file("small");
    let path = format!("{}/small", nodes[0].at);
    for n in [1, 2] {
        agents[n].ok(Call::Open { path: path.clone(), flags: OFlags::APPEND.bits(), of: "f".into() });
    }
    let append = |byte, len| Call::Write { of: "f".into(), offset: None, byte, len };
    agents[1].ok(append(1, 1000));
    std::fs::remove_file(nodes[0].path("small")).expect("unlink");
    for (n, byte) in [(2, 2), (1, 3), (2, 4)] {
        agents[n].ok(append(byte, 500));
    }
    let all = Call::Read { of: "f".into(), offset: 0, len: 9000 };
    agents[1..].iter_mut().for_each(|agent| {
        assert_eq!(agent.ok(all.clone()), json!([[1, 1000], [2, 500], [3, 500], [4, 500]]));
    });
    let large = agents[1].call(append(5, 1_000_000)).result;
    assert_eq!(large.err(), Some(Errno::STALE));
    assert_eq!(agents[2].ok(Call::SizeOf { of: "f".into() }), 2500);
    agents[2].ok(append(6, 100));
    are_in_order(&nodes);
}

/// Waits until the objects of removed files are gone.
fn objects_go(nodes: &[Node<'_>], before: &Objects) {
    let left = || audit::lying(&nodes[0], NODES).difference(before).count();
    let began = std::time::Instant::now();
    while left() > 0 && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(left(), 0, "objects of removed files are there: {}", logs(nodes));
    are_in_order(nodes);
}
