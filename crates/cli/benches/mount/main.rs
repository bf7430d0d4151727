//! Entrepot against the raw directory and mergerfs, side by side in one run: `make bench`.
//!
//! Every workload visits the subjects in turn, round after round, the other way round each time, so that a machine
//! whose speed drifts drifts for all of them alike. Medians and ratios are printed; the whole goes to
//! `target/bench.json`. Set `ENTREPOT_BENCH_DIR` to choose the file system underneath, `ENTREPOT_BENCH_ROUNDS` and
//! `ENTREPOT_BENCH_MIB` for longer or shorter runs, and `ENTREPOT_BENCH_ONLY=write,read,random,shared,small,recovery`
//! (any of them) for a part. With `ENTREPOT_BENCH_BESIDE=path/to/entrepot` another build's volumes take part, and are
//! compared with this one's.

mod recovery;
mod report;
mod subject;
mod workload;

use report::Report;
use std::path::PathBuf;

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` must not start an hour of I/O.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let rounds = number("ENTREPOT_BENCH_ROUNDS", 3);
    let mib = number("ENTREPOT_BENCH_MIB", 512);
    let base = std::env::var_os("ENTREPOT_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("entrepot-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("cannot make {}: {e}", dir.display()));
    println!("bench: {} rounds, files of {mib} MiB, in {}", rounds, dir.display());

    let beside = std::env::var_os("ENTREPOT_BENCH_BESIDE").map(PathBuf::from);
    let subjects = subject::all(&dir, beside.as_deref());
    let mut report = Report::new(subjects.iter().map(|s| s.name));
    let only = std::env::var("ENTREPOT_BENCH_ONLY").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only.split(',').any(|o| o.trim() == name);
    for (_, workload) in workload::all().into_iter().filter(|(name, _)| wanted(name)) {
        let mut names = Vec::new();
        for round in 0..rounds {
            // There and back again: what the one before leaves behind is not always another's.
            let mut turns: Vec<_> = subjects.iter().collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for s in turns {
                let rates = workload(s.dir(), mib, round);
                names = rates.iter().map(|r| r.name).collect();
                rates.iter().for_each(|r| report.add(r.name, r.unit, s.name, r.value));
            }
        }
        names.iter().for_each(|name| report.print_row(name));
    }
    drop(subjects);
    if wanted("recovery") {
        recovery::measure(&dir, rounds, &mut report);
    }
    report.print();
    let json = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench.json");
    std::fs::write(&json, report.json()).unwrap_or_else(|e| panic!("cannot write {}: {e}", json.display()));
    println!("written: target/bench.json");
    let _ = std::fs::remove_dir_all(&dir);
}

fn number(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// The entrepot binary that cargo built for this benchmark.
const ENTREPOT: &str = env!("CARGO_BIN_EXE_entrepot");
