//! Worlds small enough to be computed by hand, and random ones with every checker on.

use super::*;
use crate::block::{Merging, Scheduler};
use crate::disk::{Disk, model::CHEETAH9LP};
use crate::prefetch::Prefetch;
use crate::storage::{Array, Device, Service};
use policy::cache::Span;
use policy::coordinate::{Coordination, Labels};
use policy::precedence::{self, Precedence};
use policy::prefetch::{self as live, Algorithm, Share, Trigger};
use proptest::prelude::*;

fn read(at_ms: u64, index: u64, len: u32) -> Access {
    Access {
        at: Time::from_millis(at_ms),
        span: Span::new(0, index, len),
        stream: 0,
        file_blocks: u64::MAX,
        write: false,
    }
}

fn constant(ms: u64) -> Storage {
    let service = Service::new(Time::from_millis(ms), Time::ZERO);
    Storage::new(vec![Device::Constant(service)], Array::Single, Scheduler::Noop, Merging::default())
}

fn plain(blocks: u32) -> LevelConfig {
    LevelConfig::new(blocks, Prefetch::NONE)
}

fn run(config: Config, storage: Storage, clients: Vec<Vec<Access>>) -> Tally {
    let config = Config { check: true, ..config };
    let placement = Placement::new(&[1 << 20; 8], 8, storage.sectors());
    let sources = clients.into_iter().map(Vec::into_iter).collect();
    let mut world = World::new(config, storage, placement, sources).unwrap();
    world.run();
    world.tally()
}

#[test]
fn a_miss_costs_device_and_link_and_a_hit_nothing() {
    let trace = vec![read(0, 7, 1), read(100, 7, 1)];
    let tally = run(Config::two_levels(plain(10), plain(10)), constant(5), vec![trace]);
    // 5 ms of the device, 6.03 ms of the link; then nothing.
    assert_eq!(tally.reads.count(), 2);
    assert!((tally.reads.mean_ms() - 11.03 / 2.0).abs() < 1e-9);
    assert_eq!(tally.storage.started, 1);
    assert_eq!((tally.levels[0].stats.hit, tally.levels[0].stats.missed), (1, 1));
    assert_eq!((tally.levels[1].stats.asked, tally.link_blocks), (1, 1));
}

#[test]
fn a_hit_in_the_lower_level_costs_the_link() {
    let mut trace = vec![read(0, 0, 1), read(20, 1, 1), read(40, 0, 1)];
    let tally = run(Config::two_levels(plain(1), plain(10)), constant(5), vec![trace.clone()]);
    assert!((tally.reads.sum_ns() as f64 / 1e6 - (11.03 * 2.0 + 6.03)).abs() < 1e-9);
    // A closed loop thinks after each answer instead.
    trace.iter_mut().for_each(|access| access.at = Time::ZERO);
    let arrival = Arrival::Closed { think: Time::from_millis(1) };
    let tally = run(Config { arrival, ..Config::two_levels(plain(1), plain(10)) }, constant(5), vec![trace]);
    assert!((tally.end.as_secs_f64() * 1e3 - (1.0 + 11.03 + 1.0 + 11.03 + 1.0 + 6.03)).abs() < 1e-9);
}

#[test]
fn a_client_with_a_pace_waits_for_answers_and_then_keeps_its_distance() {
    // Each takes 11.03 ms: the second waits for the first, the third comes 15 ms after the second.
    let trace = vec![read(0, 0, 1), read(4, 1, 1), read(19, 2, 1), read(90, 3, 1)];
    let paced = |until| {
        let config = Config { arrival: Arrival::Paced, until, ..Config::two_levels(plain(1), plain(10)) };
        run(config, constant(5), vec![trace.clone()])
    };
    let end_ms = |tally: &Tally| tally.end.as_secs_f64() * 1e3;
    assert!((end_ms(&paced(None)) - (11.03 + 15.0 + 71.0 + 11.03)).abs() < 1e-9);
    let cut = paced(Some(Time::from_millis(30)));
    assert_eq!(cut.read_blocks, 3);
    assert!((end_ms(&cut) - (11.03 + 15.0 + 11.03)).abs() < 1e-9);
}

#[test]
fn a_client_with_recorded_think_times_thinks_after_each_answer() {
    // Each takes 11.03 ms, and the client thinks for 4 ms, then for 15 ms.
    let trace = vec![read(2, 0, 1), read(6, 1, 1), read(21, 2, 1)];
    let config = Config { arrival: Arrival::Thinking, ..Config::two_levels(plain(1), plain(10)) };
    let tally = run(config, constant(5), vec![trace]);
    assert!((tally.end.as_secs_f64() * 1e3 - (2.0 + 11.03 + 4.0 + 11.03 + 15.0 + 11.03)).abs() < 1e-9);
}

