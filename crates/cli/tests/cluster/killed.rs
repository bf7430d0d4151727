//! Daemons that are killed amid writes and moves, and started again.

use crate::audit;
use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::real::{noise, until_within};
use crate::volume::{NODES, Shared, are_in_order, is_well};
use crate::writers::Writers;
use std::io::Write;
use std::time::{Duration, Instant};

/// [S-204] [S-213]
#[test]
fn nothing_acknowledged_is_lost_when_daemons_are_killed() {
    let Some(hosts) = hosts() else { return };
    let seed = seed();
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let (mut random, writers) = (Random(seed), Writers::start(&nodes, "killed", 60, seed));
    for (target, other) in [("target1", "target2"), ("target2", "target1")] {
        std::thread::sleep(Duration::from_millis(500));
        let (killed, order) = (random.below(3) as usize, random.below(3) as usize);
        nodes[order].ok(&["target", "drain", target, "--no-wait"]);
        std::thread::sleep(Duration::from_millis(random.below(300)));
        // As a removal would that is cut off between the name and the object.
        let left = audit::orphan(&nodes[killed], NODES, other);
        let (mark, held) = audit::marked(&nodes[killed], &nodes[(killed + 1) % 3], NODES);
        assert!(audit::lying(&nodes[order], NODES).contains(&held), "its node has it in use");
        nodes[killed].kill(&nodes[killed].pid());
        let began = Instant::now();
        nodes[killed].up();
        println!("host {} was up again {:.1?} after its end", nodes[killed].host.number, began.elapsed());
        // Other nodes finish the dead one's work.
        nodes[order].empties(target);
        println!("{target} was empty {:.1?} after that end", began.elapsed());
        nodes[random.below(3) as usize].ok(&["target", "restore", target]);
        until_within(60, "what it left is gone", || {
            let lying = audit::lying(&nodes[order], NODES);
            !lying.contains(&left) && !lying.contains(&held)
        });
        assert!(!nodes[order].host.path(&mark).exists());
        println!("what it left was gone {:.1?} after that end", began.elapsed());
    }
    std::thread::sleep(Duration::from_secs(1));
    for report in writers.stop() {
        assert!(report.writes > 20, "only {} writes", report.writes);
    }
    are_in_order(&nodes);
}

/// The size of a file that is still open is not in its stub. Other nodes wait for it, or find it in the objects.
/// [S-330]
#[test]
fn appended_bytes_of_a_killed_node_are_read_before_its_lease_is_over() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let (killed, reader) = (&nodes[1], &nodes[2]);
    for n in 0..2 {
        let (name, mut bytes) = (format!("appended{n}"), noise(1_300_000));
        std::fs::write(killed.path(&name), &bytes).expect("write");
        assert!(std::fs::read(reader.path(&name)).expect("read") == bytes);
        let mut file = std::fs::File::options().append(true).open(killed.path(&name)).expect("opens");
        file.write_all(&bytes[..5000]).expect("append");
        bytes.extend_from_within(..5000);
        killed.kill(&killed.pid());
        let began = Instant::now();
        let read = std::fs::read(reader.path(&name)).expect("read");
        println!("read {:.1?} after the end", began.elapsed());
        assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
        drop(file);
        killed.up();
        is_well(&nodes);
    }
    are_in_order(&nodes);
}
