//! Tests of the coordinator of recoveries: by example, and against a slow oracle that plays the driver.

mod oracle;
mod slow_source;

use super::*;
use crate::machine::Machine;

const KEY: Key = Key { file: FileId(1), lost: ObjectId(7) };
const SPARE: ObjectId = ObjectId(8);

fn poll_all(r: &mut Recovery) -> Vec<Action> {
    let actions = r.drain().collect();
    r.check();
    actions
}

fn after(r: &mut Recovery, at: Time, event: Event) -> Vec<Action> {
    r.handle(at, event);
    poll_all(r)
}

fn blocked(waiter: Waiter, rows: Range<u64>) -> Event {
    Event::ReadBlocked { key: KEY, waiter, rows }
}

fn ready(rows: u64, sources: u32) -> Event {
    Event::SpareReady { key: KEY, new_object: SPARE, rows, sources }
}

fn failed(row: u64, kind: FetchError) -> Event {
    Event::FetchFailed { key: KEY, row, kind }
}

fn wake(waiter: Waiter, outcome: Outcome) -> Action {
    Action::Wake { waiter, outcome }
}

fn rows_of(actions: &[Action]) -> Vec<u64> {
    actions.iter().filter_map(|a| if let Action::Fetch { row, .. } = a { Some(*row) } else { None }).collect()
}

/// One fetch at a time.
fn narrow() -> Config {
    Config { rows_per_key_max: 1, reserved_for_asked: 0, ..Config::default() }
}

/// A recovery with published rows, and its first fetches.
fn patching(config: Config, rows: u64, sources: u32, first: Event) -> (Recovery, Vec<Action>) {
    let mut r = Recovery::new(config);
    assert_eq!(after(&mut r, Time::ZERO, first), [Action::ChooseSpare(KEY)]);
    assert_eq!(after(&mut r, Time::ZERO, ready(rows, sources)), [Action::Publish { key: KEY, new_object: SPARE }]);
    let actions = after(&mut r, Time::ZERO, Event::Published(KEY));
    (r, actions)
}

#[test]
fn a_late_row_asked_for_comes_first_and_wakes_its_reader_before_the_rest() {
    let (mut r, actions) = patching(narrow(), 4, 1, blocked(1, 3..4));
    assert_eq!(actions, [Action::Fetch { key: KEY, row: 3, source_index: 0, reason: FetchReason::Asked }]);
    assert!(!r.is_patched(KEY, 3));
    let actions = after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 3 });
    assert_eq!(actions[0], wake(1, Outcome::Ok));
    assert!(r.is_patched(KEY, 3) && !r.is_patched(KEY, 0));
    assert_eq!(rows_of(&actions), [0]);
    assert_eq!(rows_of(&after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 0 })), [1]);
    assert_eq!(after(&mut r, Time::ZERO, blocked(2, 2..3)), []);
    assert_eq!(rows_of(&after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 1 })), [2]);
    let finish = Action::Finish { key: KEY, result: Finished::Complete };
    assert_eq!(after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 2 }), [wake(2, Outcome::Ok), finish]);
    assert_eq!(after(&mut r, Time::ZERO, blocked(3, 0..4)), [wake(3, Outcome::Ok)]);
    after(&mut r, Time::ZERO, Event::Closed(KEY));
    assert!(!r.knows(KEY));
}

#[test]
fn rows_behind_the_readers_come_last() {
    let (mut r, actions) = patching(narrow(), 10, 1, blocked(1, 4..5));
    assert_eq!(rows_of(&actions), [4]);
    let mut order = Vec::new();
    let mut row = 4;
    for _ in 0..9 {
        if row == 5 {
            after(&mut r, Time::ZERO, blocked(2, 8..9)); // another reader, further on
        }
        let actions = after(&mut r, Time::ZERO, Event::Patched { key: KEY, row });
        row = rows_of(&actions)[0];
        order.push(row);
    }
    assert_eq!(order, [5, 8, 9, 6, 7, 0, 1, 2, 3]);
}

#[test]
fn what_lies_ahead_of_a_reader_comes_before_the_rest_of_other_files() {
    let (mut r, actions) = patching(narrow(), 4, 1, Event::RepairWanted(KEY));
    assert_eq!(rows_of(&actions), [0]);
    let other = Key { file: FileId(2), lost: ObjectId(17) };
    let at = |r: &mut Recovery, event| after(r, Time::ZERO, event);
    r.handle(Time::ZERO, Event::ReadBlocked { key: other, waiter: 1, rows: 2..3 });
    at(&mut r, Event::SpareReady { key: other, new_object: ObjectId(18), rows: 4, sources: 1 });
    assert_eq!(rows_of(&at(&mut r, Event::Published(other))), [2]);
    let fetches = |actions: &[Action]| {
        let fetch = |a: &Action| if let Action::Fetch { key, row, .. } = a { Some((key.file.0, *row)) } else { None };
        actions.iter().filter_map(fetch).collect::<Vec<_>>()
    };
    assert_eq!(fetches(&at(&mut r, Event::Patched { key: other, row: 2 })), [(2, 3)]);
    assert_eq!(fetches(&at(&mut r, Event::Patched { key: KEY, row: 0 })), [(1, 1)]);
    assert_eq!(fetches(&at(&mut r, Event::Patched { key: other, row: 3 })), [(2, 0)]);
}

