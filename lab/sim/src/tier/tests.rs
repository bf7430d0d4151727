//! Worlds with known results.

use super::*;
use crate::generate::{Skew, Skewed, SkewedShape};
use crate::trace::{Op, Record};
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{Config, Planner, Window};
use policy::tier::reorganize::Thresholds;

const BLOCK: u64 = 64 << 10;

fn setup(fast_bytes: u64) -> Setup {
    let arrivals = Arrivals::Closed { depth: 16, think: Time::ZERO };
    Setup {
        costs: Costs::default(),
        fast_bytes,
        fast_share_percent: 100,
        block_bytes: BLOCK,
        arrivals,
        warm_up: 0,
        free_moves: false,
        rest: None,
        before: Time::ZERO,
        old: None,
        slow_bytes: None,
        copies_free_percent: 5,
        page_cache: None,
        check: true,
    }
}

fn of(records: impl Iterator<Item = Record>) -> Requests {
    let mut requests = Requests::default();
    records.for_each(|record| requests.add(0, &record, BLOCK));
    requests
}

fn skewed(skew: Skew, requests: u64, write_share: f64) -> Requests {
    skewed_over(256 << 20, skew, requests, write_share)
}

fn skewed_over(footprint_bytes: u64, skew: Skew, requests: u64, write_share: f64) -> Requests {
    let shape = SkewedShape { skew, requests, write_share, footprint_bytes, ..SkewedShape::default() };
    of(Skewed::new(shape, 1))
}

fn machine(planner: Planner, setup: &Setup, requests: &Requests) -> Scheme {
    let window = Window::Requests(requests.len() as u64 / 10);
    let busy_bytes_per_s = 200_000_000;
    let (fast_bytes, block_bytes, idle) = (setup.fast_bytes, BLOCK, Time::ZERO);
    let config = Config { window, planner, fast_bytes, block_bytes, busy_bytes_per_s, idle, ..Config::default() };
    Scheme::Reorganized { config, proportional: false }
}

/// The model's own assumptions: one device of each tier, identical requests, all present at the start.
/// Time of `n` requests of `bytes` over one fast and one slow device in turn; `fast_ns_per_byte` is `l` of the paper.
fn round_robin_ns(n: f64, bytes: f64, gamma: f64, fast_ns_per_byte: f64) -> f64 {
    n * bytes * gamma * fast_ns_per_byte / 2.0
}

/// Time of the same requests with a proportional split.
fn proportional_ns(n: f64, bytes: f64, gamma: f64, fast_ns_per_byte: f64) -> f64 {
    n * bytes * gamma * fast_ns_per_byte / (gamma + 1.0)
}

/// Gain of the proportional split over round robin.
fn gain_of(gamma: f64) -> f64 {
    (gamma + 1.0) / 2.0
}

#[test]
fn the_gains_of_the_paper() {
    for (gamma, expected) in [(10.0, 5.5), (4.0, 2.5)] {
        let ratio = round_robin_ns(1e6, 65536.0, gamma, 0.1) / proportional_ns(1e6, 65536.0, gamma, 0.1);
        assert!((gain_of(gamma) - expected).abs() < 1e-12 && (ratio - expected).abs() < 1e-9);
    }
}

#[test]
fn the_gains_of_the_model_come_out() {
    for (write, gamma) in [(false, 10.0), (true, 4.0)] {
        let costs = Costs { fast_devices: 1, slow_devices: 1, ..Costs::default() };
        let op = if write { Op::Write } else { Op::Read };
        let records = (0..22_000).map(|n| Record { offset: n * BLOCK, length: BLOCK as u32, op, ..Record::default() });
        let requests = of(records);
        let arrivals = Arrivals::Closed { depth: 22_000, think: Time::ZERO };
        let setup = Setup { costs, arrivals, check: false, ..setup(u64::MAX / 2) };
        let plain = run(&setup, &Scheme::RoundRobin, &requests);
        let split = run(&setup, &Scheme::Proportional, &requests);
        let gain = plain.span_s / split.span_s;
        assert!((gain - gain_of(gamma)).abs() < 0.01, "{gain} for gamma {gamma}");
        let model = round_robin_ns(22_000.0, BLOCK as f64, gamma, if write { 0.5 } else { 0.1 }) / 1e9;
        assert!((plain.span_s / model - 1.0).abs() < 0.001, "{} s, the model says {model}", plain.span_s);
    }
}

