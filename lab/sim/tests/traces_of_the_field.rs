//! Real traces, read as their descriptions say: counts, shares, spans. Skipped where the data are not there.

use sim::setup::{LevelSetup, Setup};
use sim::simulate::{self, Opener};
use sim::trace::{Census, Options, Report, TimeUnit, identify, open};
use std::path::PathBuf;

/// A file of the real data, which are not part of the project: in `$ENTREPOT_DATA`, or beside the repository.
fn data(file: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("ENTREPOT_DATA").map_or(beside, PathBuf::from).join(file);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// The census of a trace in blocks of a size; the accounts must close.
fn census(file: &str, block_bytes: u32, options: &Options) -> Option<Report> {
    let path = data(file)?;
    let mut reader = open(&path, options).unwrap_or_else(|e| panic!("{e}"));
    let mut census = Census::new(block_bytes);
    reader.by_ref().for_each(|r| census.add(&r.unwrap_or_else(|e| panic!("{file}: {e}"))));
    assert!(census.agrees(reader.accounting()), "{file}: {:?}", reader.accounting());
    Some(census.report())
}

fn percent(share: f64) -> f64 {
    (share * 1000.0).round() / 10.0
}

#[test]
fn the_arc_paper_s_traces_have_the_counts_of_its_table() {
    for (file, requests, references, unique, strict, streams) in [
        ("ibm-arc-traces/OLTP.lis.zst", 914_145, 914_145, 186_880, 14.9, 31.9),
        ("ibm-arc-traces/P3.lis.zst", 238_578, 3_912_296, 762_543, 11.9, 23.2),
    ] {
        let options = Options { block_bytes: Some(512), ..Options::default() };
        let Some(r) = census(file, 512, &options) else { return };
        assert_eq!((r.requests, r.references, r.footprint_blocks), (requests, references, unique), "{file}");
        assert_eq!((percent(r.sequential_strict), percent(r.sequential_streams)), (strict, streams), "{file}");
    }
}

#[test]
fn the_lirs_references_are_as_counted() {
    for (name, references, unique, strict) in [
        ("cpp", 9_047, 1_223, 75.0),
        ("cs", 6_781, 1_409, 97.0),
        ("gli", 6_015, 2_529, 98.0),
        ("ps", 10_448, 3_083, 96.0),
        ("sprite", 133_996, 7_075, 43.0),
        ("multi1", 15_858, 2_606, 18.0),
        ("multi2", 26_311, 5_684, 10.0),
        ("multi3", 30_241, 7_454, 15.0),
    ] {
        let Some(r) = census(&format!("lirs-traces/{name}.trace.gz"), 4096, &Options::default()) else { return };
        assert_eq!((r.references, r.footprint_blocks), (references, unique), "{name}");
        assert_eq!((100.0 * r.sequential_strict).round(), strict, "{name}");
    }
}

/// LRU's misses on the first of them, as other simulators have them too.
#[test]
fn lru_misses_the_arc_paper_s_oltp_trace_as_often_as_is_known() {
    let Some(path) = data("ibm-arc-traces/OLTP.lis.zst") else { return };
    let options = Options { block_bytes: Some(512), ..Options::default() };
    let opener = move || open(&path, &options);
    let traces: [&dyn Opener; 1] = [&opener];
    let mut setup = Setup {
        levels: vec![LevelSetup::new("none", "1000")],
        disk: "none".into(),
        block: "512".into(),
        ..Setup::default()
    };
    let survey = simulate::survey(&setup, &traces).unwrap();
    for (pages, known) in [(1_000, 0.6717), (2_000, 0.5753), (5_000, 0.4635), (10_000, 0.3930), (15_000, 0.3537)] {
        setup.levels[0].size = pages.to_string();
        let level = simulate::run(&setup, &survey, &traces).unwrap().report.levels[0].clone();
        assert_eq!(level.asked, 914_145);
        let misses = 1.0 - level.hit_ratio;
        assert!((misses - known).abs() <= 0.00005, "{misses} with {pages} pages, known is {known}");
    }
}

/// Description of a block trace.
struct Said {
    file: &'static str,
    unit: TimeUnit,
    requests: u64,
    span_s: f64,
    reads_percent: f64,
    mean_bytes: f64,
    footprint_mib: f64,
    strict_percent: f64,
    streams_percent: f64,
}

#[test]
fn block_traces_are_as_described() {
    let all = [
        Said {
            file: "umass-financial1-head/financial1-first10000.ascii.gz",
            unit: TimeUnit::Ns,
            requests: 10_000,
            span_s: 259.6,
            reads_percent: 40.8,
            mean_bytes: 5_528.0,
            footprint_mib: 28.6,
            strict_percent: 45.2,
            streams_percent: 74.9,
        },
        Said {
            file: "mqsim-ms-small/wsrch-small.trace.gz",
            unit: TimeUnit::Ns,
            requests: 24_783,
            span_s: 60.06,
            reads_percent: 100.0,
            mean_bytes: 15_419.0,
            footprint_mib: 363.0,
            strict_percent: 9.6,
            streams_percent: 33.3,
        },
        Said {
            file: "ms-production-dtrs/DTRS1K.trace.gz",
            unit: TimeUnit::Us,
            requests: 127_043,
            span_s: 300.0,
            reads_percent: 89.0,
            mean_bytes: 56_700.0,
            footprint_mib: 4.85 * 1024.0,
            strict_percent: 20.1,
            streams_percent: 84.7,
        },
    ];
    for said in all {
        let options = Options { time_unit: Some(said.unit), ..Options::default() };
        let Some(r) = census(said.file, 4096, &options) else { return };
        let near = |seen: f64, asked: f64, share: f64| (seen / asked - 1.0).abs() < share;
        assert_eq!(r.requests, said.requests, "{}", said.file);
        assert!(near(r.span_s, said.span_s, 0.002), "{}: span {}", said.file, r.span_s);
        assert_eq!(percent(r.reads as f64 / r.requests as f64), said.reads_percent, "{}", said.file);
        assert!(near(r.length_mean_bytes, said.mean_bytes, 0.002), "{}: mean {}", said.file, r.length_mean_bytes);
        let footprint_mib = r.footprint_bytes as f64 / f64::from(1 << 20);
        assert!(near(footprint_mib, said.footprint_mib, 0.003), "{}: {footprint_mib} MiB", said.file);
        // One decimal is given, and whether the first request counts is not.
        let close = |share: f64, said: f64| (100.0 * share - said).abs() < 0.06;
        assert!(close(r.sequential_strict, said.strict_percent), "{}: {}", said.file, r.sequential_strict);
        assert!(close(r.sequential_streams, said.streams_percent), "{}: {}", said.file, r.sequential_streams);
    }
}

#[test]
fn a_trace_without_its_unit_of_time_is_refused() {
    let Some(path) = data("mqsim-ms-small/tpcc-small.trace.gz") else { return };
    let error = identify(&path, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--time-unit"), "{error}");
}
