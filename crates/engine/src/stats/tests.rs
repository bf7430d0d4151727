//! Counting from many threads, and how it is shown.

use super::*;
use meta::state::SqliteState;
use object::counters::{BUCKETS, Histogram};
use object::target::{MemoryMedium, TargetSpec, TargetsOptions};
use policy::TargetId;

#[test]
fn nothing_is_lost_between_threads() {
    let stats = Stats::new();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    stats.op(Op::Read, 3, Duration::from_micros(3), false);
                    stats.add(Metric::MoverBytes, 2);
                }
            });
        }
    });
    let read = stats.snapshot().ops[Op::Read as usize].clone();
    assert_eq!((read.op.as_str(), read.count, read.bytes, read.failed), ("read", 16_000, 48_000, 0));
    assert_eq!((read.mean_ns(), stats.get(Metric::MoverBytes)), (3000, 32_000));
}

#[test]
fn spans_fall_into_powers_of_two() {
    let stats = Stats::new();
    for ns in [0, 1023, 1024, 2047, 2048, u64::MAX / 2] {
        stats.op(Op::Write, 0, Duration::from_nanos(ns), true);
    }
    let write = stats.snapshot().ops[Op::Write as usize].clone();
    assert_eq!((&write.buckets[..3], write.buckets[BUCKETS - 1]), (&[2, 2, 1][..], 1));
    assert_eq!((write.quantile_ns(0.3), write.quantile_ns(0.5), write.failed), (1024, 2048, 6));
    assert_eq!((Histogram::bound_ns(0), Histogram::bound_ns(BUCKETS - 1)), (Some(1024), None));
}

#[test]
fn shown_with_targets_to_people_and_prometheus() {
    let targets = Targets::new(TargetsOptions::inline());
    let target = targets.add(TargetSpec::new(TargetId(7), 1, Arc::new(MemoryMedium::new(1))));
    target.counters().read_bytes.add(512);
    let stats = Stats::new();
    stats.attach(&targets);
    for us in [10, 30, 1_500, 60_000_000] {
        target.counters().timed(Duration::from_micros(us));
    }
    let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
    stats.attach_state(&state);
    state.finish().unwrap();
    state.epoch().unwrap_err();
    stats.op(Op::Fsync, 0, Duration::from_micros(1500), false);
    stats.add(Metric::RecoveryStripes, 4);
    let text = stats.render_text();
    for words in ["fsync", "1500.0", "t7", "512", "recovery_stripes"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("rename") && !text.contains("jobs_failed"), "only what happened: {text}");
    let labels = [("volume", "s\"x".to_owned()), ("node", "n1".to_owned())];
    let ops = Gauge { of: Level::ConnectionOps, values: vec![(vec!["t7".into(), "2".into()], 5.0)] };
    let gauges =
        vec![ops, Gauge::new(Level::Nodes, 3.0), Gauge { of: Level::Jobs, values: vec![(vec!["queued".into()], 2.0)] }];
    let shown = stats.snapshot().open_metrics(&labels, gauges);
    for line in [
        "# TYPE entrepot_op_seconds histogram",
        "entrepot_op_total{volume=\"s\\\"x\",node=\"n1\",op=\"fsync\"} 1",
        "entrepot_op_seconds_bucket{volume=\"s\\\"x\",node=\"n1\",le=\"+Inf\",op=\"fsync\"} 1",
        "entrepot_op_seconds_bucket{volume=\"s\\\"x\",node=\"n1\",le=\"0.000001024\",op=\"fsync\"} 0",
        "entrepot_op_seconds_sum{volume=\"s\\\"x\",node=\"n1\",op=\"fsync\"} 0.0015",
        "entrepot_target_read_bytes_total{volume=\"s\\\"x\",node=\"n1\",target=\"t7\"} 512",
        "entrepot_target_state{volume=\"s\\\"x\",node=\"n1\",target=\"t7\",state=\"ok\"} 1",
        "entrepot_target_op_seconds_bucket{volume=\"s\\\"x\",node=\"n1\",le=\"0.000016384\",target=\"t7\"} 1",
        "entrepot_target_op_seconds_bucket{volume=\"s\\\"x\",node=\"n1\",le=\"0.004194304\",target=\"t7\"} 3",
        "entrepot_target_op_seconds_bucket{volume=\"s\\\"x\",node=\"n1\",le=\"17.179869184\",target=\"t7\"} 3",
        "entrepot_target_op_seconds_count{volume=\"s\\\"x\",node=\"n1\",target=\"t7\"} 4",
        "entrepot_state_op_failed_total{volume=\"s\\\"x\",node=\"n1\"} 1",
        "entrepot_connection_ops_total{volume=\"s\\\"x\",node=\"n1\",target=\"t7\",connection=\"2\"} 5.0",
        "# HELP entrepot_recovery_stripes Stripes fetched from a source.",
        "entrepot_nodes{volume=\"s\\\"x\",node=\"n1\"} 3.0",
        "entrepot_jobs{volume=\"s\\\"x\",node=\"n1\",state=\"queued\"} 2.0",
        "# EOF",
        "entrepot_recovery_stripes_total{volume=\"s\\\"x\",node=\"n1\"} 4",
    ] {
        assert!(shown.lines().any(|l| l == line), "{line} in {shown}");
    }
    let snapshot = stats.snapshot();
    let json = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
}

/// The families of targets are written by hand; the crate writes the same labels and numbers in the same way.
#[test]
fn what_is_written_by_hand_looks_as_the_crate_writes_it() {
    let (number, count) = (Metric::ALL[0], 41);
    let stats = Stats::new();
    stats.add(number, count);
    let mut snapshot = stats.snapshot();
    let odd = "a\"b\\c\nd".to_owned();
    let labels = [("volume", odd.clone()), ("node", "n".to_owned())];
    snapshot.targets = vec![TargetCounts { name: odd, ops: count, timed_ns: 1_500_000_000, ..Default::default() }];
    let shown = snapshot.open_metrics(&labels, Vec::new());
    let of = |line: &str| shown.lines().find(|l| l.starts_with(line)).map(str::to_owned).expect("a line");
    let by_crate = of(&format!("entrepot_{}_total{{", number.name())).replace(number.name(), "target_ops");
    let (start, end) = by_crate.split_once("} ").expect("labels");
    let volume = start.split("volume=").nth(1).and_then(|rest| rest.split(",node=").next()).expect("a label");
    assert_eq!(of("entrepot_target_ops_total"), format!("{start},target={volume}}} {end}"));
    let head = |name: &str| of(&format!("# TYPE entrepot_{name} ")).replace(name, "x");
    assert_eq!(head("target_ops"), head(number.name()));
    let sum = of("entrepot_target_op_seconds_sum");
    assert!(sum.ends_with(" 1.5"), "{sum}");
    // Each sample once, and below the head of its family.
    let samples: Vec<_> = shown.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.rsplit_once(' ')).collect();
    let names: std::collections::BTreeSet<_> = samples.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), samples.len());
    assert!(shown.ends_with("# EOF\n") && shown.matches("# EOF").count() == 1);
}
