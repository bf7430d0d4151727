//! Allocations of a replay: none per request once its tables have grown, and no more for a long trace than for a short
//! one.
//!
//! The allocator of this test binary counts, thread by thread.

use policy::cache::{Request, Span};
use policy::coordinate::Coordination;
use policy::prefetch::{self as live, Algorithm, Trigger};
use policy::time::Time;
use sim::block::{Deadline, Merging, Scheduler};
use sim::disk::{Disk, model::CHEETAH9LP};
use sim::generate::{Mixed, Rng, oltp_like};
use sim::prefetch::{Level, LevelConfig, Prefetch};
use sim::storage::{Array, Device, Storage};
use sim::world::{Access, Arrival, Config, Placement, World};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn count(calls: u64, bytes: i64) {
    // A thread that ends may free after its counters are gone; its counts are not needed.
    let _ = CALLS.try_with(|count| count.set(count.get() + calls));
    let live = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        live.get()
    });
    let _ = live.map(|live| PEAK.try_with(|peak| peak.set(peak.get().max(live))));
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn calls() -> u64 {
    CALLS.with(Cell::get)
}

/// Most bytes that `run` held at once beyond what was held before.
fn peak(run: impl FnOnce()) -> i64 {
    let before = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    run();
    PEAK.with(Cell::get) - before
}

/// A level of `capacity` blocks after `requests` of one block each, spread over five times as many; how often `from` and later ones allocated.
fn one_level(capacity: u32, requests: u64, from: u64) -> u64 {
    let mut level = Level::new(LevelConfig::new(capacity, Prefetch::NONE)).unwrap();
    let mut rng = Rng::new(1, 0);
    let mut before = 0;
    for number in 0..requests {
        if number == from {
            before = calls();
        }
        let block = (rng.unit() * f64::from(capacity) * 5.0) as u64;
        let span = Span::new(0, block, 1);
        level.foresee(&[span.first]);
        level.replay(Time(number), &Request::read(number, span));
    }
    assert!(level.stats().evicted > requests / 2);
    calls() - before
}

#[test]
fn one_level_allocates_nothing_once_it_is_full() {
    assert_eq!(one_level(10_000, 200_000, 30_000), 0);
}

/// Requests that note how often anything was allocated until two of them.
struct Noted<I> {
    requests: I,
    given: u64,
    /// Request numbers, and the counts when they were given out.
    marks: [(u64, u64); 2],
}

impl<I: Iterator<Item = Access>> Iterator for Noted<I> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        for (number, seen) in &mut self.marks {
            if *number == self.given {
                *seen = calls();
            }
        }
        self.given += 1;
        self.requests.next()
    }
}

/// How often two levels over a disk allocated when the same requests came a second time, and how many tenths of a second passed.
fn two_levels(prefetch: Prefetch, trigger: Trigger, coordination: Coordination, requests: u64) -> (u64, u64) {
    let access = |record: sim::trace::Record| Access {
        at: Time(record.time_ns),
        span: Span::new(0, record.offset / 4096, record.length.div_ceil(4096)),
        stream: (record.offset >> 24) as u32,
        file_blocks: u64::MAX,
        write: record.op == sim::trace::Op::Write,
    };
    let accesses: Vec<Access> = Mixed::new(oltp_like().scaled(0.1), 1).map(access).take(requests as usize).collect();
    assert_eq!(accesses.len() as u64, requests);
    let source = Noted {
        requests: accesses.iter().copied().chain(accesses.iter().copied()),
        given: 0,
        marks: [(requests, 0), (2 * requests - 1, 0)],
    };
    let mut lower = LevelConfig::new(2708, prefetch);
    lower.trigger = trigger;
    lower.coordination = coordination;
    let mut config = Config::two_levels(LevelConfig::new(1354, prefetch), lower);
    config.arrival = Arrival::Closed { think: Time::ZERO };
    let disk = Device::Disk(Box::new(Disk::new(&CHEETAH9LP)));
    let storage = Storage::new(vec![disk], Array::Single, Scheduler::Deadline(Deadline::default()), Merging::default());
    let placement = Placement::new(&[1 << 20], 8, storage.sectors());
    let mut world = World::new(config, storage, placement, vec![source]).unwrap();
    world.run();
    let marks = world.sources().next().unwrap().marks;
    assert!(marks[1].1 > 0, "the trace was too short");
    (marks[1].1 - marks[0].1, world.tally().end.0 / 100_000_000)
}

#[test]
fn two_levels_over_a_disk_allocate_nothing_per_request() {
    let stream = Prefetch::Live(live::Prefetch::Stream { degree_max: 48, distance: 24 });
    let cases = [
        (Prefetch::Ra { degree: 4 }, Trigger::Native, Coordination::LABELS),
        (Prefetch::LinuxSimple { min: 3, max: 32, incl_demand: false }, Trigger::Native, Coordination::PFC),
        (Prefetch::Linux2618 { min: 4, max: 32 }, Trigger::Native, Coordination::NONE),
        (Prefetch::Live(live::Prefetch::OnDemand { max: 32 }), Trigger::Native, Coordination::NONE),
        (Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 }, Trigger::Native, Coordination::DU),
        (Prefetch::Amp { apt: 4, degree_max: 256, run: 1 }, Trigger::Native, Coordination::PFC),
        (Prefetch::Amp { apt: 4, degree_max: 256, run: 1 }, Trigger::Native, Coordination::ADAPTIVE),
        (stream, policy::words::trigger("ets").unwrap(), Coordination::NONE),
        (stream, policy::words::trigger("esf").unwrap(), Coordination::NONE),
    ];
    for (prefetch, trigger, coordination) in cases {
        let (calls, samples) = two_levels(prefetch, trigger, coordination, 20_000);
        // A table doubles at a new maximum of concurrent requests, and the rate-aware triggers recompute shares ten
        // times per simulated second: neither depends on the number of requests.
        let shared_out = if trigger == Trigger::Native { 0 } else { 4 * samples };
        assert!(calls <= 8 + shared_out, "{calls} allocations: {}, {trigger:?}, {coordination:?}", prefetch.name());
    }
}

#[test]
fn memory_grows_with_the_cache_and_not_with_the_trace() {
    let short = peak(|| {
        one_level(20_000, 100_000, 0);
    });
    let long = peak(|| {
        one_level(20_000, 800_000, 0);
    });
    let large = peak(|| {
        one_level(80_000, 800_000, 0);
    });
    assert_eq!(short, long, "bytes for a trace and for one eight times as long");
    assert!((3 * short..=5 * short).contains(&large), "{large} bytes for four times the cache of {short}");
    assert!(short < 20_000 * 64, "{short} bytes for 20 000 blocks");
}
