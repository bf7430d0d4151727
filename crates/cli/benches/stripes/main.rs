//! Adaptive stripes live, on eight emulated disks, against every fixed width: `make bench-stripes` (Simitci & Reed, R12
//! of the evaluations).
//!
//! Eight Cheetah 9LP are emulated in real time, one target on each; one of them is measured as by `entrepot-lab bench
//! device`. Phases of few large and many small reads alternate, at random times that are the same for every run (open
//! loop: a read that waits delays no other). A *fixed* width is a file whose striping unit is the phase's request cut
//! into that many parts, so each phase is compared with the file that suits it best. The *adaptive* modes have one
//! file, which they restripe while it is read. Then *forks*: reads of two sizes on a file with two forks, and on each
//! of the two alone; *merged*: four files read in turns, apart and merged. Last, the cost of the *sensors*: processor
//! time of the daemon with and without, in turns.
//!
//! Settings are variables `ENTREPOT_STRIPES_...`:
//! - `SECONDS` (5): counted time of a phase; `WARM_UP` (6): time of a phase before that;
//! - `SEED` (1); `REPEATS` (1): number of runs, each with the next seed, for one mean of all;
//! - `ONLY`: a list of `phases`, `forks`, `merged`, `sensors`; `MODES`: one of `model`, `fuzzy`, `model+fuzzy` (all);
//! - `FILE_MIB` (16): size of files in phases; `FORK_MIB` (128): size of those with forks;
//! - `FORK_WAIT` (120): maximum wait for a fork in seconds.
//!
//! Needs root or `fusermount3`, and /dev/fuse.

mod load;
#[path = "../machine/mod.rs"]
mod machine;
mod merged;
mod rig;
mod sensors;

use load::{Measured, RequestClass};
use machine::Machine;
use rig::{DISKS, Rig};
use std::path::{Path, PathBuf};
use std::time::Instant;

const MIB: u64 = 1 << 20;
const WIDTHS: [u64; 4] = [1, 2, 4, 8];
/// Few large and many small reads: one disk wide, each keeps the disks busy for about a quarter of the time.
const LARGE: RequestClass = RequestClass { rate: 8.0, bytes: MIB };
const SMALL: RequestClass = RequestClass { rate: 200.0, bytes: 32 << 10 };
/// For the forks: both at once, so that the disks are busy for two thirds of the time and a choice between two queues
/// counts.
const MIX: [RequestClass; 2] =
    [RequestClass { rate: 200.0, bytes: 64 << 10 }, RequestClass { rate: 13.0, bytes: MIB / 2 }];

/// How long and how often.
#[derive(Clone, Copy)]
struct Runs {
    seconds: f64,
    warm_up: f64,
    seed: u64,
    repeats: u64,
}

impl Runs {
    /// Seeds of the runs.
    fn seeds(self) -> std::ops::Range<u64> {
        self.seed..self.seed + self.repeats
    }

