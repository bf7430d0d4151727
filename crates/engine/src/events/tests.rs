//! The rings, waiting followers, and events that a follower misses.

use super::*;

fn told(events: &Events, kind: Kind, n: usize) {
    (0..n).for_each(|i| events.record(Event::new(kind, format!("{} {i}", kind.name()))));
}

#[test]
fn the_rings_are_bounded_in_events_and_in_bytes_and_a_flood_of_moves_leaves_what_is_rare() {
    let events = Events::default();
    events.record(Event::for_all(Kind::Target, "d0 failed"));
    told(&events, Kind::Move, 2 * COMMON_MAX);
    let all = events.batch(0, usize::MAX);
    assert_eq!(all.events.len(), COMMON_MAX + 1);
    assert_eq!((all.events[0].what.as_str(), all.missed), ("d0 failed", COMMON_MAX as u64));
    assert_eq!(events.news(9).iter().map(|event| event.number).collect::<Vec<_>>(), [1]);
    let long = Events::default();
    for _ in 0..RARE_MAX {
        let mut event = Event::new(Kind::Recovery, "x".repeat(10 * BYTES_MAX));
        event.path = Some("p".repeat(4000));
        event.to = vec!["target".into(); 1000];
        long.record(event);
    }
    let kept = long.batch(0, usize::MAX);
    let bytes: usize = kept.events.iter().map(|event| event.bytes()).sum();
    assert!(bytes <= BYTES_MAX && kept.events.len() > 100, "{bytes} of {}", kept.events.len());
    assert_eq!(kept.missed, (RARE_MAX - kept.events.len()) as u64);
}

#[test]
fn batches_give_each_event_once_in_order_and_a_gap_is_counted() {
    let events = Events::default();
    for _ in 0..50 {
        told(&events, Kind::Move, 3);
        told(&events, Kind::Node, 1);
    }
    let (mut after, mut seen) = (0, Vec::new());
    while after < events.last() {
        let batch = events.batch(after, 7);
        assert!(batch.events.len() <= 7 && batch.missed == 0 && batch.last > after);
        seen.extend(batch.events.iter().map(|event| event.number));
        after = batch.last;
    }
    assert_eq!(seen, (1..=200).collect::<Vec<_>>());
    // A follower that paused: the missed and the received events together are all events.
    told(&events, Kind::Move, COMMON_MAX + 12);
    let (mut missed, mut shown) = (0, 0);
    while after < events.last() {
        let batch = events.batch(after, 64);
        (missed, shown, after) = (missed + batch.missed, shown + batch.events.len(), batch.last);
    }
    assert_eq!((missed, shown), (12, COMMON_MAX));
    let none = events.batch(after, 64);
    assert_eq!((none.events.len(), none.missed, none.last), (0, 0, after));
}

#[test]
fn the_newest_that_are_wanted_come_first() {
    let events = Events::default();
    for _ in 0..30 {
        told(&events, Kind::Move, 9);
        events.record(Event::for_all(Kind::Target, "t failed"));
    }
    let numbers =
        |max, wanted: fn(&Event) -> bool| events.newest(max, wanted).iter().map(|e| e.number).collect::<Vec<_>>();
    assert_eq!(numbers(3, |_| true), [300, 299, 298]);
    assert_eq!(numbers(2, |event| event.for_all), [300, 290]);
    assert_eq!(numbers(9, |event| event.kind == Kind::Job), [0; 0]);
}

#[test]
fn who_waits_is_woken_by_an_event_and_not_by_none() {
    let events = Arc::new(Events::default());
    assert!(!events.wait(0, Duration::ZERO));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| events.wait(0, Duration::from_secs(60)));
        told(&events, Kind::Scrub, 1);
        assert!(waits.join().expect("no panic"));
    });
}

#[test]
fn followers_are_bounded_and_one_user_has_a_share_of_them() {
    let events = Events::default();
    let mut held = Vec::new();
    while let Some(one) = events.follower(4711) {
        held.push(one);
        assert!(held.len() as u64 <= FOLLOWERS_MAX);
    }
    assert!(events.follower(0).is_some(), "the operator's are kept");
}

#[test]
fn a_cause_holds_for_what_is_done_within_and_ends_with_it_also_by_a_panic() {
    assert_eq!(cause(), None);
    let inner = because("tiers", "hot".into(), || because("burst", "room".into(), cause));
    assert_eq!(inner, Some(("burst", "room".into())));
    let panics = std::panic::catch_unwind(|| because("tiers", "hot".into(), || panic!("on purpose")));
    assert!(panics.is_err() && cause().is_none());
}

#[test]
fn an_event_is_about_the_targets_that_it_names() {
    let mut event = Event::new(Kind::Move, "moved");
    (event.from, event.to) = (vec!["a".into()], vec!["b".into()]);
    assert!(event.names("a") && event.names("b") && !event.names("c"));
    let json = serde_json::to_value(&event).expect("json");
    assert!(json.get("path").is_none() && json.get("for_all").is_none(), "{json}");
    assert_eq!(json["kind"], "move");
}
