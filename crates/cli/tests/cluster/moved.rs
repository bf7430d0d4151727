//! Targets are emptied and used again, from any node, while all nodes write a file on them and read back what they
//! wrote.

use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::volume::{Shared, TARGETS, are_in_order, logs};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// [S-203]
#[test]
fn a_file_that_moves_under_writers_on_all_nodes_keeps_every_byte() {
    let Some(hosts) = hosts() else { return };
    let seed = seed();
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut random = Random(seed);
    let writers = Writers::start(&nodes, "moved", 60, seed);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(200));
        let target = format!("target{}", 1 + random.below(TARGETS as u64));
        let began = Instant::now();
        nodes[random.below(3) as usize].empties(&target);
        println!("{target} was empty after {:.1?}", began.elapsed());
        nodes[random.below(3) as usize].ok(&["target", "restore", &target]);
    }
    for report in writers.stop() {
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        assert!(report.writes > 20, "only {} writes\n{}", report.writes, logs(&nodes));
    }
    are_in_order(&nodes);
}
