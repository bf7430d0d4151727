//! Replacement policies against libCacheSim 0.3.5, and against each other.
//!
//! The misses below are those of libCacheSim's Python package (`pip install libcachesim==0.3.5`), with objects of
//! size 1 and default parameters, for the accesses of [`accesses`]: `cache.get(request)` for each of them.
//! With an interpreter that has the package in `$ENTREPOT_BENCH_PYTHON`, one test compares real traces, too.

use sim::replacement::{Policy, Samples, Sequence, lru_curve};
use sim::trace::{Format, Options, TimeUnit, open};
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZES: [usize; 5] = [15, 50, 150, 200, 600];

/// Misses of libCacheSim at [`SIZES`].
const REFERENCE: [(Policy, [u64; 5]); 11] = [
    (Policy::Fifo, [19533, 18546, 15876, 14738, 8611]),
    (Policy::Lru, [19535, 18523, 15718, 14420, 8035]),
    (Policy::Clock, [19527, 18505, 15610, 14280, 7947]),
    (Policy::Lfu, [19244, 17738, 14551, 13255, 6532]),
    (Policy::TwoQ, [19308, 17959, 14785, 13578, 7151]),
    (Policy::Arc, [19299, 17918, 14819, 13588, 7065]),
    (Policy::Lirs, [19242, 17814, 14693, 13374, 6513]),
    (Policy::S3FifoAsLibCacheSim, [20000, 17646, 14396, 13139, 7026]),
    (Policy::Sieve, [19164, 17581, 14298, 12996, 6513]),
    (Policy::WTinyLfuAsLibCacheSim, [20000, 20000, 14178, 12730, 6656]),
    (Policy::Belady, [16811, 13974, 10143, 8989, 4925]),
];

/// 20,000 accesses, with dense numbers: small numbers more often, with scans of 1,000 steps over 700 other blocks.
fn accesses() -> Sequence {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 1000
    };
    let mut at = |i: u64| {
        let (a, b) = (draw(), draw());
        if i % 5000 < 4000 { a * b / 1000 } else { 1000 + i % 5000 % 700 }
    };
    Sequence::of((0..20_000).map(|i| at(i) as u32).collect()).sample(1.0, 0)
}

#[test]
fn misses_are_those_of_libcachesim() {
    let sequence = accesses();
    for (policy, reference) in REFERENCE {
        for (capacity, expected) in SIZES.into_iter().zip(reference) {
            assert_eq!(policy.tally(&sequence, capacity).misses, expected, "{policy:?} at {capacity}");
        }
    }
}

/// Replays a file through each policy at each size and prints the misses, a line each.
const SCRIPT: &str = "
import sys
import libcachesim as lcs
policies = [lcs.FIFO, lcs.LRU, lcs.Clock, lcs.LFU, lcs.TwoQ, lcs.ARC, lcs.LIRS, lcs.S3FIFO, lcs.Sieve, lcs.WTinyLFU,
            lcs.Belady]
for policy in policies:
    for capacity in sys.argv[3:]:
        reader = lcs.TraceReader(sys.argv[1], lcs.TraceType.ORACLE_GENERAL_TRACE,
                                 lcs.ReaderInitParam(ignore_obj_size=True))
        print('misses', round(policy(int(capacity), hashpower=20).process_trace(reader)[0] * int(sys.argv[2])))
";

/// Traces of the real data, with the formats that cannot be detected.
fn traces() -> Vec<(String, Option<Format>, Option<TimeUnit>)> {
    let lirs = ["2_pools", "cpp", "cs", "gli", "loop", "multi1", "multi2", "multi3", "ps", "sprite"];
    let lirs = lirs.map(|name| (format!("lirs-traces/{name}.trace.gz"), Some(Format::Lirs), None));
    let others = [
        ("cloudphysics-vscsi/trace.vscsi.zst", None, None),
        ("ibm-arc-traces/OLTP.lis.zst", None, None),
        ("ibm-arc-traces/P3.lis.zst", None, None),
        ("mqsim-ms-small/tpcc-small.trace.gz", Some(Format::Disksim), Some(TimeUnit::Ns)),
        ("mqsim-ms-small/wsrch-small.trace.gz", Some(Format::Disksim), Some(TimeUnit::Ns)),
        ("ms-production-dtrs/DTRS1K.trace.gz", Some(Format::Disksim), Some(TimeUnit::Us)),
        ("umass-financial1-head/financial1-first10000.ascii.gz", Some(Format::Disksim), Some(TimeUnit::Ns)),
    ];
    lirs.into_iter().chain(others.map(|(file, format, unit)| (file.to_owned(), format, unit))).collect()
}