#[test]
fn a_share_of_the_fast_devices_limits_the_tier_and_not_each_device() {
    // Twenty blocks, written and read once: with room for four, the tier takes four, and nothing moves before an idle hour.
    let record = |n: u64, op| Record { offset: n * BLOCK, length: BLOCK as u32, op, ..Record::default() };
    let records = [Op::Write, Op::Read].into_iter().flat_map(|op| (0..20).map(move |n| record(n, op)));
    let requests = of(records);
    let costs = Costs { fast_devices: 2, slow_devices: 2, ..Costs::default() };
    for (fast_share_percent, device_blocks) in [(100, 2), (50, 4), (10, 20)] {
        let setup = Setup { costs, fast_share_percent, warm_up: 20, ..setup(4 * BLOCK) };
        let (idle, fast_bytes) = (Time::from_secs(3600), 4 * BLOCK);
        let config = Config { planner: Planner::Frequency, fast_bytes, block_bytes: BLOCK, idle, ..Config::default() };
        let scheme = Scheme::Reorganized { config, proportional: false };
        let room: Vec<u64> = setup.volume(&scheme).targets[..2].iter().map(|target| target.bytes / BLOCK).collect();
        assert_eq!(room, [device_blocks; 2], "{fast_share_percent} %");
        let figures = run(&setup, &scheme, &requests);
        assert_eq!((figures.fast_share, figures.promoted), (0.2, 0), "{fast_share_percent} %");
    }
}

#[test]
fn every_scheme_serves_every_request_and_keeps_its_accounts() {
    for (skew, writes) in [(Skew::Zipf { theta: 1.0 }, 0.3), (Skew::HotSpot { spot: 0.05, shift: 900 }, 0.0)] {
        let requests = skewed_over(8 << 20, skew, 3_000, writes);
        let setup = setup(1 << 20);
        let ws_ros = Planner::WsRos(Thresholds { free_bytes: 128 << 10, ..Thresholds::default() });
        let mut schemes = vec![
            Scheme::SlowOnly,
            Scheme::FastOnly,
            Scheme::RoundRobin,
            Scheme::Proportional,
            Scheme::Lru { around: false },
            Scheme::Lru { around: true },
            Scheme::Optimum { window: 300 },
        ];
        let planners = [ws_ros, Planner::Frequency, Planner::Tuned];
        schemes.extend(planners.map(|planner| machine(planner, &setup, &requests)));
        for scheme in schemes {
            let one = run(&setup, &scheme, &requests);
            assert_eq!(one.requests, 3_000, "{scheme:?}");
            assert_eq!(one, run(&setup, &scheme, &requests), "the same input, the same figures");
        }
    }
}

#[test]
fn hot_data_move_up_and_pay() {
    let requests = skewed(Skew::Zipf { theta: 1.0 }, 60_000, 0.0);
    let setup = Setup { check: false, ..setup(64 << 20) };
    let plain = run(&setup, &Scheme::RoundRobin, &requests);
    for planner in [Planner::WsRos(Thresholds { free_bytes: 8 << 20, ..Thresholds::default() }), Planner::Tuned] {
        let moved = run(&setup, &machine(planner, &setup, &requests), &requests);
        assert!(moved.promoted > 50, "{moved:?}");
        assert!(moved.fast_share > plain.fast_share, "{planner:?}");
        assert!(moved.span_s < plain.span_s, "{planner:?}: {} and {}", moved.span_s, plain.span_s);
    }
}

#[test]
fn a_scan_moves_nothing_under_the_tuned_planner() {
    let requests = skewed(Skew::Scan, 20_000, 0.0);
    let setup = Setup { check: false, ..setup(32 << 20) };
    let tuned = run(&setup, &machine(Planner::Tuned, &setup, &requests), &requests);
    assert!(tuned.promoted + tuned.demoted < 20, "{tuned:?}");
}

#[test]
fn open_arrivals_keep_their_times() {
    let device = DeviceCost { read_latency_ns: 1e6, ..DeviceCost::seconds_per_gb(0.0, 0.0) };
    let costs = Costs { fast: device, slow: device, ..Costs::default() };
    let records =
        (0..100).map(|n| Record { time_ns: n * 10_000_000, offset: n * BLOCK, length: 512, ..Record::default() });
    let requests = of(records);
    let setup = Setup { costs, arrivals: Arrivals::Open { speed: 2.0 }, ..setup(u64::MAX / 2) };
    let out = run(&setup, &Scheme::RoundRobin, &requests);
    assert!((out.span_s - 0.496).abs() < 1e-9 && (out.mean_ms - 1.0).abs() < 1e-9, "{out:?}");
}

