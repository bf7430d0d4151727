//! Sweeps over settings of a centre: every combination, repeats with other seeds, and the table of results.
//!
//! Comparisons between rows are computed here. A job counts as *waiting* if it waited in any row of its load and seed.
//! A job counts as *struck* if a failure harmed it in the row that has neither recovery nor replication but is
//! otherwise equal.

use super::Log;
use super::outages::Failures;
use super::setup::Setup;
use super::world::{JobOutcome, Report, simulate};
use crate::grid::{Case, Cell, cross, side_by_side};
use crate::setup::{Settable, SetupError};
use serde::Serialize;
use std::collections::BTreeMap;

/// Settings of the rows.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Number of seeds, from that of the base on.
    pub repeats: u64,
    /// Settings that differ from the defaults.
    pub base: BTreeMap<String, String>,
    /// Settings that vary; every combination is a row.
    pub axes: BTreeMap<String, Vec<String>>,
}

impl Plan {
    /// Returns the setup without the axes.
    pub fn setup(&self) -> Result<Setup, SetupError> {
        let mut setup = Setup::default();
        self.base.iter().try_for_each(|(name, value)| setup.set(name, value))?;
        Ok(setup)
    }

    /// Returns the setups of all rows.
    pub fn cases(&self) -> Result<Vec<Case<Setup>>, SetupError> {
        cross(self.setup()?, self.axes.iter().map(|(axis, values)| (axis.as_str(), values.as_slice())))
    }
}

/// A simulated centre, and the data of its jobs that the table needs.
struct Done {
    report: Report,
    waits: Vec<f32>,
    harmed: Vec<bool>,
}

/// One row of the table: a cell, with means over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The values of the axes.
    pub cell: Cell,
    /// Mean over the repeats and standard deviation of each metric, by name.
    pub metrics: BTreeMap<String, (f64, f64)>,
}

/// Simulates all rows on `threads` threads and makes the table. `check` as for [`simulate`].
pub fn run(
    plan: &Plan,
    log: &Log,
    failures: Option<&Failures>,
    threads: Option<usize>,
    check: bool,
) -> Result<Vec<Row>, SetupError> {
    let cases = plan.cases()?;
    let runs: Vec<_> = cases.iter().flat_map(|case| (0..plan.repeats).map(move |repeat| (case, repeat))).collect();
    let done = side_by_side(&runs, threads, |(case, repeat)| {
        let setup = Setup { seed: case.setup.seed.wrapping_add(*repeat), ..case.setup.clone() };
        one_case(&setup, log, failures, check)
    });
    let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(table(&cases, &done, plan.repeats as usize))
}

fn one_case(setup: &Setup, log: &Log, failures: Option<&Failures>, check: bool) -> Result<Done, SetupError> {
    let (report, jobs) = simulate(setup, log, failures, check)?;
    let wait = |job: &JobOutcome| job.wait_s as f32;
    Ok(Done { report, waits: jobs.iter().map(wait).collect(), harmed: jobs.iter().map(|job| job.harmed).collect() })
}

/// Axes along which rows are compared; the others define the group in which waiting jobs are determined.
const COMPARED: [&str; 5] = ["stripes", "recovery", "replication", "alpha", "threshold"];