#[test]
fn many_readers_cause_one_recovery() {
    let (mut r, _) = patching(narrow(), 2, 1, blocked(1, 0..1));
    for waiter in 2..100 {
        assert_eq!(after(&mut r, Time::ZERO, blocked(waiter, 0..2)), []);
    }
    assert_eq!(after(&mut r, Time::ZERO, Event::RepairWanted(KEY)), []);
    after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 0 });
    let woken = after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 1 });
    assert_eq!(woken.len(), 98 + 1);
    assert_eq!(r.stats().completed, 0, "not durable yet");
    after(&mut r, Time::ZERO, Event::Closed(KEY));
    let stats = r.stats();
    assert_eq!((stats.started, stats.completed, stats.fetches, stats.waits), (1, 1, 2, 99));
}

#[test]
fn a_passing_failure_is_tried_again_later_each_time_then_the_next_source() {
    let (mut r, _) = patching(narrow(), 1, 2, blocked(1, 0..1));
    let mut now = Time::ZERO;
    for (retry, wait_ms) in [(1, 200), (2, 400), (3, 800)] {
        assert_eq!(after(&mut r, now, failed(0, FetchError::Passing)), []);
        let due = now + Time::from_millis(wait_ms);
        assert_eq!(r.next_deadline(), Some(due));
        assert_eq!(after(&mut r, due - Time(1), Event::Tick), []);
        let reason = FetchReason::Retry(retry);
        let fetch = Action::Fetch { key: KEY, row: 0, source_index: 0, reason };
        assert_eq!(after(&mut r, due, Event::Tick), [fetch]);
        now = due;
    }
    let next = Action::Fetch { key: KEY, row: 0, source_index: 1, reason: FetchReason::NextSource };
    assert_eq!(after(&mut r, now, failed(0, FetchError::Passing)), [next]);
    let got = after(&mut r, now, failed(0, FetchError::Changed));
    let why = Why::Sources(FetchError::Changed);
    let result = Finished::Failed { why, rows_failed: 1 };
    assert_eq!(got, [wake(1, Outcome::Failed(why)), Action::Finish { key: KEY, result }]);
}

#[test]
fn a_changed_source_is_not_asked_again() {
    let (mut r, _) = patching(Config { retries: 0, ..narrow() }, 4, 2, blocked(1, 0..3));
    let sources = |actions: &[Action]| {
        let source = |a: &Action| if let Action::Fetch { source_index, .. } = a { Some(*source_index) } else { None };
        actions.iter().filter_map(source).collect::<Vec<_>>()
    };
    assert_eq!(sources(&after(&mut r, Time::ZERO, failed(0, FetchError::Changed))), [1]);
    for row in 0..2 {
        assert_eq!(sources(&after(&mut r, Time::ZERO, Event::Patched { key: KEY, row })), [1]);
    }
    let got = after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 2 });
    assert_eq!((got[0].clone(), sources(&got)), (wake(1, Outcome::Ok), vec![1]));
    let result = Finished::Failed { why: Why::Sources(FetchError::Passing), rows_failed: 1 };
    let end = after(&mut r, Time::ZERO, failed(3, FetchError::Passing));
    assert_eq!(end, [Action::Finish { key: KEY, result }], "the other source is not asked even now");
}

#[test]
fn a_bad_checksum_fails_one_row_and_the_others_come() {
    let (mut r, _) = patching(narrow(), 9, 1, blocked(1, 0..1));
    let why = Why::Sources(FetchError::BadChecksum);
    let got = after(&mut r, Time::ZERO, failed(0, FetchError::BadChecksum));
    assert_eq!(got[0], wake(1, Outcome::Failed(why)));
    for row in 1..9 {
        after(&mut r, Time::ZERO, blocked(row, row..row + 1));
        let got = after(&mut r, Time::ZERO, Event::Patched { key: KEY, row });
        assert_eq!(got[0], wake(row, Outcome::Ok));
    }
    assert_eq!(r.progress(KEY), Some((8, 9)));
    assert!(r.is_patched(KEY, 8) && !r.is_patched(KEY, 0));
}

