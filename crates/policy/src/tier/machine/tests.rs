//! The machine, driven by hand.

use super::*;
use proptest::prelude::*;

fn at(block: u64) -> Location {
    Location { file: 1, block }
}

fn paper(window: u64, free_bytes: u64) -> Config {
    let thresholds = Thresholds { free_bytes, ..Thresholds::default() };
    Config {
        window: Window::Requests(window),
        panes: 1,
        block_bytes: 1,
        fast_bytes: 10,
        planner: Planner::WsRos(thresholds),
        idle: Time(10),
        ..Config::default()
    }
}

fn access(machine: &mut Reorganizer, now: u64, block: u64, region: Region) {
    machine.handle(Time(now), Event::Access { location: at(block), region, bytes: 1 });
}

#[test]
fn moves_wait_for_both_tiers_to_be_idle_and_go_one_after_the_other() {
    let mut machine = Reorganizer::new(paper(10, 0), Time::ZERO);
    machine.handle(Time::ZERO, Event::Busy(Tier::Slow));
    (0..10).for_each(|n| access(&mut machine, n, n % 2, Region::Read));
    assert_eq!((machine.poll(Time(10)), machine.next_deadline()), (None, None));
    machine.handle(Time(20), Event::Idle(Tier::Slow));
    assert_eq!((machine.poll(Time(20)), machine.next_deadline()), (None, Some(Time(30))));
    let Some(Action::Move(first)) = machine.poll(Time(30)) else { panic!("idle long enough") };
    assert_eq!((first.location, first.to), (at(0), Tier::Fast));
    assert_eq!(machine.poll(Time(30)), None, "one at a time");
    machine.handle(Time(31), Event::Moved { location: at(0) });
    assert_eq!(machine.tier(at(0)), Tier::Fast);
    let Some(Action::Move(second)) = machine.poll(Time(31)) else { panic!("the next") };
    machine.handle(Time(32), Event::Failed { location: second.location });
    assert_eq!(machine.tier(second.location), Tier::Slow);
    assert_eq!(machine.poll(Time(99)), None);
    let stats = machine.stats();
    assert_eq!((stats.promoted, stats.failed, stats.accesses, stats.fast_accesses), (1, 1, 10, 0));
}

#[test]
fn a_budget_spreads_the_moves_and_a_busy_share_goes_on_under_load() {
    let config = Config { idle_bytes_per_s: Some(1), moves_max: 9, ..paper(20, 0) };
    let mut machine = Reorganizer::new(config, Time::ZERO);
    (0..20).for_each(|n| access(&mut machine, 0, n % 4, Region::Read));
    let mut times = Vec::new();
    let mut now = machine.next_deadline().unwrap();
    while let Some(next) = {
        while machine.poll(now).is_some() {
            times.push(now.0);
        }
        machine.next_deadline()
    } {
        now = next;
    }
    assert_eq!(times, [10, 1_000_000_010, 2_000_000_010, 3_000_000_010].map(|t: u64| t.max(10)).to_vec());

    let busy = Config { busy_bytes_per_s: 1, moves_max: 9, ..paper(20, 0) };
    let mut machine = Reorganizer::new(busy, Time::ZERO);
    machine.handle(Time::ZERO, Event::Busy(Tier::Fast));
    (0..20).for_each(|n| access(&mut machine, 0, n % 4, Region::Read));
    assert!(machine.poll(Time::ZERO).is_some() && machine.poll(Time::ZERO).is_none());
    assert_eq!(machine.next_deadline(), Some(Time::from_secs(1)));
    assert!(machine.poll(Time::from_secs(1)).is_some());
}

#[test]
fn a_window_of_time_ends_without_accesses() {
    let config = Config { window: Window::Span(Time(400)), ..paper(1, 0) };
    let mut machine = Reorganizer::new(config, Time::ZERO);
    (0..5).for_each(|n| access(&mut machine, n, 3, Region::Read));
    assert_eq!(machine.next_deadline(), Some(Time(400)));
    assert!(machine.poll(Time(399)).is_none());
    assert!(machine.poll(Time(400)).is_some());
}

#[test]
fn what_is_gone_is_neither_hot_nor_moved() {
    let mut machine = Reorganizer::new(paper(5, 0), Time::ZERO);
    (0..5).for_each(|n| access(&mut machine, n, 3, Region::Read));
    machine.handle(Time(5), Event::Gone { location: at(3) });
    assert_eq!(machine.poll(Time(100)), None);
    assert_eq!(machine.working_set(), (0, 0));
}

#[test]
fn a_file_that_is_removed_takes_its_locations_along_and_gives_its_room_back() {
    let mut machine = Reorganizer::new(paper(13, 0), Time::ZERO);
    let other = Location { file: 2, block: 0 };
    machine.handle(Time::ZERO, Event::Placed { location: at(7), tier: Tier::Fast });
    machine.handle(Time::ZERO, Event::Placed { location: other, tier: Tier::Fast });
    (0..5).for_each(|n| access(&mut machine, n, 3, Region::Read));
    (0..5).for_each(|n| access(&mut machine, n, 4, Region::Write));
    (0..2).for_each(|n| machine.handle(Time(n), Event::Access { location: other, region: Region::Read, bytes: 1 }));
    assert_eq!(
        machine.hottest(2).iter().map(|t| (t.location, t.reads, t.writes)).collect::<Vec<_>>(),
        [(at(3), 5, 0), (at(4), 0, 5)]
    );
    assert!(machine.remembers(1) && machine.free_locations() == 8);
    machine.handle(Time(5), Event::Removed { file: 1 });
    assert!(!machine.remembers(1) && machine.remembers(2));
    assert_eq!((machine.free_locations(), machine.poll(Time(100)), machine.fast_locations()), (9, None, 1));
}