/// Two clients over one slow and one fast device of 10 and 1 ms. The second writes, thinks 2 ms and reads.
#[test]
fn clients_that_think_wait_for_reads_and_old_data_lie_by_another_scheme() {
    let device = |ms: f64| DeviceCost { read_latency_ns: ms * 1e6, write_latency_ns: ms * 1e6, ..free() };
    let costs = Costs { fast: device(1.0), slow: device(10.0), fast_devices: 1, slow_devices: 1 };
    let record = |block: u64, op| Record { offset: block * BLOCK, length: 512, op, ..Record::default() };
    let requests = [(0, Op::Read), (2, Op::Write), (1, Op::Read), (3, Op::Read)].map(|(at, op)| record(at, op));
    let ms = Time::from_millis;
    let clients = [vec![(ms(5), 0), (ms(6), 3)], vec![(ms(1), 1), (ms(3), 2)]];
    let requests = of(requests.into_iter()).with_clients(&clients);
    let setup = Setup {
        costs,
        arrivals: Arrivals::Thinking,
        before: Time(1),
        old: Some(Scheme::SlowOnly),
        ..setup(u64::MAX / 2)
    };
    // The write goes to the fast device at 1 ms. The reads come at 3, 5 and, 1 ms after the answer to the first, 24.
    let took = responses(&setup, &Scheme::FastOnly, &requests);
    assert_eq!(took, [ms(18), ms(1), ms(10), ms(10)]);
}

/// A device without cost per byte.
fn free() -> DeviceCost {
    DeviceCost::seconds_per_gb(0.0, 0.0)
}

/// A scheme that keeps copies and never moves data.
fn keeping(setup: &Setup, copy_after: Option<Time>) -> Scheme {
    let (fast_bytes, block_bytes, idle) = (setup.fast_bytes, BLOCK, Time::ZERO);
    let (keep_copies, busy_bytes_per_s) = (true, 0);
    let config =
        Config { fast_bytes, block_bytes, idle, keep_copies, copy_after, busy_bytes_per_s, ..Config::default() };
    Scheme::Reorganized { config, proportional: false }
}

#[test]
fn what_was_there_before_is_copied_down_in_the_time_that_there_is_and_costs_device_time() {
    let records = (0..64).map(|n| Record { offset: n * BLOCK, length: BLOCK as u32, ..Record::default() });
    let requests = of(records);
    let now = Some(Time::ZERO);
    let long = Setup { before: Time::from_secs(60), ..setup(u64::MAX / 2) };
    let all = run(&long, &keeping(&long, now), &requests);
    assert_eq!((all.copied, all.copies_mib), (32, 2.0), "half of it lies on the fast tier");
    let none = run(&long, &keeping(&long, None), &requests);
    assert_eq!((none.copied, none.span_s), (0, all.span_s), "nobody waited for the copies");
    // One at a time: read from an SSD, written to a disk.
    let each_ns = (0.1 + 2.0) * BLOCK as f64;
    let short = Setup { before: Time((each_ns * 10.5) as u64), ..long };
    let some = run(&short, &keeping(&short, now), &requests);
    assert_eq!(some.copied, 11, "ten before the first request, and one that was under way");
    // Four slow devices with the size of their data plus two blocks have space for two blocks each; five percent of
    // each, half a block, stay free.
    let full = Setup { slow_bytes: Some(40 * BLOCK), copies_free_percent: 0, ..long };
    assert_eq!(run(&full, &keeping(&full, now), &requests).copied, 8);
    let reserve = Setup { copies_free_percent: 5, ..full };
    assert_eq!(run(&reserve, &keeping(&reserve, now), &requests).copied, 4);
    // Free moves take no time.
    let free = Setup { free_moves: true, before: Time(1), ..long };
    assert_eq!(run(&free, &keeping(&free, now), &requests).copied, 32);
}