#[test]
fn a_dead_source_costs_a_few_rows_and_is_tried_again_only_later() {
    let config = Config { retries: 0, ..narrow() };
    let (mut r, mut actions) = patching(config, 1_000_000, 1, blocked(1, 999_999..1_000_000));
    let mut fetches = 0;
    while let Some(row) = rows_of(&actions).first() {
        fetches += 1;
        actions = after(&mut r, Time::ZERO, failed(*row, FetchError::Passing));
    }
    assert_eq!(fetches, 4);
    let why = Why::Sources(FetchError::Passing);
    let result = Finished::Failed { why, rows_failed: 1_000_000 };
    assert_eq!(actions, [Action::Finish { key: KEY, result }]);
    let soon = Time::from_secs(9);
    assert_eq!(after(&mut r, soon, blocked(2, 5..6)), [wake(2, Outcome::Failed(why))]);
    let later = Time::from_secs(10);
    assert_eq!(rows_of(&after(&mut r, later, blocked(2, 5..6))), [5]);
    assert_eq!(after(&mut r, later, Event::Patched { key: KEY, row: 5 })[0], wake(2, Outcome::Ok));
}

#[test]
fn without_a_spare_everybody_is_told_and_later_it_is_tried_again() {
    let mut r = Recovery::new(Config::default());
    after(&mut r, Time::ZERO, blocked(1, 0..1));
    after(&mut r, Time::ZERO, blocked(2, 5..6));
    let why = Why::NoSpare;
    let finish = Action::Finish { key: KEY, result: Finished::Failed { why, rows_failed: 0 } };
    let told = after(&mut r, Time::ZERO, Event::SpareFailed(KEY));
    assert_eq!(told, [wake(1, Outcome::Failed(why)), wake(2, Outcome::Failed(why)), finish]);
    assert_eq!(after(&mut r, Time(1), blocked(3, 0..1)), [wake(3, Outcome::Failed(why))]);
    assert_eq!(after(&mut r, Time::from_secs(10), blocked(4, 0..1)), [Action::ChooseSpare(KEY)]);
    after(&mut r, Time::from_secs(10), ready(1, 1));
    let told = after(&mut r, Time::from_secs(10), Event::PublishFailed(KEY));
    assert_eq!(
        told[..2],
        [Action::Discard { key: KEY, new_object: SPARE }, wake(4, Outcome::Failed(Why::NotPublished))]
    );
}

#[test]
fn an_abandoned_recovery_leaves_no_spare_and_no_waiter_behind() {
    let mut r = Recovery::new(Config::default());
    after(&mut r, Time::ZERO, blocked(1, 0..1));
    assert_eq!(after(&mut r, Time::ZERO, Event::Abandoned(KEY)), [wake(1, Outcome::LookAgain)]);
    assert_eq!(after(&mut r, Time::ZERO, blocked(2, 0..1)), [], "it would only come again");
    let discard = Action::Discard { key: KEY, new_object: SPARE };
    let over = [discard, wake(2, Outcome::LookAgain), Action::Forgotten(KEY)];
    assert_eq!(after(&mut r, Time::ZERO, ready(1, 1)), over);
    assert!(!r.knows(KEY));

    let (mut r, _) = patching(Config::default(), 9, 1, blocked(1, 0..1));
    assert!(r.stats().in_flight > 1);
    after(&mut r, Time::ZERO, Event::Abandoned(KEY));
    for row in 0..r.stats().in_flight {
        assert!(r.knows(KEY));
        after(&mut r, Time::ZERO, Event::Patched { key: KEY, row });
    }
    assert!(!r.knows(KEY));
}

#[test]
fn an_empty_object_is_complete_once_published() {
    let (r, actions) = patching(Config::default(), 0, 1, blocked(1, 0..1));
    assert_eq!(actions, [wake(1, Outcome::Ok), Action::Finish { key: KEY, result: Finished::Complete }]);
    assert!(r.is_patched(KEY, 0));
}

#[test]
fn who_cancels_is_not_woken() {
    let (mut r, _) = patching(narrow(), 1, 1, blocked(1, 0..1));
    after(&mut r, Time::ZERO, Event::Cancel(1));
    let end = after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 0 });
    assert_eq!(end, [Action::Finish { key: KEY, result: Finished::Complete }]);
}

#[test]
fn room_is_kept_for_rows_that_somebody_waits_for() {
    let config = Config { rows_per_key_max: 4, reserved_for_asked: 1, ..Config::default() };
    let (mut r, actions) = patching(config, 100, 1, Event::RepairWanted(KEY));
    assert_eq!(rows_of(&actions), [0, 1, 2]);
    assert_eq!(rows_of(&after(&mut r, Time::ZERO, blocked(1, 50..52))), [50]);
    assert_eq!(rows_of(&after(&mut r, Time::ZERO, Event::Patched { key: KEY, row: 0 })), [51]);
}
