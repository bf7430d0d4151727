//! Daemons that are killed amid writes and moves, and started again.

use crate::audit;
use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::real::until_within;
use crate::volume::{NODES, Shared, are_in_order};
use crate::writers::Writers;
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