fn table(cases: &[Case<Setup>], done: &[Done], repeats: usize) -> Vec<Row> {
    let group = |case: &Case<Setup>| -> Cell {
        case.cell
            .iter()
            .filter(|(axis, _)| !COMPARED.contains(&axis.as_str()))
            .map(|(a, v)| (a.clone(), v.clone()))
            .collect()
    };
    let mut groups: BTreeMap<Cell, Vec<usize>> = BTreeMap::new();
    cases.iter().enumerate().for_each(|(n, case)| groups.entry(group(case)).or_default().push(n));
    let mut rows: Vec<Option<Row>> = vec![None; cases.len()];
    for members in groups.values() {
        let mut sums: Vec<BTreeMap<&'static str, Vec<f64>>> = vec![BTreeMap::new(); members.len()];
        for repeat in 0..repeats {
            let of = |case: usize| &done[case * repeats + repeat];
            let jobs = of(members[0]).waits.len();
            let waited: Vec<bool> =
                (0..jobs).map(|job| members.iter().any(|case| of(*case).waits[job] > 0.0)).collect();
            for (at, case) in members.iter().enumerate() {
                let bare = members.iter().copied().find(|other| is_bare(&cases[*other], &cases[*case]));
                let mut add = |name, value| sums[at].entry(name).or_default().push(value);
                own_metrics(of(*case), &waited, &mut add);
                if let Some(bare) = bare {
                    struck_metrics(of(*case), of(bare), &mut add);
                }
            }
        }
        for (case, sums) in members.iter().zip(sums) {
            let metrics = sums.into_iter().map(|(name, values)| (name.to_owned(), mean_sd(&values))).collect();
            rows[*case] = Some(Row { cell: cases[*case].cell.clone(), metrics });
        }
    }
    rows.into_iter().flatten().collect()
}

/// Returns whether a case equals another one without recovery and replication.
fn is_bare(case: &Case<Setup>, of: &Case<Setup>) -> bool {
    use super::setup::{Recovery, Replication};
    let is = |setup: &Setup| setup.recovery == Recovery::None && setup.replication == Replication::None;
    let other = Setup {
        recovery: Recovery::None,
        replication: Replication::None,
        alpha: case.setup.alpha,
        threshold: case.setup.threshold,
        ..of.setup.clone()
    };
    is(&case.setup) && case.setup == other
}