/// A client's prefetch waits in the device's queue until the application requests it. The mark passes the link and the
/// level below if that level distinguishes prefetches from demands.
#[test]
fn a_prefetch_that_an_application_comes_for_moves_up_through_two_levels() {
    let order = Precedence::new(precedence::Config { onward_max: 0, ..precedence::Config::default() });
    let clients = || {
        let late = vec![read(0, 0, 1), read(3, 1, 1)];
        vec![late, vec![read(1, 100, 1)], vec![read(4, 200, 1), read(4, 300, 1)]]
    };
    let response_ms = |early, storage: Storage| {
        let mut upper = LevelConfig::new(20, Prefetch::Ra { degree: 1 });
        upper.join = false;
        let lower = LevelConfig { coordination: Coordination { early, ..Coordination::NONE }, ..plain(100) };
        let link = Link { alpha: Time::ZERO, beta: Time::ZERO, ..Link::PUBLISHED };
        let tally = run(Config { link, ..Config::two_levels(upper, lower) }, storage, clients());
        assert_eq!(tally.levels[0].stats.late, 1);
        tally.clients.iter().map(|client| (client.sum_ns() as f64 / 1e6).round() as u64).collect::<Vec<_>>()
    };
    // Block 0 until 5, 100 until 10, then 1, 200, 300; prefetches come last.
    assert_eq!(response_ms(true, constant(5).with_precedence(order)), [5 + 12, 9, 16 + 21]);
    // In order of arrival, neighbours merged: 0, 1 and 2, 100 and 101, 200 and 201, 300 and 301.
    assert_eq!(response_ms(true, constant(5)), [5 + 7, 14, 16 + 21]);
    // A level that does not distinguish prefetches treats each request as awaited.
    assert_eq!(response_ms(false, constant(5).with_precedence(order)), response_ms(false, constant(5)));
}

#[test]
fn a_request_that_comes_while_its_block_is_on_the_way_waits_for_it() {
    let trace = vec![read(0, 0, 1), read(4, 0, 1)];
    let tally = run(Config::two_levels(plain(10), plain(10)), constant(5), vec![trace]);
    assert_eq!(tally.storage.started, 1);
    assert_eq!(tally.levels[0].stats.late, 1);
    assert!((tally.reads.sum_ns() as f64 / 1e6 - (11.03 + 7.03)).abs() < 1e-9);
}

#[test]
fn clients_have_their_own_upper_level_and_share_the_lower() {
    let traces = vec![vec![read(0, 0, 1), read(50, 0, 1)], vec![read(20, 0, 1)]];
    let tally = run(Config::two_levels(plain(10), plain(10)), constant(5), traces);
    assert_eq!(tally.storage.started, 1);
    assert_eq!(tally.clients.len(), 2);
    assert!((tally.clients[1].mean_ms() - 6.03).abs() < 1e-9);
    assert_eq!(tally.levels[0].stats.hit, 1);
    assert_eq!(tally.levels[1].stats.hit, 1);
}

#[test]
fn writes_fill_the_levels_and_cost_nothing_in_the_foreground() {
    let trace = vec![Access { write: true, ..read(0, 3, 2) }, read(50, 3, 2), Access { write: true, ..read(60, 9, 1) }];
    let config = Config::two_levels(plain(10), plain(10));
    let tally = run(config.clone(), constant(5), vec![trace.clone()]);
    assert_eq!((tally.writes, tally.storage.started, tally.reads.max_ms()), (2, 0, 0.0));
    let background = Config { writes: Writes::Background, ..config.clone() };
    let tally = run(background, constant(5), vec![trace.clone()]);
    assert_eq!((tally.storage.started, tally.storage.writes), (2, 2));
    let dropped = Config { writes: Writes::Dropped, ..config };
    let tally = run(dropped, constant(5), vec![trace]);
    assert_eq!((tally.dropped_writes, tally.reads.count(), tally.storage.started), (2, 1, 1));
    assert!(tally.reads.mean_ms() > 11.0);
}

#[test]
fn three_levels_pass_a_request_down_and_its_answer_up() {
    let config = Config { shared: vec![plain(4), plain(16)], ..Config::two_levels(plain(1), plain(1)) };
    let trace = (0..8).map(|n| read(n * 40, n, 1)).chain((0..8).map(|n| read(1000 + n * 40, n, 1))).collect();
    let tally = run(config, constant(5), vec![trace]);
    assert_eq!(tally.storage.started, 8);
    let hits: Vec<_> = tally.levels.iter().map(|level| level.stats.hit).collect();
    assert_eq!(hits, [0, 0, 8]);
}