/// Misses of libCacheSim: all policies of [`REFERENCE`], at all sizes each.
fn misses_of_libcachesim(python: &Path, sequence: &Sequence, sizes: &[usize]) -> Vec<u64> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.oracleGeneral.bin");
    // A position as libCacheSim counts, from 1; -1 for none.
    let next = |next: u64| if next == Sequence::NEVER { -1 } else { next as i64 + 1 };
    let record = |(block, at): (&u32, &u64)| {
        [&0u32.to_le_bytes()[..], &u64::from(*block).to_le_bytes(), &1u32.to_le_bytes(), &next(*at).to_le_bytes()]
            .concat()
    };
    let records: Vec<u8> = sequence.accesses().iter().zip(sequence.nexts()).flat_map(record).collect();
    std::fs::write(&path, records).unwrap();
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).arg(&path).arg(sequence.accesses().len().to_string());
    let output = command.args(sizes.iter().map(usize::to_string)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let misses = text.lines().filter_map(|line| line.strip_prefix("misses ")?.parse().ok()).collect::<Vec<u64>>();
    assert_eq!(misses.len(), REFERENCE.len() * sizes.len(), "{}", String::from_utf8_lossy(&output.stderr));
    misses
}

#[test]
fn misses_on_real_traces_are_those_of_libcachesim() {
    let Some(python) = std::env::var_os("ENTREPOT_BENCH_PYTHON").map(PathBuf::from) else {
        return println!("skipped: ENTREPOT_BENCH_PYTHON names no interpreter with libcachesim");
    };
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("ENTREPOT_DATA").map_or(beside, PathBuf::from);
    let (mut pairs, mut different) = (0, Vec::new());
    for (file, format, time_unit) in traces() {
        let path = data.join(&file);
        if !path.exists() {
            println!("skipped: {} is not there", path.display());
            continue;
        }
        let reader = open(&path, &Options { format, time_unit, ..Options::default() }).unwrap();
        let (sequence, _) = Sequence::read([reader], 4096, None, false).unwrap();
        let sizes = [100, 10].map(|part| sequence.blocks() / part);
        let reference = misses_of_libcachesim(&python, &sequence, &sizes);
        let cases = REFERENCE.iter().flat_map(|(policy, _)| sizes.map(|capacity| (*policy, capacity)));
        for ((policy, capacity), expected) in cases.zip(reference) {
            let misses = policy.tally(&sequence, capacity).misses;
            pairs += 1;
            if misses != expected {
                different.push(format!("{file} {policy} {capacity}: {misses}, expected {expected}"));
            }
        }
    }
    println!("{} of {pairs} pairs are equal", pairs - different.len());
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn small_caches_keep_blocks_where_those_of_libcachesim_keep_none() {
    let sequence = accesses();
    for (policy, peer, least) in
        [(Policy::S3Fifo, Policy::S3FifoAsLibCacheSim, 20), (Policy::WTinyLfu, Policy::WTinyLfuAsLibCacheSim, 100)]
    {
        for capacity in [1, least - 1, least, least + 1, 600] {
            let [misses, of_peer] = [policy, peer].map(|policy| policy.tally(&sequence, capacity).misses);
            assert!(misses < 20_000, "{policy} at {capacity}");
            assert_eq!(of_peer, if capacity < least { 20_000 } else { misses }, "{peer} at {capacity}");
        }
    }
}

#[test]
fn no_policy_beats_belady_and_none_misses_a_block_twice_that_fits() {
    let sequence = accesses();
    let all = sequence.blocks();
    let used = sequence.accesses().iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
    for policy in Policy::ALL.iter().copied() {
        let word = policy.text();
        assert_eq!(Policy::named(word), Some(policy));
        for capacity in [1, 2, 3, 7, 50, 200, 600] {
            assert!(
                policy.tally(&sequence, capacity).misses >= Policy::Belady.tally(&sequence, capacity).misses,
                "{word} {capacity}"
            );
        }
        // The window and the HIR queue are parts of the cache: policies with parts may need twice the space.
        assert_eq!(policy.tally(&sequence, 2 * all).misses, used, "{word}");
    }
}

#[test]
fn the_curve_of_one_pass_is_that_of_many_caches() {
    let sequence = accesses();
    let sizes: Vec<usize> = (1..40).map(|n| n * n).collect();
    let curve = lru_curve(&sequence, &sizes);
    for point in curve.points {
        let misses = Policy::Lru.tally(&sequence, point.capacity).misses as f64;
        assert!((point.miss_ratio - misses / 20_000.0).abs() < 1e-12, "{point:?}");
    }
}

#[test]
fn a_sample_of_the_blocks_estimates_the_ratio_and_its_error() {
    let sequence = accesses();
    let samples = Samples::draw(&sequence, 0.2, 20);
    for policy in [Policy::Lru, Policy::S3Fifo] {
        let exact = policy.tally(&sequence, 200).misses as f64 / 20_000.0;
        let estimate = samples.curve(policy, &[200]).points[0];
        assert!((estimate.miss_ratio - exact).abs() < 2.0 * estimate.error, "{policy:?}: {exact} {estimate:?}");
        assert!(estimate.error < 0.1 && estimate.error > 0.0, "{estimate:?}");
    }
}
