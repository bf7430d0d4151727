//! Tests of the machine with single events.

use super::*;
use proptest::prelude::*;

fn at(segment: u64) -> Location {
    Location { file: 1, segment }
}

fn paper(window: u64, free_bytes: u64) -> Config {
    let thresholds = Thresholds { free_bytes, ..Thresholds::default() };
    Config {
        window: Window::Requests(window),
        block_bytes: 1,
        fast_bytes: 10,
        planner: Planner::WsRos(thresholds),
        idle: Time(10),
        ..Config::default()
    }
}

fn access(machine: &mut Reorganizer, now: u64, block: u64, region: Region) {
    machine.handle(Time(now), Event::Access { location: at(block), region, bytes: 1, ends_request: true });
}

#[test]
fn a_request_over_several_locations_counts_once_in_a_window() {
    let mut machine = Reorganizer::new(paper(4, 0), Time::ZERO);
    let mut request = |first: u64| {
        for block in first..first + 3 {
            let event =
                Event::Access { location: at(block), region: Region::Read, bytes: 1, ends_request: block == first + 2 };
            machine.handle(Time(first), event);
        }
        machine.stats().panes
    };
    assert_eq!([1, 10, 20, 30, 40].map(&mut request), [0, 0, 0, 1, 1], "the fourth request ends the window");
}

fn poll(machine: &mut Reorganizer, now: Time) -> Option<Action> {
    machine.handle(now, Event::Tick);
    machine.poll()
}

#[test]
fn moves_wait_for_both_tiers_to_be_idle_and_go_one_after_the_other() {
    let mut machine = Reorganizer::new(paper(10, 0), Time::ZERO);
    machine.handle(Time::ZERO, Event::Busy(Tier::Slow));
    (0..10).for_each(|n| access(&mut machine, n, n % 2, Region::Read));
    assert_eq!((poll(&mut machine, Time(10)), machine.next_deadline()), (None, None));
    machine.handle(Time(20), Event::Idle(Tier::Slow));
    assert_eq!((poll(&mut machine, Time(20)), machine.next_deadline()), (None, Some(Time(30))));
    let Some(Action::Move(first)) = poll(&mut machine, Time(30)) else { panic!("idle long enough") };
    assert_eq!((first.location, first.to), (at(0), Tier::Fast));
    assert_eq!(poll(&mut machine, Time(30)), None, "one at a time");
    machine.handle(Time(31), Event::Moved(at(0)));
    assert_eq!(machine.tier(at(0)), Tier::Fast);
    let Some(Action::Move(second)) = poll(&mut machine, Time(31)) else { panic!("the next") };
    machine.handle(Time(32), Event::Failed(second.location));
    assert_eq!(machine.tier(second.location), Tier::Slow);
    assert_eq!(poll(&mut machine, Time(99)), None);
    let stats = machine.stats();
    assert_eq!((stats.promoted, stats.failed, stats.accesses, stats.fast_accesses), (1, 1, 10, 0));
}

/// [S-375]
#[test]
fn what_lies_on_a_failed_target_is_not_moved_until_it_is_back() {
    let mut machine = Reorganizer::new(paper(10, 0), Time::ZERO);
    let reach = |reached| Event::Reach { location: at(0), reached };
    machine.handle(Time::ZERO, reach(false));
    (0..10).for_each(|n| access(&mut machine, n, n % 2, Region::Read));
    let Some(Action::Move(first)) = poll(&mut machine, Time(30)) else { panic!("idle long enough") };
    assert_eq!(first.location, at(1), "the other one of the two hot locations");
    machine.handle(Time(31), Event::Moved(at(1)));
    assert_eq!(poll(&mut machine, Time(40)), None);
    machine.handle(Time(50), reach(true));
    (50..60).for_each(|n| access(&mut machine, n, n % 2, Region::Read));
    let Some(Action::Move(second)) = poll(&mut machine, Time(90)) else { panic!("it is back") };
    assert_eq!(second.location, at(0));
}

