//! Two levels on top of each other, as in the simulator.

use super::Driver;
use crate::cache::*;
use crate::coordinate::{Coordination, Labels};
use crate::precedence::Class;
use crate::prefetch::Prefetch;

/// Reads through two levels as an application; all fetches are done at once, from below upwards.
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
fn onward_labels_cure_sarc_below_ra_and_leave_it_its_streams() {
    let random = || (0..400u64).map(|n| n * 7919 % 100_000);
    let onward = Coordination { labels: Labels::Onward, ..Coordination::NONE };
    assert_eq!(run("ra", "sarc", onward, random()).1.prefetched, 0);
    let [published, ours] = [Coordination::LABELS, onward].map(|labels| run("ra", "sarc", labels, 0..400).1);
    assert_eq!(published.prefetched, 0, "under RA no sequential request is a demand");
    assert!(ours.hit * 10 > ours.asked * 7, "{} hits of {}", ours.hit, ours.asked);
}

#[test]
fn two_levels_amplify_each_others_prefetching() {
    let (_, alone) = run("none", "linux", Coordination::NONE, 0..500);
    let (_, amplified) = run("linux", "linux", Coordination::NONE, 0..500);
    assert!(amplified.fetched > alone.fetched);
}

/// The paper's example of missing coordination (section 3.1, figure 3.1b and c). A run of sequential reads goes through
/// an adaptive prefetcher above another, the upper cache being the larger one, with random reads in the middle.
#[test]
fn a_short_run_through_two_adaptive_levels_is_amplified_flushed_and_cached_twice() {
    for name in ["linux", "stream"] {
        let prefetch: Prefetch = name.parse().unwrap();
        let [mut upper, mut lower] = [600, 48].map(|blocks| Driver::new(LevelConfig::new(blocks, prefetch)));
        let here = |driver: &Driver| -> Vec<u64> {
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

/// A prefetch has low priority until a caller waits for it; a prefetch of the upper level is one if labels show it.
#[test]
fn a_prefetch_that_somebody_comes_to_wait_for_is_hurried_once() {
    let lower = |coordination| {
        let mut config = LevelConfig::new(100, Prefetch::None);
        config.coordination = coordination;
        Driver::new(config)
    };
    let mut told = lower(Coordination::LABELS);
    told.demand_len = 0;
    let ahead = told.start(1, Span::new(0, 0, 8))[0];
    let further = told.start(2, Span::new(0, 8, 8))[0];
    assert_eq!((ahead.class, further.class), (Class::Prefetch, Class::Prefetch));
    assert_eq!(told.start(3, Span::new(0, 2, 2)), [], "another prefetch of the same blocks hurries nothing");
    assert_eq!(told.hurried, []);
    told.demand_len = u32::MAX;
    assert_eq!(told.start(4, Span::new(0, 2, 2)), []);
    assert_eq!(told.start(5, Span::new(0, 2, 2)), []);
    assert_eq!(told.hurried, [ahead.id]);
    // The level above gets the event that its own prefetch is awaited.
    for _ in 0..2 {
        assert_eq!(told.event(Event::Hurry(RequestId(2))), []);
    }
    assert_eq!(told.event(Event::Hurry(RequestId(77))), [], "nobody it knows");
    assert_eq!(told.hurried, [ahead.id, further.id]);
    let mut blind = lower(Coordination::NONE);
    blind.demand_len = 0;
    assert_eq!(blind.start(1, Span::new(0, 0, 8))[0].class, Class::Awaited, "a request is a request");

    // A level detects by itself that a caller waits for its own prefetch.
    let mut own = Driver::new(LevelConfig::new(100, Prefetch::Ra { degree: 4 }));
    own.read(0, 1);
    let triggered = own.start(50, Span::new(0, 1, 1))[0];
    assert_eq!((triggered.span, triggered.class), (Span::new(0, 5, 1), Class::Prefetch));
    own.start(51, Span::new(0, 5, 1));
    assert_eq!(own.hurried, [triggered.id]);
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
