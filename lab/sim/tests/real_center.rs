//! The simulated centre on real logs and real failures: the published results on recovery and replication hold here
//! too. The data are not part of the project: the test looks in `$ENTREPOT_DATA` and in `../shared/data`, and is
//! skipped with a message if it finds none.

use sim::center::plan::{Plan, Row, run};
use sim::center::{Failures, Rules, log, records};
use std::path::{Path, PathBuf};

fn data(parts: &[&str]) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("ENTREPOT_DATA").map_or(beside, PathBuf::from);
    let missing = parts.iter().find(|part| !root.join(part).is_file());
    if let Some(part) = missing {
        eprintln!("skipped: no {part} in {}", root.display());
        return None;
    }
    Some(root)
}

const KTH: &str = "swf/KTH-SP2-1996-2.1-cln.swf.gz";
const LANL: &str = "lanl-failures-1996-2005/lanl-failures.csv.gz";

fn rows(base: &[(&str, &str)], axes: &[(&str, &str)]) -> Option<Vec<Row>> {
    let root = data(&[KTH, LANL])?;
    let log = log::open(&root.join(KTH), &Rules::default(), None).unwrap();
    let failures = Failures::new(records::open(&root.join(LANL), 20).unwrap());
    let values = |words: &str| words.split(' ').map(str::to_owned).collect();
    let plan = Plan {
        repeats: 1,
        base: base.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        axes: axes.iter().map(|(name, words)| (name.to_string(), values(words))).collect(),
    };
    Some(run(&plan, &log, Some(&failures), Some(2), false).unwrap())
}

fn metric(rows: &[Row], cell: &[(&str, &str)], name: &str) -> f64 {
    let row = rows.iter().find(|row| cell.iter().all(|(axis, value)| row.cell[*axis] == *value)).unwrap();
    row.metrics[name].0
}

#[test]
fn with_recovery_waits_are_flat_in_the_stripe_count_and_grow_without() {
    let axes = [("stripes", "2 32"), ("recovery", "none on-the-fly ideal")];
    let Some(rows) = rows(&[], &axes) else { return };
    let wait = |stripes, recovery| metric(&rows, &[("stripes", stripes), ("recovery", recovery)], "wait_s");
    let ideal = wait("2", "ideal");
    for stripes in ["2", "32"] {
        assert!((wait(stripes, "on-the-fly") / ideal - 1.0).abs() < 0.02, "{rows:?}");
        let cell = [("stripes", stripes), ("recovery", "none")];
        assert_eq!(metric(&rows, &cell, "promises_broken"), 0.0);
    }
    assert!(wait("32", "none") > wait("2", "none") && wait("32", "none") > 1.02 * ideal, "{rows:?}");
    let affected = |stripes| metric(&rows, &[("stripes", stripes), ("recovery", "on-the-fly")], "affected_percent");
    let ratio = affected("32") / affected("2");
    assert!((8.0..24.0).contains(&ratio), "affected jobs grow with the stripe count, by {ratio} from 2 to 32");
}

#[test]
fn jobs_at_risk_are_ordered_as_published() {
    let axes = [("replication", "fcfs shortcut dispatch-aware"), ("threshold", "0.01 0.1")];
    let Some(rows) = rows(&[("alpha", "0.2"), ("recovery", "ideal")], &axes) else { return };
    let risk = |replication, t| metric(&rows, &[("replication", replication), ("threshold", t)], "at_risk_percent");
    let (fcfs, small) = (risk("fcfs", "0.01"), risk("shortcut", "0.01"));
    let (large, aware) = (risk("shortcut", "0.1"), risk("dispatch-aware", "0.01"));
    assert!(fcfs > small && small > large && aware < small, "{fcfs} {small} {large} {aware}");
}
