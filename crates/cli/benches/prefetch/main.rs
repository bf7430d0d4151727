//! Rate-aware trigger distances against fixed ones, live and simulated, on the paper's video streams and copies:
//! `make bench-prefetch` (Zhang, section 2.6, figures 2.7 and 2.9).
//!
//! Live: a volume with a block cache, its one target on an emulated RAID-5 of six Cheetah 9LP, read by threads that
//! replay the generated workload. Simulated: the same requests, levels, sizes and disks in virtual time. Policies take
//! turns, so that a machine whose speed drifts drifts for all of them. Needs root or `fusermount3`, and /dev/fuse.
//!
//! `ENTREPOT_PREFETCH_SECONDS` (20) is the length of a run, `_STREAMS` (8,16,24,32) the numbers of video streams,
//! `_BLOCKS` (128) the cache's blocks per stream, `_ROUNDS` (1) the runs of each, `_SEED` (1); `_LIVE=0` leaves the
//! live runs out.

mod live;
#[path = "../machine/mod.rs"]
mod machine;
mod simulated;
mod workload;

use machine::Machine;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use workload::Workload;

/// A policy: its name in the table, its prefetcher, its trigger.
pub struct Policy {
    /// In the table.
    pub name: &'static str,
    /// In the words of `[cache]`.
    pub prefetch: &'static str,
    /// Trigger in the words of `[cache]`.
    pub trigger: &'static str,
}

