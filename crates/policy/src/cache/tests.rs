//! Levels with the drivers of a simulator and of a live cache.

pub(crate) mod driver;
mod fixed_ahead;
mod oracle;
mod random;
mod stacked;

use super::*;
use crate::coordinate::Coordination;
use crate::precedence::Class;
use crate::prefetch::{Algorithm, Prefetch};
use driver::{Driver, hit_ratio_of_64_streams};
use fixed_ahead::FixedAhead;

const STREAM: Prefetch = Prefetch::Stream { degree_max: 48, distance: 24 };

fn level<A: Algorithm>(capacity: u32, prefetch: A) -> Driver<A> {
    Driver::new(LevelConfig::new(capacity, prefetch))
}

#[test]
fn a_joined_prefetch_is_one_fetch_and_a_separate_one_two() {
    let mut joined = level(100, FixedAhead(4));
    let fetches = joined.read(7, 1);
    assert_eq!(fetches.len(), 1);
    let fetch = fetches[0];
    assert_eq!((fetch.span, fetch.demand_len, fetch.wanted_len), (Span::new(0, 7, 5), 1, 1));
    assert_eq!(fetch.reason, Reason::Missing);
    let mut config = LevelConfig::new(100, FixedAhead(4));
    config.join = false;
    let fetches = Driver::new(config).read(7, 1);
    assert_eq!(
        fetches.iter().map(|f| (f.span, f.wanted_len)).collect::<Vec<_>>(),
        [(Span::new(0, 7, 1), 1), (Span::new(0, 8, 4), 0)]
    );
    assert_eq!(fetches[1].reason, Reason::Ahead);
}

