//! How fast the simulated centre is: jobs per second of one core through FCFS and EASY backfilling.
//!
//! `cargo bench -p entrepot-sim --bench center [-- LOG.swf.gz ...]`. Drawn logs always; real ones if they are named, or found in
//! `$ENTREPOT_DATA/swf`. Each line is the median of five runs and counts the time in which this thread had a core.

use policy::time::Time;
use sim::center::log::{self, Census, Job, Log, Rules};
use sim::center::{Setup, simulate};
use sim::generate::Rng;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

const RUNS: usize = 5;

fn main() {
    for load in [0.5, 0.7, 0.9] {
        report(&format!("drawn, 1024 processors, load {load}"), &drawn(300_000, 1024, load));
    }
    let named: Vec<PathBuf> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).map(PathBuf::from).collect();
    let found = || {
        let root = std::env::var_os("ENTREPOT_DATA").map(PathBuf::from)?;
        let list = std::fs::read_dir(root.join("swf")).ok()?;
        let mut paths: Vec<PathBuf> = list.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
        paths.sort();
        Some(paths)
    };
    for path in if named.is_empty() { found().unwrap_or_default() } else { named } {
        real(&path);
    }
}

fn real(path: &Path) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let rules = Rules { malformed: "skip", ..Rules::default() };
    match log::open(path, &rules, None) {
        Ok(log) => report(&name, &log),
        Err(error) => println!("{name}: {error}"),
    }
}

fn report(label: &str, log: &Log) {
    let setup = Setup::default();
    let mut queue = 0.0;
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = worked_s();
            let (report, _) = black_box(simulate(&setup, log, None, false)).expect("a plain centre");
            queue = report.queue_mean;
            log.jobs.len() as f64 / (worked_s() - start) / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{label:<40} {:>8} jobs, queue {queue:7.1}: {:7.3} million jobs/s of one core",
        log.jobs.len(),
        rates[RUNS / 2]
    );
}

/// Seconds that this thread has had a core; elapsed time where the kernel does not say.
fn worked_s() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = said.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    worked.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Jobs whose widths are powers of two and whose runs spread over three decades, with estimates that are round and too long.
fn drawn(count: u64, procs: u32, load: f64) -> Log {
    let mut rng = Rng::new(1, 0);
    let mut jobs: Vec<Job> = Vec::new();
    let (mut at, mut area) = (0.0, 0.0);
    for number in 0..count {
        let nodes = 1u32 << rng.small_below(9);
        let run = 20.0 + rng.small_below(20_000) as f64;
        let estimate = run * (1.0 + rng.unit() * 4.0);
        area += run * f64::from(nodes);
        at += rng.exponential(1.0);
        let seconds = |s: f64| Time((s * 1e9) as u64);
        jobs.push(Job {
            number,
            submit: seconds(at),
            run: seconds(run),
            estimate: seconds(estimate),
            nodes,
            memory: None,
        });
    }
    let stretch = area / (f64::from(procs) * load * at);
    jobs.iter_mut().for_each(|job| job.submit = Time((job.submit.0 as f64 * stretch) as u64));
    Log { jobs, procs, census: Census::default() }
}
