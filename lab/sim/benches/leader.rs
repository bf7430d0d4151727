//! Cost of an event on the leader of a cluster: accesses into `policy::volume` with tiers and stripes on.
//!
//! `cargo bench -p entrepot-sim --bench leader`. A second of virtual time has as many events as a thousand nodes send; the machine looks,
//! plans, and its moves are made at once. Each line has the median of five runs, the fastest and the slowest, in
//! time in which this thread had a core.

use policy::FileId;
use policy::machine::Machine;
use policy::stripe::advice::Mode;
use policy::stripe::device::Measured;
use policy::stripe::{rules, striper};
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{self, Window};
use policy::tier::{Region, Tier};
use policy::time::Time;
use policy::volume::{Action, Config, Event, FileEvent, Lies, Outcome, StripesConfig, Verb, Volume};
use sim::generate::Rng;
use std::hint::black_box;
use std::time::Instant;

const RUNS: usize = 5;
/// Events of a run, and how many there are per second of virtual time.
const EVENTS: u64 = 1_000_000;
const EVENTS_PER_SECOND: u64 = 100_000;
/// Segments of one file.
const SEGMENTS: usize = 16;

fn config() -> Config {
    let cost = |rate: f64, latency_ns: f64| DeviceCost {
        read_latency_ns: latency_ns,
        write_latency_ns: latency_ns,
        ..DeviceCost::seconds_per_gb(1e9 / rate, 1e9 / rate)
    };
    let costs = Costs { fast: cost(2e9, 1e5), slow: cost(1.5e8, 8e6), fast_devices: 8, slow_devices: 64 };
    let tiers = machine::Config {
        window: Window::Span(Time::from_secs(1200)),
        block_bytes: 64 << 20,
        fast_bytes: 1 << 40,
        costs,
        keep_copies: false,
        copy_after: None,
        ..machine::Config::default()
    };
    let measured = Measured::disk(0.008, 0.008, 1.5e8, 1.5e8, 0.0002);
    let striper = striper::Config { forks: 2, ..striper::Config::new(Mode::Model, &measured, 64) };
    let rules = rules::parse(rules::ADAPTIVE).expect("the built-in rules");
    let stripes = StripesConfig { striper, rules, every: Time::from_secs(10) };
    Config { tiers: Some(tiers), stripes: Some(stripes), changes_max: 16, repairs: true, ..Config::default() }
}

/// Seconds that this thread has had a core; elapsed time where the kernel does not say.
fn worked_s() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = said.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    worked.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns / 1e9)
}

fn lie(volume: &mut Volume, now: Time, file: u64, segments: &[Tier]) {
    let lies = Lies { bytes: 1 << 30, segments: segments.to_vec(), ..Lies::default() };
    volume.handle(now, Event::File(FileId(file), FileEvent::LaidOut(lies)));
}

/// Nanoseconds per event.
fn run(files: u64) -> f64 {
    let (mut volume, mut rng) = (Volume::new(config(), Time::ZERO), Rng::new(1, 0));
    let mut lies = vec![[Tier::Slow; SEGMENTS]; files as usize];
    (0..).zip(&lies).for_each(|(file, segments)| lie(&mut volume, Time::ZERO, file, segments));
    let (began, mut moves) = (worked_s(), 0u64);
    for n in 0..EVENTS {
        let now = Time(n * 1_000_000_000 / EVENTS_PER_SECOND);
        let region = if rng.chance(0.3) { Region::Write } else { Region::Read };
        let event =
            FileEvent::Accessed { segment: rng.below(SEGMENTS as u64), region, bytes: 1 << 20, ends_request: true };
        volume.handle(now, Event::File(FileId(rng.small_below(files)), event));
        if volume.next_deadline().is_some_and(|at| at <= now) {
            volume.handle(now, Event::Tick);
        }
        while let Some(action) = volume.poll() {
            let Action::Change(change) = action else { continue };
            let mut result = Outcome::Failed;
            if let Verb::MoveSegment { segment, to } = change.verb {
                moves += 1;
                lies[change.file.0 as usize][segment as usize] = to;
                lie(&mut volume, now, change.file.0, &lies[change.file.0 as usize]);
                result = Outcome::Made { bytes: 64 << 20, took: Time::from_millis(50) };
            }
            volume.handle(now, Event::Done { ticket: change.ticket, result });
        }
    }
    black_box(moves);
    (worked_s() - began) * 1e9 / EVENTS as f64
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` measure nothing.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    // More files at rest than 16,384 are forgotten, and cost less.
    for files in [1000, 10_000] {
        let mut costs: Vec<f64> = (0..RUNS).map(|_| run(files)).collect();
        costs.sort_by(f64::total_cmp);
        println!("{files} files: {:.0} ns an event ({:.0} to {:.0})", costs[RUNS / 2], costs[0], costs[RUNS - 1]);
    }
}
