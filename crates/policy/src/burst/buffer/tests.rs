//! The buffer under simple loads with known results, and under random ones.

use super::*;
use crate::burst::control::Device;
use crate::burst::tables::Order;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn config(scheme: Scheme) -> Config {
    let device =
        Device { write_max: 10.0, write_min: 8.0, demote_max: 4.0, demote_min: 0.5, demote_idle: 6.0, capacity: 100.0 };
    Config { order: Order::default(), period: Time::from_secs(100), dwpp: 150.0, ..Config::new(device, scheme) }
}

fn after(buffer: &mut Buffer, at_s: u64, event: Event) -> Vec<Action> {
    buffer.handle(Time::from_secs(at_s), event);
    buffer.drain().filter(|action| !matches!(action, Action::Rates(_))).collect()
}

fn arrive(app: App, request: u64) -> Event {
    Event::Arrive { app, request, bytes: 40.0 }
}

fn v(app: App, number: u64) -> Version {
    Version { app, number }
}

fn turn(request: u64, app: App, number: u64) -> Action {
    Action::Turn { request, version: v(app, number), direct: false }
}

#[test]
fn a_checkpoint_gets_its_turn_and_room_and_what_is_old_makes_place() {
    let mut b = Buffer::new(config(Scheme::Bbos));
    assert_eq!(after(&mut b, 0, arrive(1, 10)), [turn(10, 1, 1), Action::Go { request: 10 }]);
    assert_eq!(after(&mut b, 0, arrive(2, 20)), []);
    let next = after(&mut b, 4, Event::Committed { request: 10, bytes: 40.0 });
    assert_eq!(next[..2], [turn(20, 2, 1), Action::Go { request: 20 }]);
    let Some(Action::Demote(first)) = next.get(2).copied() else { panic!("{next:?}") };
    assert_eq!((first.version, first.delete), (v(1, 1), false));
    assert_eq!(after(&mut b, 8, Event::Committed { request: 20, bytes: 40.0 }), []);
    // No room for a third version while none is in both places.
    assert_eq!(after(&mut b, 9, arrive(1, 11)), [turn(11, 1, 2)]);
    assert!(b.is_short(11));
    let freed = after(&mut b, 10, Event::Demoted);
    assert!(freed.contains(&Action::Drop { version: v(1, 1), bytes: 40 }), "{freed:?}");
    assert!(freed.contains(&Action::Go { request: 11 }));
    assert_eq!(b.used(), 80.0);
    assert!(after(&mut b, 11, Event::Restarted { app: 1 }).contains(&Action::Restart { version: v(1, 1), hit: false }));
    b.check();
}

/// The capacity tier has one speed: while a checkpoint goes there directly, demotion gets the rest of it.
#[test]
fn a_direct_write_and_demotion_share_the_capacity_tier() {
    let demote = |direct| {
        let mut b = Buffer::new(Config { direct, ..config(Scheme::MaxBw) });
        b.handle(Time::ZERO, Event::Resumed { dwsf: 1000.0, dwpp: 150.0 });
        b.handle(Time::ZERO, arrive(1, 10));
        b.drain().filter_map(|action| if let Action::Rates(rates) = action { Some(rates.demote) } else { None }).last()
    };
    assert_eq!((demote(true), demote(false)), (Some(2.0), Some(0.0)));
}

#[test]
fn replicas_are_made_beside_demotion_at_a_pace_that_leaves_it_its_own() {
    let mut b = Buffer::new(Config { replicas: true, ..config(Scheme::MaxEff) });
    b.found(v(9, 1), 10, false, true);
    b.lacks_replica(v(9, 1));
    let pace =
        |actions: &[Action]| actions.iter().find_map(|a| if let Action::ReplicaRate(r) = a { Some(*r) } else { None });
    let replicates = |actions: &[Action], version| actions.contains(&Action::Replicate { version });
    let first = after(&mut b, 0, Event::Tick);
    assert!(
        replicates(&first, v(9, 1)) && pace(&first) == Some(6.0),
        "an earlier life left it without; nothing else goes on"
    );
    assert_eq!(pace(&after(&mut b, 1, arrive(1, 10))), Some(0.5), "what costs the writer nothing");
    let next = after(&mut b, 4, Event::Committed { request: 10, bytes: 40.0 });
    assert!(
        next.iter().any(|a| matches!(a, Action::Demote(of) if of.version == v(1, 1))),
        "demotion does not wait for it"
    );
    assert_eq!(pace(&next), None, "and has the device's rate for itself");
    let next = after(&mut b, 8, Event::Demoted);
    assert!(pace(&next) == Some(6.0) && !replicates(&next, v(1, 1)), "one at a time");
    let next = after(&mut b, 9, Event::ReplicaFailed);
    assert!(replicates(&next, v(1, 1)));
    assert!(!replicates(&after(&mut b, 9, Event::Replicated), v(9, 1)), "after a pause");
    assert_eq!(b.lacking_replicas(), 1);
    assert!(replicates(&after(&mut b, 10, Event::Tick), v(9, 1)));
    after(&mut b, 11, Event::Removed { version: v(9, 1) });
    after(&mut b, 11, Event::ReplicaFailed);
    assert_eq!(b.lacking_replicas(), 0);
}