/// The published baselines, trigger distance-degree, and ETS.
const POLICIES: [Policy; 3] = [
    Policy { name: "32-32", prefetch: "stream:degree_max=32,distance=32", trigger: "native" },
    Policy { name: "24-48", prefetch: "stream:degree_max=48", trigger: "fixed:24" },
    Policy { name: "ETS", prefetch: "stream:degree_max=48", trigger: "ets" },
];

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// 10^6 bytes per second that the streams read, each and together.
    pub streams_mb_s: Vec<f64>,
    /// The sum of these.
    pub mb_s: f64,
    /// Mean response time of a request.
    pub response_ms: f64,
    /// Share of the blocks asked for that were resident.
    pub hit_ratio: f64,
    /// Share of the prefetched blocks that were on the way when asked for.
    pub late: f64,
    /// Share of the prefetched blocks that went without being asked for.
    pub wasted: f64,
    /// Prefetched and not asked for yet, mean over the run, per stream; not sampled by the simulator.
    pub ahead_kib: Option<f64>,
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` must not start minutes of I/O.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let seconds = number("SECONDS", 20);
    let blocks = number("BLOCKS", 128);
    let rounds: u64 = number("ROUNDS", 1);
    let seed = number("SEED", 1);
    let list = std::env::var("ENTREPOT_PREFETCH_STREAMS").unwrap_or_else(|_| "8,16,24,32".into());
    let streams: Vec<u32> = list.split(',').map(|n| parsed("STREAMS", n)).collect();
    let base = std::env::var_os("ENTREPOT_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let workloads = streams
        .iter()
        .map(|&n| Workload::vod(n, seconds, seed))
        .chain([Workload::copies(seconds, seed)])
        .collect::<Vec<_>>();
    let mut worlds =
        vec![("simulated", workloads.iter().map(|w| runs(rounds.min(1), |p| simulated::run(w, p, blocks))).collect())];
    if number("LIVE", 1) == 1 {
        let rig = live::Rig::start(&base, &workloads);
        let machine = Machine::start();
        let results = workloads.iter().map(|w| runs(rounds, |p| rig.run(w, p, blocks))).collect::<Vec<_>>();
        worlds.extend(machine.allows("the live runs").then_some(("live", results)));
    }
    println!("{seconds} s a run, {blocks} blocks of cache per stream, {rounds} live rounds, seed {seed}");
    for (world, results) in worlds {
        print(world, &workloads, &results);
    }
}

/// Each policy in turn, so many rounds; the mean of each.
fn runs(rounds: u64, run: impl Fn(&Policy) -> Figures) -> Vec<Figures> {
    let mut all: Vec<Vec<Figures>> = POLICIES.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (policy, of_policy) in POLICIES.iter().zip(&mut all) {
            let figures = run(policy);
            eprintln!("  {}: {:.1} MB/s", policy.name, figures.mb_s);
            of_policy.push(figures);
        }
    }
    all.iter().map(|runs| mean(runs)).collect()
}

fn mean(runs: &[Figures]) -> Figures {
    let of = |what: &dyn Fn(&Figures) -> f64| runs.iter().map(what).sum::<f64>() / runs.len().max(1) as f64;
    let Some(first) = runs.first() else { return Figures::default() };
    Figures {
        streams_mb_s: (0..first.streams_mb_s.len()).map(|n| of(&|f| f.streams_mb_s[n])).collect(),
        mb_s: of(&|f| f.mb_s),
        response_ms: of(&|f| f.response_ms),
        hit_ratio: of(&|f| f.hit_ratio),
        late: of(&|f| f.late),
        wasted: of(&|f| f.wasted),
        ahead_kib: first.ahead_kib.map(|_| of(&|f| f.ahead_kib.unwrap_or_default())),
    }
}

fn print(world: &str, workloads: &[Workload], results: &[Vec<Figures>]) {
    println!(
        "\n{world}\nworkload     policy   MB/s  response    hit   late  wasted  ahead/stream  against 32-32  24-48"
    );
    let mut gains = Vec::new();
    let mut rows = Vec::new();
    for (workload, figures) in workloads.iter().zip(results) {
        let gain = |of: &Figures, against: usize| (of.mb_s / figures[against].mb_s - 1.0) * 100.0;
        for (policy, of) in POLICIES.iter().zip(figures) {
            let ahead = of.ahead_kib.map_or("-".into(), |kib| format!("{kib:.0} KiB"));
            println!(
                "{:<12} {:<7} {:>5.1} {:>6.1} ms {:>5.1}% {:>5.1}% {:>6.1}% {:>13} {:>+13.1}% {:>+5.1}%",
                workload.name,
                policy.name,
                of.mb_s,
                of.response_ms,
                of.hit_ratio * 100.0,
                of.late * 100.0,
                of.wasted * 100.0,
                ahead,
                gain(of, 0),
                gain(of, 1),
            );
        }
        if workload.is_saturated(&figures[0]) && !workload.copies {
            gains.push((gain(&figures[2], 0), gain(&figures[2], 1)));
        }
        if workload.copies {
            let first = |of: &Figures| of.streams_mb_s[0];
            let local = |against: usize| (first(&figures[2]) / first(&figures[against]) - 1.0) * 100.0;
            rows.push(("copies, together", gain(&figures[2], 0), gain(&figures[2], 1), 33.3));
            rows.push(("copy to a local disk", local(0), local(1), 39.0));
        }
    }
    if gains.is_empty() {
        println!("video: the disks were never saturated");
    } else {
        let of = |pick: &dyn Fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = gains.iter().map(pick).collect();
            (values.iter().sum::<f64>() / values.len() as f64, values.into_iter().fold(f64::MIN, f64::max))
        };
        let ((mean, peak), (mean_24, peak_24)) = (of(&|gain| gain.0), of(&|gain| gain.1));
        rows.push(("video above saturation, mean", mean, mean_24, 20.1));
        rows.push(("video above saturation, peak", peak, peak_24, 55.0));
    }
    println!("\n| ETS, {world}, against | 32-32 | 24-48 | published |\n|---|---|---|---|");
    for (name, against_32, against_24, published) in rows {
        println!("| {name} | {against_32:+.1} % | {against_24:+.1} % | {published:+.1} % |");
    }
}

fn number<T: FromStr + Display>(name: &str, default: T) -> T {
    match std::env::var(format!("ENTREPOT_PREFETCH_{name}")) {
        Ok(text) => parsed(name, &text),
        Err(_) => default,
    }
}

fn parsed<T: FromStr>(name: &str, text: &str) -> T {
    text.trim().parse().unwrap_or_else(|_| panic!("ENTREPOT_PREFETCH_{name}={text} is no number"))
}
