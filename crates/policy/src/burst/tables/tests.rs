//! The tables of versions and the order in which they leave.

use super::*;
use proptest::prelude::*;

fn v(app: App, number: u64) -> Version {
    Version { app, number }
}

fn tables(order: Order) -> Tables {
    let mut tables = Tables::new(order, Baselines::Keep);
    for (app, mtbf) in [(1, 100), (2, 300), (3, 200)] {
        tables.set_mtbf(app, mtbf);
        tables.written(v(app, 1), 10);
    }
    tables
}

#[test]
fn old_versions_leave_first_then_the_highest_mtbf_whose_copy_stays() {
    let mut tables = tables(Order::VersionsThenMtbf);
    tables.written(v(1, 2), 10);
    let first = tables.next_demotion().unwrap();
    assert_eq!((first.version, first.delete, first.reason), (v(1, 1), true, Reason::Superseded));
    assert_eq!(tables.demoted(&first), 10);
    let second = tables.next_demotion().unwrap();
    assert_eq!((second.version, second.delete), (v(2, 1), false));
    assert_eq!(tables.demoted(&second), 0);
    assert_eq!((tables.places(v(1, 1)), tables.places(v(2, 1))), ((false, true), (true, true)));
    let rest: Vec<_> = std::iter::from_fn(|| tables.next_demotion()).map(|of| of.version.app).collect();
    assert_eq!(rest, [3, 1]);
    assert_eq!(tables.delete_clean(5), [(v(2, 1), 10)]);
    assert_eq!(tables.restart(2), Some((v(2, 1), false)));
    assert_eq!(tables.restart(1), Some((v(1, 2), true)));
}

#[test]
fn a_demotion_that_fails_changes_nothing_for_the_application() {
    let mut tables = tables(Order::VersionsThenMtbf);
    tables.written(v(1, 2), 10);
    let first = tables.next_demotion().unwrap();
    tables.failed(&first);
    assert_eq!(tables.next_demotion().map(|of| of.version), Some(v(1, 1)));
    assert_eq!(tables.restart(1), Some((v(1, 2), true)));
}

#[test]
fn clean_copies_leave_oldest_first_or_by_mtbf_throughout() {
    for (order, first) in [(Order::VersionsThenMtbf, 1), (Order::Throughout, 2)] {
        let mut tables = tables(order);
        let mut all: Vec<_> = std::iter::from_fn(|| tables.next_demotion()).collect();
        all.sort_by_key(|of| of.version);
        all.iter().for_each(|of| assert_eq!(tables.demoted(of), 0));
        assert_eq!(tables.delete_clean(1), [(v(first, 1), 10)], "{order:?}");
    }
}

#[test]
fn demoted_data_of_the_baselines_leave_or_stay() {
    for order in [Order::Fifo, Order::Lru] {
        for (baselines, freed) in [(Baselines::Move, 10), (Baselines::Keep, 0)] {
            let mut tables = Tables { baselines, ..tables(order) };
            assert_eq!(tables.restart(1), Some((v(1, 1), true)));
            let first = tables.next_demotion().unwrap();
            let refreshed = order == Order::Lru && baselines == Baselines::Keep;
            assert_eq!(first.version, v(if refreshed { 2 } else { 1 }, 1), "{order:?} {baselines:?}");
            assert_eq!(tables.demoted(&first), freed);
            assert_eq!(tables.places(first.version), (freed == 0, true));
        }
    }
}

#[test]
fn cold_checkpoints_go_direct_when_more_than_the_buffer_was_written() {
    let tables = tables(Order::VersionsThenMtbf);
    assert!(!tables.goes_direct(2, 99.0, 100.0) && tables.goes_direct(2, 101.0, 100.0));
    assert!(!tables.goes_direct(3, 101.0, 100.0), "application 2 fails less often and is in the buffer");
    let mut tables = tables;
    let first = tables.next_demotion().unwrap();
    tables.demoted(&first);
    assert!(tables.goes_direct(3, 101.0, 100.0), "what can be deleted at any time keeps nobody out");
}

#[test]
fn fifo_and_lru_look_at_age_alone() {
    let mut fifo = tables(Order::Fifo);
    fifo.restart(1);
    assert_eq!(fifo.next_demotion().map(|of| of.version.app), Some(1));
    let mut lru = tables(Order::Lru);
    lru.restart(1);
    assert_eq!(lru.next_demotion().map(|of| of.version.app), Some(2));
}

#[test]
fn an_application_that_ended_leaves_nothing() {
    let mut tables = tables(Order::VersionsThenMtbf);
    tables.written(v(1, 2), 10);
    assert_eq!(tables.ended(1).len(), 2);
    assert_eq!((tables.restart(1), tables.in_buffer()), (None, (2, 20)));
    assert!(std::iter::from_fn(|| tables.next_demotion()).all(|of| of.version.app != 1));
}

proptest! {
    /// After any history, the newest version of every application is still stored.
    #[test]
    fn the_newest_version_is_never_lost(
        order in prop::sample::select(vec![Order::VersionsThenMtbf, Order::Throughout, Order::Mtbf, Order::Fifo, Order::Lru]),
        steps in prop::collection::vec((0u8..6, 1u64..5), 1..200),
    ) {
        let mut tables = Tables::new(order, Baselines::Keep);
        let (mut numbers, mut under_way) = (BTreeMap::<u64, u64>::new(), Vec::new());
        for (what, app) in steps {
            match what {
                0 | 1 => {
                    let number = numbers.entry(app).or_default();
                    *number += 1;
                    tables.set_mtbf(app, app * 7 % 5);
                    tables.written(v(app, *number), 10);
                }
                2 => under_way.extend(tables.next_demotion()),
                3 if !under_way.is_empty() => { tables.demoted(&under_way.remove(0)); }
                4 if !under_way.is_empty() => tables.failed(&under_way.remove(0)),
                _ => { tables.delete_clean(app * 10); }
            }
            for (app, number) in &numbers {
                let (buffer, capacity) = tables.places(v(*app, *number));
                prop_assert!(buffer || capacity);
                prop_assert_eq!(tables.restart(*app), Some((v(*app, *number), buffer)));
            }
        }
    }
}