#[test]
fn who_needs_more_than_it_said_waits_for_room_and_may_be_refused() {
    let mut b = Buffer::new(config(Scheme::MaxBw));
    after(&mut b, 0, Event::Arrive { app: 1, request: 1, bytes: 0.0 });
    assert_eq!(after(&mut b, 0, Event::More { request: 1, bytes: 100.0 }), [Action::Go { request: 1 }]);
    assert_eq!(after(&mut b, 1, Event::More { request: 1, bytes: 1.0 }), []);
    assert!(b.is_short(1));
    after(&mut b, 1, Event::Refused { request: 1 });
    assert!(!b.is_short(1));
    after(&mut b, 2, Event::Abandoned { request: 1 });
    assert_eq!((b.used(), b.unfinished()), (0.0, 0));
}

#[test]
fn who_pauses_lets_others_write_and_goes_on_with_the_same_version() {
    let mut b = Buffer::new(config(Scheme::Bbos));
    after(&mut b, 0, arrive(1, 1));
    after(&mut b, 0, arrive(2, 2));
    assert_eq!(after(&mut b, 1, Event::Paused { request: 1 }), [turn(2, 2, 1), Action::Go { request: 2 }]);
    assert_eq!(after(&mut b, 1, Event::Again { request: 1 }), []);
    let next = after(&mut b, 2, Event::Committed { request: 2, bytes: 40.0 });
    assert_eq!(next[0], turn(1, 1, 1));
}

#[test]
fn what_is_larger_than_the_buffer_goes_past_it() {
    let mut b = Buffer::new(config(Scheme::Bbos));
    let large = after(&mut b, 0, Event::Arrive { app: 1, request: 1, bytes: 101.0 });
    assert_eq!(large[0], Action::Turn { request: 1, version: v(1, 1), direct: true });
    after(&mut b, 30, Event::Committed { request: 1, bytes: 101.0 });
    assert_eq!((b.used(), b.tables().places(v(1, 1))), (0.0, (false, true)));
}

#[test]
fn what_can_only_go_past_it_waits_for_the_capacity_tier_and_costs_others_nothing() {
    let mut b = Buffer::new(config(Scheme::Bbos));
    b.found(v(9, 1), 40, true, true);
    after(&mut b, 0, Event::Capacity { usable: false, whole: false });
    let large = after(&mut b, 0, Event::Arrive { app: 1, request: 1, bytes: 101.0 });
    assert_eq!(large, [turn(1, 1, 1)]);
    assert!(b.is_short(1) && b.used() == 40.0, "what is clean stays");
    let back = after(&mut b, 5, Event::Capacity { usable: true, whole: true });
    assert_eq!(back, [Action::Turn { request: 1, version: v(1, 1), direct: true }, Action::Go { request: 1 }]);
    after(&mut b, 30, Event::Committed { request: 1, bytes: 101.0 });
    assert_eq!((b.used(), b.tables().places(v(1, 1))), (40.0, (false, true)));
}

#[test]
fn a_copy_that_cannot_be_deleted_still_takes_its_room_and_goes_later() {
    let mut b = Buffer::new(config(Scheme::Bbos));
    b.found(v(9, 1), 80, true, true);
    let freed = after(&mut b, 0, arrive(1, 1));
    assert_eq!(freed, [turn(1, 1, 1), Action::Drop { version: v(9, 1), bytes: 80 }, Action::Go { request: 1 }]);
    after(&mut b, 1, Event::DropFailed { version: v(9, 1), bytes: 80 });
    assert!(b.is_over());
    assert_eq!(after(&mut b, 1, Event::Back { request: 1, bytes: 40.0 }), []);
    assert!(b.is_short(1) && b.used() == 80.0 && !b.is_over());
    assert_eq!(after(&mut b, 2, Event::Capacity { usable: true, whole: false }), [], "not again while it cannot be");
    let freed = after(&mut b, 3, Event::Capacity { usable: true, whole: true });
    assert_eq!(freed, [Action::Drop { version: v(9, 1), bytes: 80 }, Action::Go { request: 1 }]);
    assert_eq!(b.used(), 40.0);
    // A removed version is no longer stuck.
    after(&mut b, 4, Event::DropFailed { version: v(9, 1), bytes: 80 });
    after(&mut b, 5, Event::Removed { version: v(9, 1) });
    assert_eq!(b.used(), 40.0);
}

