//! Files that are removed or replaced, by the node that made them or by another, in use elsewhere or not: their objects
//! go.

use crate::agent::{Agent, Call};
use crate::audit;
use crate::hosts::hosts;
use crate::real::noise;
use crate::volume::{NODES, Shared, are_in_order};

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
    let left = || audit::lying(&nodes[0], NODES).difference(&before).count();
    let began = std::time::Instant::now();
    while left() > 0 && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let logs: String = nodes.iter().map(|node| node.log()).collect();
    assert_eq!(left(), 0, "objects of removed files are there: {logs}");
    are_in_order(&nodes);
}