proptest! {
    /// Whatever happens: the fast tier is never over its share, no location is moved twice at a time, a move is always to the
    /// other tier, and accounts add up.
    #[test]
    fn invariants_hold_under_random_events(
        tuned: bool,
        steps in prop::collection::vec((0u64..30, 0u8..8, 1u64..50), 1..600),
    ) {
        let planner = if tuned { Planner::Tuned(tuned::Config::default()) } else { paper(1, 3).planner };
        let panes = if tuned { 4 } else { 1 };
        let config = Config { planner, panes, window: Window::Requests(40), moves_max: 3, ..paper(40, 3) };
        let mut machine = Reorganizer::new(config, Time::ZERO);
        let (mut now, mut under_way) = (0, Vec::<Move>::new());
        for (block, what, span) in steps {
            now += span;
            match what {
                0..=3 => access(&mut machine, now, block % (1 + u64::from(what) * 9), Region::Read),
                4 => access(&mut machine, now, block, Region::Write),
                5 => machine.handle(Time(now), if span % 2 == 0 { Event::Busy(Tier::Slow) } else { Event::Idle(Tier::Slow) }),
                6 if !under_way.is_empty() => {
                    let of = under_way.remove(block as usize % under_way.len());
                    machine.handle(Time(now), Event::Moved { location: of.location });
                    prop_assert_eq!(machine.tier(of.location), of.to);
                }
                _ if !under_way.is_empty() => {
                    let of = under_way.remove(0);
                    machine.handle(Time(now), Event::Failed { location: of.location });
                    prop_assert_eq!(machine.tier(of.location), of.to.other());
                }
                _ => {}
            }
            while let Some(Action::Move(of)) = machine.poll(Time(now)) {
                prop_assert!(under_way.iter().all(|other| other.location != of.location));
                prop_assert_eq!(machine.tier(of.location), of.to.other());
                under_way.push(of);
            }
            let coming = under_way.iter().filter(|of| of.to == Tier::Fast).count();
            prop_assert!(machine.fast_locations() + coming <= 10);
            prop_assert!(under_way.len() <= 3);
            prop_assert!(machine.next_deadline().is_none_or(|at| at >= Time(now) || !machine.plan.is_empty()));
        }
        let stats = machine.stats();
        prop_assert_eq!(stats.promoted - stats.demoted, machine.fast_locations() as u64);
    }
}

/// A tuned machine whose slow tier is always busy.
fn tuned(fast_bytes: u64, busy_bytes_per_s: u64) -> Reorganizer {
    let config = Config {
        window: Window::Requests(400),
        panes: 4,
        block_bytes: 100,
        fast_bytes,
        idle: Time(10),
        busy_bytes_per_s,
        keep_copies: true,
        on_access: true,
        ..Config::default()
    };
    let mut machine = Reorganizer::new(config, Time::ZERO);
    machine.handle(Time::ZERO, Event::Busy(Tier::Slow));
    machine
}

fn read_whole(machine: &mut Reorganizer, now: u64, block: u64) -> Vec<Move> {
    machine.handle(Time(now), Event::Access { location: at(block), region: Region::Read, bytes: 100 });
    let mut made = Vec::new();
    while let Some(Action::Move(of)) = machine.poll(Time(now)) {
        machine.handle(Time(now), Event::Moved { location: of.location });
        made.push(of);
    }
    made
}

#[test]
fn what_comes_back_is_promoted_at_the_access_and_leaves_its_copy_for_nothing() {
    let mut machine = tuned(400, 1);
    let mut made: Vec<Move> = Vec::new();
    // Groups of four that are read sixteen times and then never again.
    for n in 0..6_000u64 {
        made.extend(read_whole(&mut machine, n * 1000, n / 64 * 4 + n % 4));
    }
    let stats = machine.stats();
    let at_hand = made.iter().filter(|of| matches!(of.reason, Reason::AtHand { .. })).count();
    assert!(at_hand > 50 && stats.demoted > 50, "{at_hand} at hand, {stats:?}");
    assert!(stats.fast_accesses > 2_000, "{stats:?}");
    // One byte per second was allowed: what was made took nothing from the slow devices.
    assert!(machine.fast_locations() <= 4);
    // Written, it has no copy any more, and its way back is a move with a price.
    let fast: Vec<Location> = machine.fast.iter().copied().collect();
    let before = machine.copies.len();
    machine.handle(Time(6_000_001), Event::Access { location: fast[0], region: Region::Write, bytes: 1 });
    assert_eq!((before, machine.copies.len()), (fast.len(), fast.len() - 1));
}

#[test]
fn a_scan_promotes_nothing_at_the_access() {
    let mut machine = tuned(1_000, u64::MAX);
    assert!((0..5_000).all(|n| read_whole(&mut machine, n * 1000, n).is_empty()));
}