#[test]
fn a_budget_spreads_the_moves_and_a_busy_share_goes_on_under_load() {
    let config = Config { idle_bytes_per_s: Some(1), moves_max: 9, ..paper(20, 0) };
    let mut machine = Reorganizer::new(config, Time::ZERO);
    (0..20).for_each(|n| access(&mut machine, 0, n % 4, Region::Read));
    let mut times = Vec::new();
    let mut now = machine.next_deadline().unwrap();
    while let Some(next) = {
        while poll(&mut machine, now).is_some() {
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
    assert!(poll(&mut machine, Time::ZERO).is_some() && poll(&mut machine, Time::ZERO).is_none());
    assert_eq!(machine.next_deadline(), Some(Time::from_secs(1)));
    assert!(poll(&mut machine, Time::from_secs(1)).is_some());
}

/// Locations that were hot in one window and unused in the next make room for the present hot ones.
#[test]
fn ws_ros_demotes_what_left_the_working_set() {
    for span in [false, true] {
        let window = if span { Window::Span(Time(1000)) } else { Window::Requests(40) };
        let mut machine = Reorganizer::new(Config { window, moves_max: 99, ..paper(40, 4) }, Time::ZERO);
        let mut now = 0;
        let mut play = |machine: &mut Reorganizer, first: u64| {
            for n in 0..40 {
                now += 25;
                access(machine, now, first + n % 10, Region::Read);
            }
            let mut moved = [Vec::new(), Vec::new()];
            while let Some(Action::Move(of)) = poll(machine, Time(now + 25)) {
                machine.handle(Time(now + 25), Event::Moved(of.location));
                moved[of.to as usize].push(of.location.segment);
            }
            moved
        };
        // `Tier::Fast` first.
        assert_eq!(play(&mut machine, 0), [(0..10).collect(), vec![]]);
        for first in [100, 200] {
            let [fast, slow] = play(&mut machine, first);
            assert_eq!((fast, slow), ((first..first + 10).collect::<Vec<_>>(), (first - 100..first - 90).collect()));
        }
    }
}

#[test]
fn a_window_of_time_ends_without_accesses() {
    let config = Config { window: Window::Span(Time(400)), ..paper(1, 0) };
    let mut machine = Reorganizer::new(config, Time::ZERO);
    (0..5).for_each(|n| access(&mut machine, n, 3, Region::Read));
    assert_eq!(machine.next_deadline(), Some(Time(400)));
    assert!(poll(&mut machine, Time(399)).is_none());
    assert!(poll(&mut machine, Time(400)).is_some());
}

#[test]
fn what_is_gone_is_neither_hot_nor_moved() {
    let mut machine = Reorganizer::new(paper(5, 0), Time::ZERO);
    (0..5).for_each(|n| access(&mut machine, n, 3, Region::Read));
    machine.handle(Time(5), Event::Removed(at(3).file));
    assert_eq!(poll(&mut machine, Time(100)), None);
    assert_eq!(machine.working_set(), (0, 0));
}

#[test]
fn a_file_that_is_removed_takes_its_locations_along_and_gives_its_room_back() {
    let mut machine = Reorganizer::new(paper(13, 0), Time::ZERO);
    let other = Location { file: 2, segment: 0 };
    machine.handle(Time::ZERO, Event::Placed { location: at(7), tier: Tier::Fast });
    machine.handle(Time::ZERO, Event::Placed { location: other, tier: Tier::Fast });
    (0..5).for_each(|n| access(&mut machine, n, 3, Region::Read));
    (0..5).for_each(|n| access(&mut machine, n, 4, Region::Write));
    (0..2).for_each(|n| {
        machine.handle(Time(n), Event::Access { location: other, region: Region::Read, bytes: 1, ends_request: true })
    });
    assert_eq!(
        machine.hottest(2).iter().map(|t| (t.location, t.reads, t.writes)).collect::<Vec<_>>(),
        [(at(3), 5, 0), (at(4), 0, 5)]
    );
    assert!(machine.remembers(1) && machine.free_locations() == 8);
    machine.handle(Time(5), Event::Removed(1));
    assert!(!machine.remembers(1) && machine.remembers(2));
    assert_eq!((machine.free_locations(), poll(&mut machine, Time(100)), machine.fast_locations()), (9, None, 1));
}

proptest! {
    /// Tests after any events that the fast tier is never over its share and no location has two moves at a time. A
    /// move always goes to the other tier, and accounts add up.
    #[test]
    fn invariants_hold_under_random_events(
        tuned: bool,
        keep_copies: bool,
        steps in prop::collection::vec((0u64..30, 0u8..10, 1u64..50), 1..600),
    ) {
        let planner = if tuned { Planner::Tuned } else { paper(1, 3).planner };
        let copy_after = Some(Time(100));
        let config =
            Config { planner, window: Window::Requests(40), moves_max: 3, keep_copies, copy_after, ..paper(40, 3) };
        let mut machine = Reorganizer::new(config, Time::ZERO);
        let (mut now, mut under_way) = (0, Vec::<Move>::new());
        let (mut copying, mut copied) = (BTreeMap::<Location, bool>::new(), 0);
        for (block, what, span) in steps {
            now += span;
            match what {
                0..=3 => access(&mut machine, now, block % (1 + u64::from(what) * 9), Region::Read),
                4 => {
                    access(&mut machine, now, block, Region::Write);
                    copying.entry(at(block)).and_modify(|written| *written = true);
                    prop_assert!(!machine.copies.contains(at(block)), "a copy of what was written");
                }
                5 => machine.handle(Time(now), if span % 2 == 0 { Event::Busy(Tier::Slow) } else { Event::Idle(Tier::Slow) }),
                6 if !under_way.is_empty() => {
                    let of = under_way.remove(block as usize % under_way.len());
                    machine.handle(Time(now), Event::Moved(of.location));
                    prop_assert_eq!(machine.tier(of.location), of.to);
                }
                7 if !under_way.is_empty() => {
                    let of = under_way.remove(0);
                    machine.handle(Time(now), Event::Failed(of.location));
                    prop_assert_eq!(machine.tier(of.location), of.to.other());
                }
                8 => {
                    if let Some((location, written)) = copying.pop_first() {
                        machine.handle(Time(now), Event::Copied(location));
                        prop_assert_eq!(machine.copies.contains(location), !written);
                        copied += u64::from(!written);
                    }
                }
                9 => {
                    if let Some((location, _)) = copying.pop_last() {
                        machine.handle(Time(now), Event::Failed(location));
                        prop_assert!(!machine.copies.contains(location));
                    }
                }
                _ => {}
            }
            while let Some(action) = poll(&mut machine, Time(now)) {
                match action {
                    Action::Move(of) => {
                        prop_assert!(under_way.iter().all(|other| other.location != of.location));
                        prop_assert!(!copying.contains_key(&of.location));
                        prop_assert_eq!(machine.tier(of.location), of.to.other());
                        under_way.push(of);
                    }
                    Action::Copy(location) => {
                        prop_assert!(keep_copies && machine.tier(location) == Tier::Fast && machine.is_idle(Time(now)));
                        prop_assert!(!machine.copies.contains(location) && machine.plan.is_empty());
                        prop_assert!(copying.insert(location, false).is_none());
                    }
                }
            }
            let coming = under_way.iter().filter(|of| of.to == Tier::Fast).count();
            prop_assert!(machine.fast_locations() + coming <= 10);
            prop_assert!(under_way.len() + copying.len() <= 3);
            machine.check_copies();
            let due = !machine.plan.is_empty() || machine.copy_at().is_some();
            prop_assert!(machine.next_deadline().is_none_or(|at| at >= Time(now) || due));
        }
        let stats = machine.stats();
        prop_assert_eq!(stats.copied, copied);
        prop_assert_eq!(stats.promoted - stats.demoted, machine.fast_locations() as u64);
    }
}

/// Two locations on the fast tier, one of them written, and devices that are idle from 1000 ns on.
fn on_fast(config: Config) -> Reorganizer {
    let mut machine = Reorganizer::new(Config { keep_copies: true, ..config }, Time::ZERO);
    for block in [1, 2] {
        machine.handle(Time::ZERO, Event::Placed { location: at(block), tier: Tier::Fast });
    }
    access(&mut machine, 500, 1, Region::Write);
    machine
}

fn copies(machine: &mut Reorganizer, now: u64) -> Vec<u64> {
    let mut made = Vec::new();
    while let Some(action) = poll(machine, Time(now)) {
        let Action::Copy(location) = action else { panic!("nothing is hot: {action:?}") };
        machine.handle(Time(now), Event::Copied(location));
        made.push(location.segment);
    }
    made
}

#[test]
fn what_lies_only_on_the_fast_tier_is_copied_down_when_it_is_left_alone_and_the_devices_are_idle() {
    let config = Config { copy_after: Some(Time(1000)), moves_max: 2, ..paper(100, 0) };
    let mut busy = on_fast(config);
    busy.handle(Time(900), Event::Busy(Tier::Slow));
    assert_eq!((poll(&mut busy, Time(5000)), busy.next_deadline()), (None, None), "busy");
    let mut machine = on_fast(config);
    machine.handle(Time(900), Event::Busy(Tier::Slow));
    machine.handle(Time(900), Event::Idle(Tier::Slow));
    assert_eq!((poll(&mut machine, Time(999)), machine.next_deadline()), (None, Some(Time(1000))), "used lately");
    assert_eq!(copies(&mut machine, 1000), [2], "what was left alone for longest");
    assert_eq!((copies(&mut machine, 1499), machine.next_deadline()), (vec![], Some(Time(1500))));
    assert_eq!((copies(&mut machine, 1500), copies(&mut machine, 9999)), (vec![1], vec![]), "each once");
    assert_eq!((machine.copies(), machine.stats().copied), ((2, 0), 2));
    // A read changes nothing, a write invalidates the copy: it is made again after a time without access.
    access(&mut machine, 10_000, 1, Region::Read);
    access(&mut machine, 10_001, 2, Region::Write);
    assert_eq!((machine.copies().0, copies(&mut machine, 11_000), copies(&mut machine, 11_001)), (1, vec![], vec![2]));
    // A location that was not promoted but found there is copied as well; a removed one takes its copy along.
    machine.handle(Time(12_000), Event::Placed { location: at(7), tier: Tier::Fast });
    machine.handle(Time(12_000), Event::Placed { location: at(1), tier: Tier::Slow });
    assert_eq!((machine.copies().0, copies(&mut machine, 13_000), machine.copies().0), (1, vec![7], 2));
    machine.handle(Time(13_000), Event::CopyGone(at(7)));
    assert_eq!(copies(&mut machine, 14_000), [7]);
    machine.check_copies();
    // Without `copy_after`, no copies are made.
    let mut none = on_fast(Config { copy_after: None, ..config });
    assert_eq!((copies(&mut none, 9999), none.next_deadline()), (vec![], None));
}

#[test]
fn of_a_target_that_is_short_the_copies_of_what_was_accessed_last_go_first() {
    let mut machine = Reorganizer::new(Config { keep_copies: true, copy_after: None, ..paper(100, 0) }, Time::ZERO);
    for (block, at_ns) in [(1, 10), (2, 40), (3, 20), (4, 30)] {
        machine.handle(Time::ZERO, Event::Placed { location: at(block), tier: Tier::Fast });
        access(&mut machine, at_ns, block, Region::Read);
        machine.handle(Time(50), Event::Copied(at(block)));
    }
    let blocks = |machine: &Reorganizer, short| {
        let (go, freed) =
            crate::tier::room::give_up(
                machine.copies_to_give_up(),
                short,
                |location| if location == at(4) { 0 } else { 3 },
            );
        (go.iter().map(|location| location.segment).collect::<Vec<_>>(), freed)
    };
    assert_eq!(blocks(&machine, 0), (vec![], 0));
    assert_eq!(blocks(&machine, 4), (vec![2, 3], 6), "4 has no part there");
    access(&mut machine, 60, 1, Region::Read);
    access(&mut machine, 60, 3, Region::Write);
    assert_eq!(blocks(&machine, 100), (vec![1, 2], 6), "what was written has no copy any more");
    machine.check_copies();
}

#[test]
fn a_write_or_a_fault_ends_a_copy_that_is_being_made_and_it_is_tried_again_later() {
    let mut machine = on_fast(Config { copy_after: Some(Time(1000)), ..paper(100, 0) });
    assert_eq!(poll(&mut machine, Time(1000)), Some(Action::Copy(at(2))));
    assert_eq!(poll(&mut machine, Time(1500)), None, "one at a time");
    access(&mut machine, 1600, 2, Region::Write);
    machine.handle(Time(1700), Event::Copied(at(2)));
    assert_eq!((machine.copies(), machine.stats().copied), ((0, 0), 0), "written before it was done");
    assert_eq!(poll(&mut machine, Time(1700)), Some(Action::Copy(at(1))));
    machine.handle(Time(1800), Event::Failed(at(1)));
    assert_eq!((machine.stats().copies_failed, machine.stats().failed), (1, 0));
    assert_eq!((copies(&mut machine, 1_000_000_000), copies(&mut machine, 1_000_001_800)), (vec![2], vec![1]));
}

#[test]
fn copies_keep_to_the_budget_of_idle_times_and_to_the_room_on_the_slow_tier() {
    let paced = Config { copy_after: Some(Time::ZERO), idle_bytes_per_s: Some(1), ..paper(100, 0) };
    let mut machine = on_fast(paced);
    assert_eq!((copies(&mut machine, 1000), machine.next_deadline()), (vec![2], Some(Time(1_000_001_000))));
    assert_eq!((copies(&mut machine, 1_000_000_999), copies(&mut machine, 1_000_001_000)), (vec![], vec![1]));
    let mut full = on_fast(Config { idle_bytes_per_s: None, ..paced });
    full.handle(Time(500), Event::CopyBytes(1));
    assert_eq!((copies(&mut full, 1000), full.next_deadline()), (vec![2], None), "room for one");
    full.handle(Time(2000), Event::CopyBytes(5));
    assert_eq!(copies(&mut full, 2000), [1]);
}

#[test]
fn what_is_likely_to_be_written_again_is_not_copied() {
    let config = Config { copy_after: Some(Time(1000)), on_access: false, ..tuned_config(1_000_000, 0) };
    let mut machine = Reorganizer::new(config, Time::ZERO);
    // Locations that are each written eight times, one after the other, with idle devices in between.
    let mut made = 0;
    for n in 0..8_000u64 {
        let (block, now) = (n / 8, n * 10_000);
        if n % 8 == 0 {
            machine.handle(Time(now), Event::Placed { location: at(block), tier: Tier::Fast });
        }
        access(&mut machine, now, block, Region::Write);
        let copied = copies(&mut machine, now + 5_000);
        made += if n > 4_000 { copied.iter().filter(|copied| **copied == block && n % 8 < 7).count() } else { 0 };
    }
    assert!(made < 50, "{made} of 3500 copies were written over");
    // Unused for a window, they are copied.
    let done = copies(&mut machine, 1 << 60).len();
    assert!(machine.copies().0 > 900, "{done}, {:?}", machine.stats());
}

/// A tuned machine whose slow tier is always busy.
fn tuned(fast_bytes: u64, busy_bytes_per_s: u64) -> Reorganizer {
    let mut machine = Reorganizer::new(tuned_config(fast_bytes, busy_bytes_per_s), Time::ZERO);
    machine.handle(Time::ZERO, Event::Busy(Tier::Slow));
    machine
}

fn tuned_config(fast_bytes: u64, busy_bytes_per_s: u64) -> Config {
    Config {
        window: Window::Requests(400),
        block_bytes: 100,
        fast_bytes,
        idle: Time(10),
        busy_bytes_per_s,
        keep_copies: true,
        on_access: true,
        ..Config::default()
    }
}

fn read_whole(machine: &mut Reorganizer, now: u64, block: u64) -> Vec<Move> {
    machine
        .handle(Time(now), Event::Access { location: at(block), region: Region::Read, bytes: 100, ends_request: true });
    let mut made = Vec::new();
    while let Some(action) = poll(machine, Time(now)) {
        let Action::Move(of) = action else { panic!("the slow tier is never idle: {action:?}") };
        machine.handle(Time(now), Event::Moved(of.location));
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
    // One byte per second was permitted: the promotions used no time of the slow devices.
    assert!(machine.fast_locations() <= 4);
    // After the write it has no copy, and its demotion is a move with a cost.
    let fast: Vec<Location> = machine.fast.iter().copied().collect();
    let before = machine.copies().0;
    machine.handle(
        Time(6_000_001),
        Event::Access { location: fast[0], region: Region::Write, bytes: 1, ends_request: true },
    );
    assert_eq!((before, machine.copies().0), (fast.len(), fast.len() - 1));
}

#[test]
fn a_scan_promotes_nothing_at_the_access() {
    let mut machine = tuned(1_000, u64::MAX);
    assert!((0..5_000).all(|n| read_whole(&mut machine, n * 1000, n).is_empty()));
}

#[test]
fn a_long_window_does_not_make_it_wait_for_what_it_learns_first() {
    let window = Window::Requests(400_000);
    let mut machine = Reorganizer::new(Config { window, ..tuned_config(1_000, u64::MAX) }, Time::ZERO);
    machine.handle(Time::ZERO, Event::Busy(Tier::Slow));
    // Full of unused locations; ten others are read in turn.
    for block in 100..110 {
        machine.handle(Time::ZERO, Event::Placed { location: at(block), tier: Tier::Fast });
    }
    let made: usize = (0..4_000).map(|n| read_whole(&mut machine, n * 1000, n % 10).len()).sum();
    assert!(made >= 20 && machine.stats().panes == 5, "{made}, {:?}", machine.stats());
    let hot = (0..10).filter(|&block| machine.tier(at(block)) == Tier::Fast).count();
    assert_eq!(hot, 10);
}

#[test]
fn nothing_begins_while_it_is_paused_and_what_is_planned_then_is_done_after() {
    let mut machine = on_fast(Config { copy_after: Some(Time(1000)), moves_max: 3, ..paper(10, 0) });
    machine.handle(Time(500), Event::Paused(true));
    (0..9).for_each(|n| access(&mut machine, 600 + n, 20 + n % 2, Region::Read));
    assert_eq!((machine.paused, machine.pending()), (true, (2, 0)));
    assert_eq!((poll(&mut machine, Time(5000)), machine.next_deadline()), (None, None));
    machine.handle(Time(5000), Event::Paused(false));
    let begun: Vec<Action> = machine.drain().collect();
    assert!(matches!(begun[..], [Action::Move(_), Action::Move(_), ..]), "{begun:?}");
}

#[test]
fn only_what_waits_for_idle_devices_gives_way() {
    let gain = |reason| Action::Move(Move { location: at(1), to: Tier::Fast, reason });
    let (gain, at_hand) =
        (gain(Reason::Gain { saves_ns: 2, costs_ns: 1 }), gain(Reason::AtHand { saves_ns: 2, costs_ns: 1 }));
    let idle = Reorganizer::new(paper(10, 0), Time::ZERO);
    let busy = Reorganizer::new(Config { busy_bytes_per_s: 1, ..paper(10, 0) }, Time::ZERO);
    let of = |machine: &Reorganizer| [gain, at_hand, Action::Copy(at(1))].map(|of| machine.yielding(&of).is_some());
    assert_eq!((of(&idle), of(&busy)), ([true, false, true], [false; 3]));
}
