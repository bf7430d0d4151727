//! How fast the simulator replays: one LRU level without a device, and two levels with prefetching over a disk.
//!
//! `cargo bench -p entrepot-sim --bench replay`. Each line is the median of five runs in this process; the requests are made before
//! the clock starts for the first, and while it runs for the second, as they are when a trace is replayed. With `ENTREPOT_BENCH_PYTHON`, an
//! interpreter that has the package libcachesim (`make bench-sim` sees to it), libCacheSim replays the same requests between our runs.

mod peer;

use peer::{FORMATS, Peer};
use policy::cache::{Block, Span};
use policy::coordinate::Coordination;
use policy::precedence::Class;
use policy::time::Time;
use sim::block::{Choice, Deadline, Io, Merging, Queue, Scheduler};
use sim::disk::{Disk, model::CHEETAH9LP};
use sim::generate::{Mixed, Rng, oltp_like};
use sim::prefetch::{Level, LevelConfig, Prefetch};
use sim::replacement::{Policy, Sequence, Tally};
use sim::storage::{Array, Device, Storage};
use sim::trace::{Format, Options, open};
use sim::world::{Access, Arrival, Config, Placement, World};
use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

const RUNS: usize = 5;

/// Blocks of the single level.
const CAPACITY: u32 = 100_000;

fn main() {
    one_level();
    two_levels();
    long_queues();
}

/// One LRU level: requests in memory, and files with libCacheSim in turn if it can be had.
fn one_level() {
    let blocks = zipf(4_000_000);
    let mut hits = 0;
    report("one LRU level, no device, Zipf 1.0", blocks.len(), || {
        hits = lru(&blocks);
        hits
    });
    let Some(peer) = Peer::found(&blocks, CAPACITY) else {
        println!("libCacheSim is not at hand (ENTREPOT_BENCH_PYTHON, see `make bench-sim`): nothing to compare with");
        return;
    };
    let misses = 1.0 - hits as f64 / blocks.len() as f64;
    for (format, name) in FORMATS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let start = worked_s();
            let tally = read(&peer.trace(name), format);
            ours.push(blocks.len() as f64 / (worked_s() - start) / 1e6);
            assert_eq!(tally.hits, hits, "hits of {name}");
            let Some((seen, rate)) = peer.run(name) else { return };
            assert!((seen - misses).abs() < 1e-9, "libCacheSim misses {seen} of the requests, we {misses}");
            theirs.push(rate);
        }
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        show(&format!("{name}, read and replayed"), ours);
        show("libCacheSim, the same file", theirs);
        println!("same miss ratio, {misses:.6}; ours is {:.2} times as fast", ours / theirs);
    }
}

/// Reads a trace and replays it through an LRU, as `sim replacement` does.
fn read(path: &Path, format: Format) -> Tally {
    let options = Options { format: Some(format), ..Options::default() };
    let reader = open(path, &options).expect("the file is there");
    let (sequence, _) = Sequence::read([reader], 4096, None, false).expect("its accounts close");
    Policy::Lru.tally(&sequence, CAPACITY as usize)
}

fn two_levels() {
    let accesses = accesses();
    let kinds = [
        ("linux", Prefetch::LinuxSimple { min: 3, max: 32, incl_demand: false }),
        ("amp", Prefetch::Amp { apt: 4, degree_max: 256, run: 1 }),
        ("sarc", Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 }),
    ];
    for (name, prefetch) in kinds {
        for (with, coordination) in [("", Coordination::NONE), (", PFC", Coordination::PFC)] {
            let label = format!("two levels, {name}{with}, Cheetah 9LP");
            report(&label, accesses.len(), || hierarchy(&accesses, prefetch, coordination));
        }
    }
}

/// Requests that all wait at once: the rates are alike, whatever their number.
fn long_queues() {
    for waiting in [20_000, 160_000] {
        report(&format!("block layer, {waiting} waiting"), waiting as usize, || queue(waiting));
    }
}

fn queue(waiting: u64) -> u64 {
    let mut queue = Queue::new(Scheduler::Deadline(Deadline::default()), Merging::default());
    let mut rng = Rng::new(1, 0);
    for tag in 0..waiting {
        let sector = (rng.unit() * 1e9) as u64 * 8;
        queue.submit(Time(tag), Io { sector, count: 8, write: false, owner: 0, class: Class::Awaited }, tag);
    }
    let (mut now, mut done) = (Time(waiting), 0);
    while let Choice::Start(slot, _) = queue.choose(now) {
        now = now + Time(5_000_000);
        queue.completed(now, slot, |_| done += 1);
    }
    done
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn show(label: &str, rate: f64) {
    println!("{label:<40} {rate:8.2} million requests/s of one core");
}

/// Run `subject` and print the median rate of `requests`.
fn report(label: &str, requests: usize, mut subject: impl FnMut() -> u64) {
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = worked_s();
            black_box(subject());
            requests as f64 / (worked_s() - start) / 1e6
        })
        .collect();
    show(label, median(&mut rates));
}

/// Seconds that this thread has had a core: other load on the machine does not count. Elapsed time where the kernel does not say.
fn worked_s() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = said.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    worked.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Block numbers of which the n-th is drawn in proportion to 1/n, scattered over the address space.
fn zipf(count: usize) -> Vec<Block> {
    const OBJECTS: u64 = 1 << 20;
    let mut rng = Rng::new(1, 0);
    let top = (OBJECTS as f64).ln();
    let draw = |rng: &mut Rng| ((rng.unit() * top).exp() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..count).map(|_| Block::new(0, draw(&mut rng))).collect()
}

fn lru(blocks: &[Block]) -> u64 {
    let mut level = Level::new(LevelConfig::new(CAPACITY, Prefetch::NONE)).expect("a plain level");
    for group in blocks.chunks(1024) {
        level.replay_blocks(Time::ZERO, group);
    }
    level.stats().hit
}

/// The OLTP-like workload, a tenth of its data.
fn accesses() -> Vec<Access> {
    let access = |record: sim::trace::Record| Access {
        at: Time(record.time_ns),
        span: Span::new(0, record.offset / 4096, record.length.div_ceil(4096)),
        stream: 0,
        file_blocks: u64::MAX,
        write: false,
    };
    Mixed::new(oltp_like().scaled(0.1), 1).map(access).collect()
}

fn hierarchy(accesses: &[Access], prefetch: Prefetch, coordination: Coordination) -> u64 {
    let upper = LevelConfig::new(1354, prefetch);
    let mut lower = LevelConfig::new(2708, prefetch);
    lower.coordination = coordination;
    let mut config = Config::two_levels(upper, lower);
    config.arrival = Arrival::Closed { think: Time::ZERO };
    let disk = Device::Disk(Box::new(Disk::new(&CHEETAH9LP)));
    let storage = Storage::new(vec![disk], Array::Single, Scheduler::Deadline(Deadline::default()), Merging::default());
    let placement = Placement::new(&[1 << 20], 8, storage.sectors());
    let mut world = World::new(config, storage, placement, vec![accesses.iter().copied()]).expect("a plain world");
    world.run();
    world.tally().reads.count()
}
