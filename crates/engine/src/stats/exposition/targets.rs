//! The families of targets, line by line: a thousand targets have 26,000 lines at each scrape, so the common parts of
//! consecutive lines are built once. The crate writes the other families.

use super::super::snapshot::TargetCounts;
use super::escaped;
use object::counters::{BUCKETS, Histogram};
use std::fmt::Write;

/// Every second bucket from 16 microseconds to 17 seconds is shown.
const FIRST_BUCKET: usize = 4;
const LAST_BUCKET: usize = 24;

const STATES: [&str; 5] = ["ok", "suspect", "failed", "draining", "read-only"];

/// Name, whether it is a counter, help, value.
type Column = (&'static str, bool, &'static str, fn(&TargetCounts) -> u64);

const COLUMNS: [Column; 7] = [
    ("ops", true, "Operations on a target", |t| t.ops),
    ("errors", true, "Errors of a target's device", |t| t.errors),
    ("deadline_misses", true, "Operations on a target that passed their deadline", |t| t.deadline_misses),
    ("read_bytes", true, "Bytes of files read from a target", |t| t.read_bytes),
    ("written_bytes", true, "Bytes of files written to a target", |t| t.written_bytes),
    ("free_bytes", false, "Free bytes of a target", |t| t.free_bytes),
    ("size_bytes", false, "All bytes of a target", |t| t.total_bytes),
];

/// Room for the families of one target.
pub const BYTES_OF_ONE: usize = 3 << 10;

/// Appends them; each sample has these labels.
pub fn write(out: &mut String, labels: &[(&'static str, String)], targets: &[TargetCounts]) {
    let mut common = String::new();
    for (name, value) in labels {
        let _ = write!(common, "{name}=\"{}\",", escaped(value));
    }
    let names: Vec<String> = targets.iter().map(|target| escaped(&target.name)).collect();
    for (name, is_counter, help, value) in COLUMNS {
        head(out, name, if is_counter { "counter" } else { "gauge" }, help);
        let start = start(name, if is_counter { "_total" } else { "" }, &common, "");
        for (target, name) in targets.iter().zip(&names) {
            line(out, &start, name, "\"} ", value(target));
        }
    }
    histograms(out, &common, targets, &names);
    head(out, "state", "gauge", "1 for the state that a target is in");
    let start = start("state", "", &common, "");
    let ends = STATES.map(|state| format!("\",state=\"{state}\"}} "));
    for (target, name) in targets.iter().zip(&names) {
        for (state, end) in STATES.iter().zip(&ends) {
            line(out, &start, name, end, u64::from(target.state == *state));
        }
    }
}

/// Writes the durations of operations. Counts of buckets that are not shown are added to the next shown one.
fn histograms(out: &mut String, common: &str, targets: &[TargetCounts], names: &[String]) {
    let name = "op_seconds";
    head(out, name, "histogram", "How long reads and writes of objects took on a target; every sixteenth is timed");
    let is_shown = |bucket: usize| (FIRST_BUCKET..=LAST_BUCKET).contains(&bucket) && bucket.is_multiple_of(2);
    let starts: Vec<Option<String>> = (0..BUCKETS)
        .map(|bucket| {
            let bound = Histogram::bound_ns(bucket).filter(|_| is_shown(bucket));
            bound.map(|ns| start(name, "_bucket", common, &format!("le=\"{}\",", decimal(ns))))
        })
        .collect();
    let (sum, count) = (start(name, "_sum", common, ""), start(name, "_count", common, ""));
    let all = start(name, "_bucket", common, "le=\"+Inf\",");
    for (target, name) in targets.iter().zip(names) {
        out.push_str(&sum);
        out.push_str(name);
        let _ = writeln!(out, "\"}} {}", decimal(target.timed_ns));
        line(out, &count, name, "\"} ", target.timed.iter().sum());
        let mut below = 0;
        for (bucket, start) in starts.iter().enumerate() {
            below += target.timed.get(bucket).copied().unwrap_or(0);
            if let Some(start) = start {
                line(out, start, name, "\"} ", below);
            }
        }
        line(out, &all, name, "\"} ", below);
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(out, "# HELP entrepot_target_{name} {help}\n# TYPE entrepot_target_{name} {kind}\n");
}

/// A line up to the target's name.
fn start(name: &str, suffix: &str, common: &str, label: &str) -> String {
    format!("entrepot_target_{name}{suffix}{{{common}{label}target=\"")
}

fn line(out: &mut String, start: &str, name: &str, end: &str, value: u64) {
    out.push_str(start);
    out.push_str(name);
    out.push_str(end);
    // Most are.
    if value < 10 {
        out.push((b'0' + value as u8) as char);
    } else {
        let _ = write!(out, "{value}");
    }
    out.push('\n');
}

/// Nanoseconds as seconds, with a point.
fn decimal(ns: u64) -> String {
    let text = (ns as f64 / 1e9).to_string();
    if text.contains('.') { text } else { text + ".0" }
}
