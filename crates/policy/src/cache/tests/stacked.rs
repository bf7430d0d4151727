//! Two levels on top of each other, as in the simulator.

use super::Driver;
use crate::cache::*;
use crate::coordinate::Coordination;
use crate::prefetch::{Algorithm, Prefetch};

/// Reads through two levels as an application; all fetches are done at once, from below upwards.
fn read(upper: &mut Driver<Prefetch>, lower: &mut Driver<Prefetch>, id: u64, index: u64) {
    for fetch in upper.start(id, Span::new(0, index, 1)) {
        lower.demand_len = fetch.demand_len;
        lower.stream = fetch.stream;
        lower.read(fetch.span.first.index(), fetch.span.len);
        upper.done(fetch.id);
    }
}

pub(crate) fn run(
    upper: &str,
    lower: &str,
    coordination: Coordination,
    reads: impl Iterator<Item = u64>,
) -> (Stats, Stats) {
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
            for coordination in [
                Coordination::NONE,
                Coordination::LABELS,
                Coordination::PFC,
                Coordination::DU,
                Coordination::ADAPTIVE,
                Coordination::EARLY,
            ] {
                let (above, below) = run(upper.name(), lower.name(), coordination, scan());
                assert_eq!(above.requests, 600);
                assert_eq!(below.asked, above.fetched, "{} over {}", upper.name(), lower.name());
            }
        }
    }
}

/// The paper's example of missing coordination (section 3.1, figure 3.1b and c). A run of sequential reads goes through
/// an adaptive prefetcher above another, the upper cache being the larger one, with random reads in the middle.
#[test]
fn a_short_run_through_two_adaptive_levels_is_amplified_flushed_and_cached_twice() {
    for prefetch in Prefetch::ALL.into_iter().filter(|prefetch| ["linux", "stream"].contains(&prefetch.name())) {
        let name = prefetch.name();
        let [mut upper, mut lower] = [600, 48].map(|blocks| Driver::new(LevelConfig::new(blocks, prefetch)));
        let here = |driver: &Driver<Prefetch>| -> Vec<u64> {
            (0..200).filter(|&index| driver.level.is_resident(Block::new(0, index))).collect()
        };
        (0..4).for_each(|index| read(&mut upper, &mut lower, index, index));
        let (above, below) = (here(&upper), here(&lower));
        let ahead = *below.last().unwrap();
        assert!(!above.contains(&ahead), "{name}: the lower level is ahead of the upper: {above:?}, {below:?}");
        assert!(below.iter().any(|index| above.contains(index)), "{name}: cached twice: {above:?}, {below:?}");
        (10..110).for_each(|id| read(&mut upper, &mut lower, id, 1000 * id));
        assert!(!lower.level.is_resident(Block::new(0, ahead)), "{name}: {ahead} was prefetched and flushed");
        let missed = lower.level.stats().missed;
        (4..=ahead).for_each(|index| read(&mut upper, &mut lower, 200 + index, index));
        assert!(lower.level.stats().missed > missed, "{name}: what was flushed is fetched again");
        let ends = [&upper, &lower].map(|driver| *here(driver).last().unwrap());
        assert!(
            ends[0] > ahead && ends[1] > ends[0],
            "{name}: what is useless at the end is amplified: {ahead}, {ends:?}"
        );
    }
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