#[test]
fn a_world_without_a_lower_level_has_no_link() {
    let config = Config { shared: Vec::new(), ..Config::two_levels(plain(4), plain(1)) };
    let tally = run(config, constant(5), vec![vec![read(0, 0, 1)]]);
    assert!((tally.reads.mean_ms() - 5.0).abs() < 1e-9);
    assert_eq!(tally.link_replies, 0);
}

#[test]
fn a_world_that_has_fetched_more_often_than_16_bits_count_goes_on() {
    // All fetches use one position of the table, and their number exceeds 16 bits.
    let trace: Vec<_> = (0..70_000).map(|n| read(n * 20, n % 3000, 1)).collect();
    let config = Config::two_levels(plain(8), plain(16));
    let storage = constant(5);
    let placement = Placement::new(&[1 << 20], 8, storage.sectors());
    let mut world = World::new(config, storage, placement, vec![trace.into_iter()]).unwrap();
    world.run();
    assert_eq!(world.tally().storage.started, 70_000);
}

#[test]
fn inventories_are_sampled_until_the_world_ends() {
    let mut level = LevelConfig::new(1000, Prefetch::Live(live::Prefetch::Stream { degree_max: 48, distance: 24 }));
    level.per_stream = true;
    let mut config = Config { shared: Vec::new(), ..Config::two_levels(level, plain(1)) };
    config.sample_every = Some(Time::from_millis(100));
    let trace: Vec<_> = (0..100).map(|n| read(n * 10, n, 1)).collect();
    let placement = Placement::new(&[1 << 20], 8, 1 << 30);
    let mut world = World::new(config, constant(5), placement, vec![trace.into_iter()]).unwrap();
    world.run();
    let samples = world.samples();
    assert!((9..=12).contains(&samples.len()), "{}", samples.len());
    assert!(samples.iter().skip(2).all(|sample| sample.inventory > 0 && sample.level == 1));
}

/// Returns any of the policies, by number.
fn any_level(blocks: u32, prefetch: usize, coordination: usize, trigger: usize) -> LevelConfig {
    let mut level = LevelConfig::new(blocks, Prefetch::ALL[prefetch % Prefetch::ALL.len()]);
    let all = [
        Coordination::NONE,
        Coordination::LABELS,
        Coordination::PFC,
        Coordination::DU,
        Coordination { labels: Labels::Published, du: true, ..Coordination::PFC },
    ];
    level.coordination = all[coordination % all.len()];
    if level.prefetch.has_trigger_distance() {
        let share = Share::default();
        level.trigger = [Trigger::Native, Trigger::Ets(share), Trigger::Esf(share)][trigger % 3];
    }
    level
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_is_answered_and_every_invariant_holds_whatever_the_policies(
        runs in prop::collection::vec((0u64..3, 0u64..300, 1u64..30, 1u32..6, 0u64..30, any::<bool>()), 1..25),
        sizes in (1u32..120, 1u32..120),
        upper in (0usize..8, 0usize..5, 0usize..3),
        lower in (0usize..8, 0usize..5, 0usize..3),
        kind in 0..4,
        closed in any::<bool>(),
        clients in 1usize..3,
    ) {
        let mut accesses = vec![Vec::new(); clients];
        let mut at = 0;
        for (n, (file, start, count, len, gap, write)) in runs.into_iter().enumerate() {
            for k in 0..count {
                at += gap;
                let span = Span::new(file as u32, start + k * u64::from(len), len);
                let access = Access { at: Time(at * 300_000), span, stream: file as u32, file_blocks: 512, write: write && n % 4 == 0 };
                accesses[n % clients].push(access);
            }
        }
        let asked: usize = accesses.iter().map(Vec::len).sum();
        let disk = || Device::Disk(Box::new(Disk::new(&CHEETAH9LP)));
        let storage = match kind {
            0 => constant(2),
            1 => Storage::new(vec![disk()], Array::Single, Scheduler::Deadline(Default::default()), Merging::default()),
            2 => Storage::new(vec![disk()], Array::Single, Scheduler::Anticipatory(Default::default()), Merging::default()),
            _ => Storage::new(vec![disk(), disk(), disk()], Array::Raid5 { unit_sectors: 64 }, Scheduler::Noop, Merging::default()),
        };
        let mut config = Config::two_levels(
            any_level(sizes.0, upper.0, 0, upper.2),
            any_level(sizes.1, lower.0, lower.1, lower.2),
        );
        config.writes = Writes::Background;
        if closed {
            config.arrival = Arrival::Closed { think: Time::ZERO };
        }
        let tally = run(config, storage, accesses);
        prop_assert_eq!(tally.reads.count() + tally.writes, asked as u64);
        for level in &tally.levels {
            let stats = level.stats;
            prop_assert!(stats.prefetch_used + stats.prefetch_wasted <= stats.prefetched);
            prop_assert!(stats.hit + stats.late + stats.missed == stats.asked, "{stats:?}");
        }
    }
}