#[test]
fn when_the_devices_are_full_what_is_clean_goes() {
    let mut b = Buffer::new(config(Scheme::MaxBw));
    b.found(v(8, 1), 30, true, true);
    b.found(v(9, 1), 30, true, true);
    after(&mut b, 0, arrive(1, 1));
    assert_eq!(after(&mut b, 1, Event::Full { bytes: 1.0 }), [Action::Drop { version: v(8, 1), bytes: 30 }]);
    assert_eq!(b.used(), 70.0);
}

#[test]
fn schemes_differ_in_their_rates() {
    let rates = |scheme| {
        let mut b = Buffer::new(config(scheme));
        b.handle(Time::ZERO, arrive(1, 1));
        b.drain().filter_map(|a| if let Action::Rates(r) = a { Some((r.write, r.demote)) } else { None }).last()
    };
    assert_eq!(rates(Scheme::MaxBw), Some((10.0, 0.0)));
    assert_eq!(rates(Scheme::MaxEff), Some((8.0, 4.0)));
    assert_eq!(rates(Scheme::Static(0.3)), Some((8.0, 4.0)));
    assert_eq!(rates(Scheme::Static(0.9)), Some((10.0, 0.0)));
    assert_eq!(rates(Scheme::Predicted), rates(Scheme::Bbos));
}

#[test]
fn what_an_earlier_life_knew_goes_on() {
    let mut b = Buffer::new(config(Scheme::Bbos));
    b.found(v(1, 7), 40, true, true);
    b.found(v(2, 3), 40, false, true);
    b.handle(Time::ZERO, Event::Resumed { dwsf: 30.0, dwpp: 160.0 });
    assert_eq!((b.used(), b.period()), (40.0, (30.0, 160.0)));
    assert_eq!(after(&mut b, 0, Event::Restarted { app: 2 }), [Action::Restart { version: v(2, 3), hit: false }]);
    assert_eq!(after(&mut b, 0, arrive(1, 1))[0], turn(1, 1, 8));
    assert_eq!(after(&mut b, 0, Event::Removed { version: v(1, 7) }), []);
    assert_eq!(b.used(), 40.0);
}

#[test]
fn a_demotion_that_failed_is_tried_again_after_a_while() {
    let mut b = Buffer::new(config(Scheme::MaxEff));
    after(&mut b, 0, arrive(1, 10));
    let demotes = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Demote(_)));
    assert!(demotes(&after(&mut b, 1, Event::Committed { request: 10, bytes: 40.0 })));
    assert_eq!(after(&mut b, 2, Event::DemotionFailed), []);
    let again = Time::from_secs(2) + DEMOTE_AGAIN;
    assert_eq!(b.next_deadline(), Some(again));
    b.handle(again, Event::Tick);
    assert!(demotes(&b.drain().collect::<Vec<_>>()));
    assert_eq!(b.next_deadline(), None);
}

fn demoted(action: Action) -> Option<Version> {
    match action {
        Action::Demote(demotion) => Some(demotion.version),
        _ => None,
    }
}

#[test]
fn a_version_that_cannot_be_demoted_keeps_no_other_waiting() {
    let mut b = Buffer::new(config(Scheme::MaxEff));
    (1..=3).for_each(|app| b.found(v(app, 1), 10, true, false));
    b.found(v(1, 2), 10, true, false);
    let (mut tried, mut event) = (Vec::new(), Event::Tick);
    for second in (1..).take(40) {
        event = match after(&mut b, second, event).into_iter().find_map(demoted) {
            None => Event::Tick,
            Some(version) => {
                tried.push(version);
                if version == v(1, 1) { Event::DemotionFailed } else { Event::Demoted }
            }
        };
    }
    let others = tried.iter().position(|version| *version != v(1, 1)).expect("others leave");
    assert!(others > 1 && tried[..others].iter().all(|version| *version == v(1, 1)), "{tried:?}");
    assert_eq!(tried[others..others + 3].iter().collect::<BTreeSet<_>>().len(), 3, "{tried:?}");
    assert!(tried.len() > others + 4 && tried[others + 3..].iter().all(|version| *version == v(1, 1)), "{tried:?}");
}

