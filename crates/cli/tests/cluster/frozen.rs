//! A node whose daemon stands still for longer than its lease, as in a host that has too much to do: the others go on without it, and it goes
//! on as another when it wakes.

use crate::hosts::hosts;
use crate::random::seed;
use crate::real::until_within;
use crate::volume::{Shared, are_in_order, leading};
use crate::writers::Writers;
use std::time::{Duration, Instant};

/// A lease lasts five seconds.
const FROZEN: Duration = Duration::from_secs(8);
/// Another node is over by then.
const TAKEOVER: Duration = Duration::from_secs(10);

/// [S-204]
#[test]
fn the_others_go_on_when_the_leader_stands_still() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let led = leading(&nodes);
    let (first, second) = (&nodes[(led + 1) % 3], &nodes[(led + 2) % 3]);
    let writers = Writers::start(&nodes, "frozen", 60, seed());
    std::thread::sleep(Duration::from_secs(1));
    let (frozen, began) = (nodes[led].freeze(), Instant::now());
    std::thread::scope(|scope| {
        // Nobody writes what is moved.
        let drain = scope.spawn(|| {
            first.empties("target1");
            began.elapsed()
        });
        until_within(30, "another leads", || !["", &nodes[led].name()].contains(&&*second.leader()));
        let took = began.elapsed();
        println!("the leader stood still: another led after {took:.1?}");
        assert!(took < TAKEOVER, "{took:?}");
        println!("what it wrote was moved after {:.1?}", drain.join().expect("drained"));
    });
    std::thread::sleep(FROZEN.saturating_sub(began.elapsed()));
    drop(frozen);
    let woken = Instant::now();
    until_within(30, "it has joined again", || second.hosts().len() == 3);
    println!("it had joined again {:.1?} after it woke", woken.elapsed());
    nodes[led].ok(&["target", "restore", "target1"]);
    std::thread::sleep(Duration::from_secs(1));
    for (n, report) in writers.stop().iter().enumerate() {
        assert!(report.errors.is_empty(), "what was not acknowledged is done again: {:?}", report.errors);
        assert!(n == led || report.slowest < TAKEOVER, "the others go on: {:?}", report.slowest);
    }
    are_in_order(&nodes);
}