    /// All repetitions of a load that nothing adapts to.
    fn all(self, path: &Path, asked: &[RequestClass]) -> Measured {
        let run = |seed| load::run(path, asked, 1.0, self.seconds, seed);
        self.seeds().map(run).reduce(Measured::and).unwrap_or_default()
    }
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` must not start minutes of I/O.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let base = std::env::var_os("ENTREPOT_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let only = std::env::var("ENTREPOT_STRIPES_ONLY").unwrap_or_else(|_| "phases,forks,merged,sensors".into());
    let wanted = |part: &str| only.split(',').any(|one| one == part);
    let (seconds, warm_up, seed) = (number("SECONDS", 5.0), number("WARM_UP", 6.0), number("SEED", 1.0) as u64);
    let repeats = (number("REPEATS", 1.0) as u64).max(1);
    let runs = Runs { seconds, warm_up, seed, repeats };
    if ["phases", "forks", "merged"].into_iter().any(wanted) {
        let rig = Rig::start(&base);
        println!("{DISKS} emulated disks, each {}", rig.device);
        println!("{seconds} s counted after {warm_up} s, {repeats} times from seed {seed} on");
        if wanted("phases") {
            phases(&rig, runs);
        }
        if wanted("forks") {
            forks(&rig, runs);
        }
        if wanted("merged") {
            merged::measure(&rig, seconds);
        }
    }
    if wanted("sensors") {
        sensors::cost(&base);
    }
}

fn number(name: &str, default: f64) -> f64 {
    let name = format!("ENTREPOT_STRIPES_{name}");
    let parsed = |text: String| text.parse().unwrap_or_else(|_| panic!("{name} is {text}, not a number"));
    std::env::var(&name).map_or(default, parsed)
}

/// Mean response times of every fixed width, then of the adaptive modes, phase by phase.
fn phases(rig: &Rig, runs: Runs) {
    let file_bytes = number("FILE_MIB", 16.0) as u64 * MIB;
    let machine = Machine::start();
    rig.up("");
    for (kind, asked) in [("large", LARGE), ("small", SMALL)] {
        for width in WIDTHS {
            rig.make(&format!("{kind}{width}"), Some(asked.bytes / width), file_bytes);
        }
    }
    let fixed =
        |kind: &str, asked: RequestClass| WIDTHS.map(|width| runs.all(&rig.file(&format!("{kind}{width}")), &[asked]));
    let (large, small) = (fixed("large", LARGE), fixed("small", SMALL));
    rig.down();
    println!("\nmean response time, ms (95th percentile)");
    for (width, (large, small)) in WIDTHS.iter().zip(large.iter().zip(&small)) {
        println!("fixed:{width:<6} {:>28} {:>28}", large.text(), small.text());
    }
    let of = |all: &[Measured; 4]| {
        let ms = all.iter().map(Measured::mean_ms);
        (ms.clone().fold(f64::INFINITY, f64::min), ms.fold(0.0, f64::max))
    };
    let bounds = [of(&large), of(&small)];
    let modes = std::env::var("ENTREPOT_STRIPES_MODES").unwrap_or_else(|_| "model,fuzzy,model+fuzzy".into());
    println!();
    let rows: Vec<String> = modes.split(',').map(|mode| row(rig, runs, mode, file_bytes, bounds)).collect();
    if !machine.allows("the phases") {
        return;
    }
    println!("\nmean response of each phase, ms, and the speed against its best and its worst fixed width\n");
    println!("| adaptive | large | small | large again | small again | least speeds |\n|---|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
}

/// Row of an adaptive mode. The bounds of both kinds of phases are the best and the worst mean of the fixed widths.
fn row(rig: &Rig, runs: Runs, mode: &str, file_bytes: u64, bounds: [(f64, f64); 2]) -> String {
    let mut got = [const { None }; 4];
    for seed in runs.seeds() {
        let shown = adaptive(rig, runs, mode, file_bytes, seed, &mut got);
        println!("{mode:<12} seed {seed}: {shown}");
    }
    let (mut row, mut least) = (format!("| {mode} |"), (f64::INFINITY, f64::INFINITY));
    for (n, got) in got.iter().flatten().enumerate() {
        let ((best, worst), ms) = (bounds[n % 2], got.mean_ms());
        least = (least.0.min(best / ms), least.1.min(worst / ms));
        row += &format!(" {ms:.2}, {:.2}, {:.2} |", best / ms, worst / ms);
    }
    row + &format!(" {:.2}, {:.2} |", least.0, least.1)
}

/// All phases once in an adaptive mode, added to what was measured before; gives how the file lay at the end, and why.
fn adaptive(rig: &Rig, runs: Runs, mode: &str, bytes: u64, seed: u64, got: &mut [Option<Measured>; 4]) -> String {
    rig.up(&format!("mode = \"{mode}\"\nwindow = \"2s\"\ninterval = \"500ms\"\nhorizon = \"60s\"\n"));
    rig.make("adaptive", None, bytes);
    let mut each = Vec::new();
    for (asked, got) in [LARGE, SMALL, LARGE, SMALL].into_iter().zip(got) {
        let one = load::run(&rig.file("adaptive"), &[asked], runs.warm_up, runs.seconds, seed);
        each.push(format!("{:.2} ms", one.mean_ms()));
        *got = Some(got.take().unwrap_or_default().and(one));
    }
    let mut shown = format!("{}; {}", each.join(", "), rig.shape("adaptive"));
    rig.decisions().iter().for_each(|decision| shown += &format!("\n             {decision}"));
    rig.remove("adaptive");
    rig.down();
    shown
}

/// Reads of two sizes on a file with forks, and on a file like each of them.
fn forks(rig: &Rig, runs: Runs) {
    let file_bytes = number("FORK_MIB", 128.0) as u64 * MIB;
    rig.up("mode = \"model\"\nwindow = \"4s\"\ninterval = \"500ms\"\nforks = 2\n");
    rig.make("forked", None, file_bytes);
    // Reads until the file is restriped and has its fork.
    let began = Instant::now();
    while rig.units("forked").len() < 2 && began.elapsed().as_secs_f64() < number("FORK_WAIT", 120.0) {
        load::run(&rig.file("forked"), &MIX, 0.0, runs.warm_up, runs.seed);
    }
    println!(
        "\nreads of two sizes on a file of {} MiB, until it has a fork: {:.0?}",
        file_bytes / MIB,
        began.elapsed()
    );
    let both = runs.all(&rig.file("forked"), &MIX);
    rig.decisions().iter().for_each(|decision| println!("    {decision}"));
    let (units, shape) = (rig.units("forked"), rig.shape("forked"));
    rig.remove("forked");
    rig.down();
    rig.up("");
    println!("mean response time, ms (95th percentile)");
    let mut best = f64::INFINITY;
    for unit in &units {
        rig.make("single", Some(*unit), file_bytes);
        let alone = runs.all(&rig.file("single"), &MIX);
        best = best.min(alone.mean_ms());
        println!("one fork, unit {:>4} KiB   {}", unit >> 10, alone.text());
        rig.remove("single");
    }
    rig.down();
    println!(
        "{} forks                 {}, {:.2} times as fast as the better one alone, for {} times its space ({shape})",
        units.len(),
        both.text(),
        best / both.mean_ms(),
        units.len()
    );
}
