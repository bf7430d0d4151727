//! Two levels on top of each other, as the simulator stacks them.

use super::Driver;
use crate::cache::*;
use crate::coordinate::Coordination;
use crate::prefetch::Prefetch;

/// An application's read through two levels; all fetches are done at once, from below upwards.
fn read(upper: &mut Driver, lower: &mut Driver, id: u64, index: u64) {
    for fetch in upper.start(id, Span::new(0, index, 1)) {
        lower.demand_len = fetch.demand_len;
        lower.stream = fetch.stream;
        lower.read(fetch.span.first.index(), fetch.span.len);
        upper.done(fetch.id);
    }
}

fn run(upper: &str, lower: &str, coordination: Coordination, reads: impl Iterator<Item = u64>) -> (Stats, Stats) {
    let mut upper = Driver::new(LevelConfig::new(200, upper.parse().unwrap()));
    let mut config = LevelConfig::new(400, lower.parse::<Prefetch>().unwrap());
    config.coordination = coordination;
    let mut lower = Driver::new(config);
    for (id, index) in reads.enumerate() {
        read(&mut upper, &mut lower, id as u64, index);
    }
    (upper.level.stats(), lower.level.stats())
}

#[test]
fn every_pair_of_algorithms_stacks() {
    let scan = || (0..300).chain((0..100).map(|n| n * 7919 % 5000)).chain(1000..1200);
    for upper in Prefetch::ALL {
        for lower in Prefetch::ALL {
            for coordination in
                [Coordination::NONE, Coordination::LABELS, Coordination::PFC, Coordination::DU, Coordination::ADAPTIVE]
            {
                let (above, below) = run(upper.name(), lower.name(), coordination, scan());
                assert_eq!(above.requests, 600);
                assert_eq!(below.asked, above.fetched, "{} over {}", upper.name(), lower.name());
            }
        }
    }
}

#[test]
fn labels_change_nothing_for_ra_and_cure_sarc_below_it() {
    let random = || (0..400u64).map(|n| n * 7919 % 100_000);
    assert_eq!(run("ra", "ra", Coordination::NONE, random()), run("ra", "ra", Coordination::LABELS, random()));
    let (_, misled) = run("ra", "sarc", Coordination::NONE, random());
    let (_, told) = run("ra", "sarc", Coordination::LABELS, random());
    assert!(misled.prefetched > 1000);
    assert_eq!(told.prefetched, 0);
}

#[test]
fn two_levels_amplify_each_others_prefetching() {
    let (_, alone) = run("none", "linux", Coordination::NONE, 0..500);
    let (_, amplified) = run("linux", "linux", Coordination::NONE, 0..500);
    assert!(amplified.fetched > alone.fetched);
}

#[test]
fn an_exclusive_lower_level_keeps_what_the_upper_has_not() {
    // 500 blocks in turn: two inclusive levels of 200 and 400 never hit, an exclusive one keeps some.
    let turns = || (0..5000u64).map(|n| n % 500 * 10);
    let (_, inclusive) = run("none", "none", Coordination::NONE, turns());
    let (_, exclusive) = run("none", "none", Coordination::DU, turns());
    assert_eq!(inclusive.hit, 0);
    assert!(exclusive.hit > 2000, "{}", exclusive.hit);
}
