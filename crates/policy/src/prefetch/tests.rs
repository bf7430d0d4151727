//! Prefetchers of a mount in a level.

use super::*;
use crate::cache::tests::driver::Driver;
use crate::cache::{LevelConfig, Span};

fn driver(prefetch: Prefetch) -> Driver<Prefetch> {
    Driver::new(LevelConfig::new(10_000, prefetch))
}

#[test]
fn the_on_demand_and_the_stream_read_ahead_open_the_same_windows() {
    for prefetch in [Prefetch::OnDemand { max: 32 }, Prefetch::Stream { degree_max: 32, distance: 32 }] {
        assert_eq!(
            driver(prefetch).windows(0..64),
            [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32)],
            "{}",
            prefetch.name()
        );
    }
}

#[test]
fn on_demand_finds_each_of_two_interleaved_streams_by_its_marker() {
    let mut driver = driver(Prefetch::OnDemand { max: 32 });
    for at in 0..200 {
        driver.read(at, 1);
        driver.read(5000 + at, 1);
    }
    let stats = driver.level.stats();
    assert!(stats.hit_ratio() > 0.9, "{stats:?}");
}

#[test]
fn on_demand_takes_a_history_of_cached_pages_for_a_stream() {
    let mut driver = driver(Prefetch::OnDemand { max: 32 });
    for at in [103, 102, 101, 100] {
        driver.read(at, 1);
    }
    driver.read(9000, 1);
    let fetch = driver.read(104, 1)[0];
    assert_eq!(fetch.span, Span::new(0, 104, 5), "four pages of history and the one asked for");
}

#[test]
fn a_fixed_distance_moves_the_marker() {
    let mut config = LevelConfig::new(10_000, Prefetch::OnDemand { max: 32 });
    config.trigger = Trigger::Fixed { distance: 10 };
    let sets = Driver::new(config).windows(0..300);
    for (at, first, len) in sets.into_iter().filter(|set| set.0 > 60) {
        assert_eq!((first - at, len), (10, 32), "at {at}");
    }
}

#[test]
fn names_are_read_back() {
    for prefetch in Prefetch::ALL {
        assert_eq!(prefetch.name().parse(), Ok(prefetch));
    }
    let refused = "readahead".parse::<Prefetch>().unwrap_err();
    assert!(refused.starts_with("choose none, on-demand or stream;"), "{refused}");
}