#[test]
fn a_request_waits_for_what_is_on_the_way() {
    let mut driver = level(100, FixedAhead(4));
    let first = driver.start(0, Span::new(0, 0, 1));
    let second = driver.start(1, Span::new(0, 1, 1));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(second[0].span, Span::new(0, 5, 1), "only what its own prefetch adds");
    assert!(driver.delivered.is_empty());
    driver.done(first[0].id);
    assert_eq!(driver.delivered.iter().map(|d| d.0.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(driver.delivered[1].1, Outcome { hit: 0, late: 1, missed: 0 });
    let stats = driver.level.stats();
    assert_eq!((stats.prefetch_used, stats.prefetch_late), (1, 1));
}

#[test]
fn a_failed_fetch_fails_those_who_wait_and_leaves_nothing() {
    let mut driver = level(100, FixedAhead(4));
    let fetch = driver.start(0, Span::new(0, 0, 1))[0];
    driver.start(1, Span::new(0, 2, 1));
    driver.event(Event::FetchFailed(fetch.id));
    assert_eq!(driver.failed.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 1]);
    assert!(!driver.level.is_resident(Block::new(0, 0)));
    assert_eq!(driver.read(0, 1).len(), 1, "it is fetched again");
}

#[test]
fn blocks_pass_through_when_every_frame_is_in_flight() {
    let mut driver = level(4, Prefetch::None);
    let kept = driver.start(0, Span::new(0, 0, 4));
    let passed = driver.start(1, Span::new(0, 10, 2));
    assert!(kept[0].keep);
    assert!(!passed[0].keep);
    assert_eq!(passed[0].reason, Reason::NoRoom);
    driver.done(passed[0].id);
    driver.done(kept[0].id);
    assert_eq!(driver.delivered.len(), 2);
    assert_eq!(driver.level.stats().passed_through, 2);
    assert_eq!(driver.level.inventory(), 4);
}

#[test]
fn unused_prefetch_is_counted_when_it_goes() {
    let mut driver = level(5, FixedAhead(4));
    driver.read(0, 1);
    driver.read(100, 1);
    let stats = driver.level.stats();
    assert_eq!((stats.prefetched, stats.prefetch_used, stats.prefetch_wasted), (8, 0, 4));
    assert_eq!(stats.prefetch_unused(), 8);
    driver.read(101, 1);
    assert_eq!(driver.level.stats().prefetch_used, 1);
}

#[test]
fn a_request_of_nothing_is_answered_at_once() {
    let mut driver = level(5, STREAM);
    assert_eq!(driver.start(1, Span::new(0, 0, 0)), []);
    assert_eq!(driver.delivered, [(RequestId(1), Outcome::default())]);
}

#[test]
fn nothing_beyond_the_file_is_fetched() {
    let mut driver = level(100, FixedAhead(4));
    driver.file_blocks = 9;
    assert_eq!(driver.read(7, 1)[0].span, Span::new(0, 7, 2));
    assert_eq!(driver.read(8, 1), []);
}

#[test]
fn what_is_forgotten_on_the_way_is_delivered_and_not_kept() {
    let mut driver = level(100, Prefetch::None);
    let fetch = driver.start(0, Span::new(0, 0, 2))[0];
    driver.event(Event::Forget(Span::new(0, 1, 1)));
    driver.done(fetch.id);
    assert_eq!(driver.delivered.len(), 1);
    assert!(driver.level.is_resident(Block::new(0, 0)));
    assert!(!driver.level.is_resident(Block::new(0, 1)));
    driver.event(Event::Forget(Span::new(0, 0, u32::MAX)));
    assert_eq!(driver.level.inventory(), 0);
}

#[test]
fn per_stream_counts_follow_the_inventory() {
    let mut config = LevelConfig::new(100, FixedAhead(4));
    config.per_stream = true;
    let mut driver = Driver::new(config);
    driver.stream = 3;
    driver.read(0, 1);
    driver.stream = 5;
    driver.read(1, 1);
    let stats = driver.level.stream_stats();
    assert_eq!(
        stats.iter().map(|s| (s.stream, s.asked, s.hit, s.prefetched, s.inventory)).collect::<Vec<_>>(),
        [(3, 1, 0, 4, 3), (5, 1, 1, 1, 1)]
    );
}

#[test]
fn wrong_configurations_are_refused() {
    use crate::coordinate::Pfc;
    use crate::prefetch::{Share, Trigger};
    let with = |change: fn(&mut LevelConfig)| {
        let mut config = LevelConfig::new(10, Prefetch::OnDemand { max: 32 });
        change(&mut config);
        Level::new(config).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(with(|_| ()), Ok(()));
    let wrong: [fn(&mut LevelConfig); 9] = [
        |c| c.capacity_blocks = 0,
        |c| c.prefetch = Prefetch::OnDemand { max: 0 },
        |c| (c.prefetch, c.trigger) = (Prefetch::None, Trigger::Fixed { distance: 4 }),
        |c| c.prefetch = Prefetch::Stream { degree_max: 4, distance: 5 },
        |c| c.replacement = Replacement::Sarc(TwoLists { bottom_fraction: 0.0, large_ratio: 20.0 }),
        |c| (c.prefetch, c.replacement) = (Prefetch::None, Replacement::Sarc(TwoLists::default())),
        |c| c.coordination.pfc = Some(Pfc { queue_fraction: 2.0, ..Pfc::PUBLISHED }),
        |c| c.trigger = Trigger::Ets(Share { distance_min: 9, distance_max: 8, ..Share::default() }),
        |c| c.streams_max = 0,
    ];
    let messages: Vec<String> = wrong.iter().map(|&change| with(change).unwrap_err()).collect();
    let distinct: std::collections::BTreeSet<&String> = messages.iter().collect();
    assert_eq!(distinct.len(), messages.len(), "{messages:?}");
}

#[test]
fn per_stream_read_ahead_serves_64_interleaved_streams_and_one_history_does_not() {
    assert!(hit_ratio_of_64_streams(STREAM, |_| 0) < 0.1);
    assert!(hit_ratio_of_64_streams(STREAM, |stream| stream) > 0.8);
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
    let mut own = Driver::new(LevelConfig::new(100, FixedAhead(4)));
    own.read(0, 1);
    let triggered = own.start(50, Span::new(0, 1, 1))[0];
    assert_eq!((triggered.span, triggered.class), (Span::new(0, 5, 1), Class::Prefetch));
    own.start(51, Span::new(0, 5, 1));
    assert_eq!(own.hurried, [triggered.id]);
}
