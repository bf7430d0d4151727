//! The node that leads adapts the volume to what the users of all nodes do.

use crate::hosts::hosts;
use crate::real::{noise, until_within};
use crate::volume::{Node, Shared, State, leading};
use std::os::unix::fs::FileExt;

const SEGMENT: u64 = 256 << 10;
const SEGMENTS: u64 = 8;

/// Tiers of the file's segments: `F` and `s`.
fn map(node: &Node<'_>) -> Vec<u8> {
    let layout = node.entrepot(&["layout", &format!("{}/data", node.at)]);
    let segments = layout["mirrors"][0]["segments"].as_array().expect("segments").clone();
    segments.iter().map(|segment| if segment.to_string().contains("quick") { b'F' } else { b's' }).collect()
}

/// [S-206]
#[test]
fn the_leader_promotes_data_that_another_node_reads_often() {
    let Some(hosts) = hosts() else { return };
    let quick = hosts.directory("heard/quick");
    let tiers = format!(
        "[[target]]\nname = \"quick\"\ntier = \"fast\"\npath = \"{quick}\"\n[tier.fast]\nspeed = \"2000/1000\"\n\
         [layout]\nsingle_max = 0\ninline_max = 0\nstripe_count = 1\nstripe_size = \"256KiB\"\nsegment = \"256KiB\"\n\
         [tiering]\npolicy = \"tuned\"\nfast = \"fast\"\nslow = \"disk\"\nwindow = 64\nidle = \"100ms\"\nplacement = \"round-robin\"\n"
    );
    let shared = Shared::new(&hosts, "heard", State::Redis, &tiers);
    let nodes = shared.up();
    let led = leading(&nodes);
    let reader = &nodes[(led + 1) % nodes.len()];
    std::fs::write(reader.path("data"), noise((SEGMENTS * SEGMENT) as usize)).expect("write");
    let hot = map(reader).iter().rposition(|tier| *tier == b's').expect("some lie on the slow tier");
    let mut page = vec![0; 64 << 10];
    until_within(60, "the hot segment is on the fast tier", || {
        let file = std::fs::File::open(reader.path("data")).expect("open");
        (0..64).for_each(|_| file.read_exact_at(&mut page, hot as u64 * SEGMENT).expect("read"));
        // The devices are left alone for as long as moves want it.
        std::thread::sleep(std::time::Duration::from_secs(2));
        map(reader)[hot] == b'F'
    });
    // The reader itself moves nothing.
    let told = reader.entrepot(&["status"])["tiering"]["promoted"].as_u64();
    assert_eq!(told, Some(0), "{told:?}");
    assert!(nodes[led].entrepot(&["status"])["tiering"]["promoted"].as_u64() > Some(0));

    // A pause is the volume's, whichever node is asked, until another leads.
    let paused = |node: &Node<'_>| node.entrepot(&["status"])["tiering"]["paused"] == true;
    reader.ok(&["tiering", "pause"]);
    assert!(paused(&nodes[led]) && !paused(reader));
    reader.ok(&["tiering", "resume"]);
    assert!(!paused(&nodes[led]));
    reader.ok(&["tiering", "pause"]);
    reader.ok(&["node", "drain", &nodes[led].name(), "--no-wait"]);
    until_within(60, "another leads, and nothing is paused", || {
        !["", &nodes[led].name()].contains(&&*reader.leader()) && !nodes.iter().any(paused)
    });
    reader.ok(&["node", "restore", &nodes[led].name()]);
}