proptest! {
    /// Under any load, the buffer never overflows, and every request gets a turn in the end.
    #[test]
    fn never_over_full_and_nobody_is_forgotten(
        steps in prop::collection::vec((0u8..7, 0u64..4, 1u64..60), 1..200),
        scheme in prop::sample::select(vec![Scheme::Bbos, Scheme::MaxBw, Scheme::MaxEff, Scheme::Predicted]),
    ) {
        let mut b = Buffer::new(config(scheme));
        let (mut going, mut requests, mut demoting) = (Vec::new(), 0u64, false);
        let mut at = 0;
        for (what, app, bytes) in steps {
            at += 1;
            let event = match what {
                0 | 1 => { requests += 1; Event::Arrive { app, request: requests, bytes: bytes as f64 } }
                2 if !going.is_empty() => { let (request, bytes) = going.remove(0); Event::Committed { request, bytes } }
                3 if !going.is_empty() => Event::Abandoned { request: going.remove(0).0 },
                4 if demoting => { demoting = false; Event::Demoted }
                5 if demoting => { demoting = false; Event::DemotionFailed }
                6 => Event::Period,
                _ => Event::Tick,
            };
            b.handle(Time::from_secs(at), event);
            while let Some(action) = b.poll() {
                match action {
                    Action::Go { request } => going.push((request, 0.0)),
                    Action::Demote(_) => { prop_assert!(!demoting); demoting = true }
                    _ => {}
                }
            }
            for of in &mut going {
                of.1 = b.writing[&of.0].reserved;
            }
            b.check();
        }
        // From here on every request finishes, and every version can leave.
        for _ in 0..2000 {
            at += 1;
            let event = if let Some((request, bytes)) = going.pop() {
                Event::Committed { request, bytes }
            } else if std::mem::take(&mut demoting) { Event::Demoted } else { Event::Tick };
            b.handle(Time::from_secs(at), event);
            while let Some(action) = b.poll() {
                match action {
                    Action::Go { request } => going.push((request, b.writing[&request].reserved)),
                    Action::Demote(_) => demoting = true,
                    _ => {}
                }
            }
        }
        prop_assert_eq!(b.unfinished(), 0);
    }
}

#[test]
fn it_comes_back_for_predicted_rates_while_something_is_written_and_for_a_replica_that_failed() {
    let mut predicted = Buffer::new(Config { replicas: true, ..config(Scheme::Predicted) });
    assert_eq!(predicted.next_deadline(), None);
    after(&mut predicted, 1, arrive(1, 1));
    assert_eq!(predicted.next_deadline(), Some(Time::from_secs(1) + PREDICTED));
    after(&mut predicted, 2, Event::Committed { request: 1, bytes: 40.0 });
    assert_eq!(predicted.next_deadline(), None, "what leaves and whether it did are events");
    after(&mut predicted, 3, Event::Demoted);
    after(&mut predicted, 4, Event::ReplicaFailed);
    let again = predicted.next_deadline().unwrap();
    assert_eq!(again, Time::from_secs(5));
    predicted.handle(again, Event::Tick);
    assert!(predicted.drain().any(|action| action == Action::Replicate { version: v(1, 1) }));
    let mut planned = Buffer::new(config(Scheme::Bbos));
    after(&mut planned, 1, arrive(1, 1));
    assert_eq!(planned.next_deadline(), None, "only what is written changes the plan's rates");
}

/// Space that others use on the devices is not room of the buffer; deletions under way are not counted against it.
#[test]
fn what_is_free_at_the_devices_bounds_the_buffer() {
    let device = Device { capacity: 100.0, ..Device::default() };
    let mut buffer = Buffer::new(Config::new(device, Scheme::MaxBw));
    let goes = |buffer: &mut Buffer| buffer.drain().any(|a| matches!(a, Action::Go { .. }));
    let at = Time::from_secs;
    (0..4).for_each(|n| buffer.handle(at(n), Event::Free { bytes: 30.0 }));
    buffer.handle(at(5), Event::Arrive { app: 1, request: 1, bytes: 20.0 });
    assert!(goes(&mut buffer));
    // Ten of them are written, and ten more are reserved, so they are not free for others.
    buffer.handle(at(6), Event::Wrote { request: 1, bytes: 10.0 });
    (6..10).for_each(|n| buffer.handle(at(n), Event::Free { bytes: 20.0 }));
    buffer.handle(at(10), Event::Committed { request: 1, bytes: 20.0 });
    buffer.handle(at(11), Event::Arrive { app: 2, request: 2, bytes: 20.0 });
    assert!(!goes(&mut buffer) && buffer.is_short(2), "there are ten, whatever the capacity is");
    // A check that finds more counts once no bytes were written since the previous one. Checks that find less do not
    // count while others found more.
    buffer.handle(at(12), Event::Free { bytes: 25.0 });
    assert!(!goes(&mut buffer), "what was written in between may be in it twice");
    buffer.handle(at(13), Event::Free { bytes: 25.0 });
    assert!(goes(&mut buffer));
    buffer.check();
}