fn own_metrics(done: &Done, waited: &[bool], add: &mut impl FnMut(&'static str, f64)) {
    let report = &done.report;
    let chosen = || done.waits.iter().zip(waited).filter(|(_, waited)| **waited).map(|(wait, _)| f64::from(*wait));
    let (mean, sd) = mean_sd(&chosen().collect::<Vec<_>>());
    let share = |n: u64| 100.0 * n as f64 / report.all.jobs.max(1) as f64;
    for (name, value) in [
        ("wait_s", mean),
        ("wait_sd_s", sd),
        ("all_wait_s", report.all.mean_s),
        ("all_p50_s", report.all.p50_s),
        ("all_p90_s", report.all.p90_s),
        ("all_p99_s", report.all.p99_s),
        ("affected_percent", report.affected_percent),
        ("affected_wait_s", report.affected.mean_s),
        ("affected_sd_s", report.affected.sd_s),
        ("requeued_percent", share(report.requeued)),
        ("failures", report.failures as f64),
        ("expansion_factor", report.expansion_factor),
        ("utilisation_percent", report.utilisation_percent),
        ("held_percent", report.held_percent),
        ("queue_mean", report.queue_mean),
        ("at_risk_percent", report.at_risk_percent),
        ("copy_space_percent", report.copy_space_mean_percent),
        ("copy_space_peak_percent", report.copy_space_peak_percent),
        ("failovers", report.failovers as f64),
        ("promises_broken", report.promises.broken as f64),
    ] {
        add(name, value);
    }
}

fn struck_metrics(done: &Done, bare: &Done, add: &mut impl FnMut(&'static str, f64)) {
    let of = |waits: &[f32]| -> Vec<f64> {
        waits.iter().zip(&bare.harmed).filter(|(_, struck)| **struck).map(|(wait, _)| f64::from(*wait)).collect()
    };
    let ((here, here_sd), (there, _)) = (mean_sd(&of(&done.waits)), mean_sd(&of(&bare.waits)));
    add("struck_wait_s", here);
    add("struck_sd_s", here_sd);
    add("struck_cut", if here > 0.0 { there / here } else { f64::NAN });
    // Cost of the failure itself: the wait beyond the job's wait in this row.
    let extra = |n: usize| f64::from(bare.waits[n]) - f64::from(done.waits[n]);
    let extras: Vec<f64> = (0..bare.waits.len()).filter(|n| bare.harmed[*n]).map(extra).collect();
    add("struck_saved_s", mean_sd(&extras).0);
}

/// Mean and standard deviation.
pub(super) fn mean_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::center::{log, records};

    /// A small, busy centre with nodes that fail often.
    fn center() -> (Log, Failures) {
        let at = tempfile::tempdir().unwrap();
        let mut rng = crate::generate::Rng::new(5, 0);
        let job = |n: u64| format!("{n} {} 0 {} {} -1 -1 -1 9000 -1 1\n", n * 600, 600 + rng.below(7000), 1 + n % 16);
        let log: String = (0..400).map(job).collect();
        std::fs::write(at.path().join("a.swf"), format!("; MaxProcs: 40\n{log}")).unwrap();
        let line = |n: u64| {
            let (day, hour) = (1 + n / 4 % 27, 6 * (n % 4));
            format!(
                "1,c,4,8,2,{},0,a,b,c,part,1,1,1,0,x,1/{day}/2000 {hour}:00,1/{day}/2000 {}:30,90\n",
                n % 4,
                hour + 1
            )
        };
        std::fs::write(at.path().join("f.csv"), "head\n".to_owned() + &(0..100).map(line).collect::<String>()).unwrap();
        let log = log::open(&at.path().join("a.swf"), &log::Rules::default(), None).unwrap();
        (log, Failures::new(records::open(&at.path().join("f.csv"), 1).unwrap()))
    }

    fn plan(base: &[(&str, &str)], axes: &[(&str, &str)]) -> Plan {
        let values = |words: &str| words.split(' ').map(str::to_owned).collect();
        Plan {
            repeats: 2,
            base: base.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            axes: axes.iter().map(|(name, words)| (name.to_string(), values(words))).collect(),
        }
    }

    #[test]
    fn the_table_shows_what_recovery_is_good_for_and_is_the_same_on_any_threads() {
        let (log, failures) = center();
        let axes = [("stripes", "1 2 4"), ("recovery", "none on-the-fly ideal")];
        let plan = plan(&[("io-nodes", "4"), ("check-every", "10min")], &axes);
        let rows = run(&plan, &log, Some(&failures), Some(3), true).unwrap();
        assert_eq!(rows.len(), 9);
        assert_eq!(rows, run(&plan, &log, Some(&failures), Some(1), false).unwrap());
        let row = |stripes: &str, recovery: &str| {
            let is = |row: &&Row| row.cell["stripes"] == stripes && row.cell["recovery"] == recovery;
            &rows.iter().find(is).unwrap().metrics
        };
        for stripes in ["1", "2", "4"] {
            let (none, fly, ideal) = (row(stripes, "none"), row(stripes, "on-the-fly"), row(stripes, "ideal"));
            assert!(none["wait_s"].0 > ideal["wait_s"].0);
            assert!((fly["wait_s"].0 / ideal["wait_s"].0 - 1.0).abs() < 0.05);
            assert!(none["struck_cut"].0 == 1.0 && fly["struck_cut"].0 > 1.0);
            assert_eq!(none["promises_broken"].0 + fly["promises_broken"].0, 0.0);
        }
        assert!(row("4", "none")["affected_percent"].0 > row("1", "none")["affected_percent"].0);
        for name in ["wait_s", "wait_sd_s", "utilisation_percent", "expansion_factor"] {
            assert_eq!(row("1", "ideal")[name], row("4", "ideal")[name], "without failures stripes make no difference");
        }
    }

    #[test]
    fn wrong_settings_and_axes_are_refused() {
        assert!(plan(&[("stripes", "4")], &[("recovery", "none ideal")]).cases().is_ok());
        assert!(plan(&[("stripe", "4")], &[]).cases().is_err());
        assert!(plan(&[], &[("recovery", "none idle")]).cases().is_err());
    }
}
