//! Daemons that are killed amid writes and moves, and started again.

use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::volume::{Shared, are_in_order};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// [S-204]
#[test]
fn nothing_acknowledged_is_lost_when_daemons_are_killed() {
    let Some(hosts) = hosts() else { return };
    let seed = seed();
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let (mut random, writers) = (Random(seed), Writers::start(&nodes, "killed", 60, seed));
    for target in ["target1", "target2"] {
        std::thread::sleep(Duration::from_millis(500));
        let (killed, order) = (random.below(3) as usize, random.below(3) as usize);
        nodes[order].ok(&["target", "drain", target, "--no-wait"]);
        std::thread::sleep(Duration::from_millis(random.below(300)));
        nodes[killed].kill(&nodes[killed].pid());
        let began = Instant::now();
        nodes[killed].up();
        println!("host {} was up again {:.1?} after its end", nodes[killed].host.number, began.elapsed());
        // What the dead one had begun is ended by others.
        nodes[order].empties(target);
        println!("{target} was empty {:.1?} after that end", began.elapsed());
        nodes[random.below(3) as usize].ok(&["target", "restore", target]);
    }
    std::thread::sleep(Duration::from_secs(1));
    for report in writers.stop() {
        assert!(report.writes > 20, "only {} writes", report.writes);
    }
    are_in_order(&nodes);
}