#[test]
fn copies_under_writes_keep_their_accounts_and_are_made_when_clients_pause() {
    let requests = skewed_over(64 << 20, Skew::Zipf { theta: 1.0 }, 4_000, 0.3);
    let arrivals = Arrivals::Closed { depth: 2, think: Time::from_millis(1) };
    let (before, slow_bytes) = (Time::from_millis(20), Some(48 << 20));
    let setup = Setup { arrivals, before, slow_bytes, ..setup(8 << 20) };
    for copy_after in [Time::ZERO, Time::from_millis(300)] {
        let scheme = keeping(&setup, Some(copy_after));
        let one = run(&setup, &scheme, &requests);
        assert!(one.copied > 50 && one.copies_mib <= 8.0, "{one:?}");
        assert_eq!(one, run(&setup, &scheme, &requests), "the same input, the same figures");
    }
}

/// Four devices of one speed, one client, and objects of four blocks. Reads are of random whole blocks. A quarter of
/// them begin an object. An eighth follow the previous read in their object and have a block behind them.
#[test]
fn a_page_cache_reads_ahead_at_the_device_s_cost_and_answers_what_it_holds() {
    let device = DeviceCost::seconds_per_gb(1.0, 1.0);
    let costs = Costs { fast: device, slow: device, fast_devices: 2, slow_devices: 2 };
    let requests = skewed(Skew::HotSpot { spot: 1.0, shift: u64::MAX }, 4_000, 0.0);
    let arrivals = Arrivals::Closed { depth: 1, think: Time::ZERO };
    let plain = Setup { costs, arrivals, check: false, ..setup(u64::MAX / 2) };
    let cache = PageCacheSetup { bytes: 1 << 20, read_ahead_bytes: 0, segment_bytes: 16 * BLOCK, width: 4 };
    let busy = |cache: Option<PageCacheSetup>| {
        let of = run(&Setup { page_cache: cache, ..plain }, &Scheme::RoundRobin, &requests);
        assert_eq!(of.requests, 4_000);
        (of.fast_busy + of.slow_busy) * of.span_s
    };
    let none = busy(None);
    let held = busy(Some(cache)) / none;
    assert!((0.99..=1.0).contains(&held), "1 of 256 MiB: {held}");
    let ahead = busy(Some(PageCacheSetup { read_ahead_bytes: BLOCK, ..cache })) / none;
    assert!((1.3..1.45).contains(&ahead), "three eighths are read ahead of: {ahead}");
    let all = busy(Some(PageCacheSetup { bytes: 512 << 20, ..cache })) / none;
    assert!((0.5..0.75).contains(&all), "each block is read once: {all}");
}

/// Segments of 1 MiB on disks of 20 MB/s, which take 52 ms to read, and a client that requests 64 KiB every 60 ms.
/// Devices count as idle after 50 ms.
#[test]
fn a_request_waits_for_a_step_of_a_move_and_not_for_all_of_it() {
    let device = |read: f64, write: f64| DeviceCost::seconds_per_gb(1000.0 / read, 1000.0 / write);
    let costs = Costs { fast: device(200.0, 40.0), slow: device(20.0, 10.0), fast_devices: 1, slow_devices: 1 };
    let segment = 16 * BLOCK;
    let arrivals = Arrivals::Closed { depth: 1, think: Time::from_millis(60) };
    let setup = Setup { costs, arrivals, block_bytes: segment, ..setup(32 * segment) };
    let mut requests = Requests::default();
    let shape = SkewedShape {
        skew: Skew::HotSpot { spot: 0.1, shift: 1000 },
        requests: 4_000,
        footprint_bytes: 128 << 20,
        ..SkewedShape::default()
    };
    Skewed::new(shape, 1).for_each(|record| requests.add(0, &record, segment));
    let moving = |costs| {
        let planner = Planner::WsRos(Thresholds { free_bytes: 4 * segment, ..Thresholds::default() });
        let Scheme::Reorganized { config, .. } = machine(planner, &setup, &requests) else { unreachable!() };
        let idle = Time::from_millis(50);
        let config = Config { busy_bytes_per_s: 0, block_bytes: segment, idle, costs, ..config };
        let of = run(&setup, &Scheme::Reorganized { config, proportional: false }, &requests);
        assert!(of.promoted > 20 && of.failed == 0, "{of:?}");
        of.mean_ms
    };
    let still = run(&setup, &Scheme::RoundRobin, &requests).mean_ms;
    // With default costs the machine assumes faster disks, so it moves a segment in one step.
    let (whole, stepwise) = (moving(Costs::default()), moving(costs));
    assert!(whole > 1.25 * still, "{whole} and {still} ms");
    assert!(stepwise < 1.1 * still, "{stepwise} and {still} ms");
}
