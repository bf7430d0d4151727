//! Grids of centres: logs, axes whose values are combined, repeats with other seeds, and the table of results.
//!
//! ```toml
//! name = "stripe counts"
//! failures = "lanl-failures.csv.gz"
//! system = 20
//! repeats = 5                          # seeds 1 to 5
//! [[log]]
//! name = "KTH"
//! path = "KTH-SP2-1996-2.1-cln.swf.gz"
//! [base]                               # settings that differ from the defaults
//! io-nodes = 64
//! [axes]                               # every combination is a row
//! stripes = [2, 4, 8, 16, 32]
//! recovery = ["none", "on-the-fly", "ideal"]
//! ```
//! Comparisons between rows are computed here. A job counts as *waiting* if it waited in any row of its log, load and
//! seed. A job counts as *struck* if a failure harmed it in the row that has neither recovery nor replication but is
//! otherwise equal.

use super::log::{LogError, Rules};
use super::outages::Failures;
use super::records::RecordsError;
use super::setup::Setup;
use super::world::{JobOutcome, Report, simulate};
use super::{Log, log, records};
use crate::grid::{Case, Cell, Word, cross, side_by_side};
use crate::setup::{Settable, SetupError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A grid file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Title of the table.
    #[serde(default)]
    pub name: String,
    /// Path of LANL's failure records.
    pub failures: Option<PathBuf>,
    /// Number of the system in the records.
    #[serde(default = "system_20")]
    pub system: u32,
    /// Number of seeds, from that of the base on.
    #[serde(default = "one")]
    pub repeats: u64,
    /// Job logs of the grid.
    pub log: Vec<LogWish>,
    /// Settings that differ from the defaults.
    #[serde(default)]
    pub base: BTreeMap<String, Word>,
    /// Settings that vary.
    #[serde(default)]
    pub axes: BTreeMap<String, Vec<Word>>,
}

fn system_20() -> u32 {
    20
}

fn one() -> u64 {
    1
}

/// A log of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogWish {
    /// Name of the log.
    pub name: String,
    /// Path of the log.
    pub path: PathBuf,
    /// Processors of the machine; without it the log's own number is used.
    pub procs: Option<u32>,
    /// Rules of its repair.
    #[serde(default)]
    pub clean: Rules,
    /// Settings that differ from the base for this log.
    #[serde(default)]
    pub set: BTreeMap<String, Word>,
}

/// Error in a plan or its files.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The grid file is malformed.
    #[error(
        "the grid file is not valid: {0}; nothing was simulated. See `entrepot-lab sim center --help` for an example"
    )]
    File(String),
    /// A setting is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A log cannot be read.
    #[error("log {name}: {source}")]
    Log {
        /// Name of the log.
        name: String,
        /// Error of the log.
        source: LogError,
    },
    /// The failure records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// A plan and the contents of its files.
pub struct Loaded {
    /// Logs with their names.
    pub logs: Vec<(String, Log)>,
    /// Failure records and their fit.
    pub failures: Option<Failures>,
    cases: Vec<Case<Setup>>,
}

impl Plan {
    /// Reads a grid file.
    pub fn parse(text: &str) -> Result<Plan, PlanError> {
        let plan: Plan = toml::from_str(text).map_err(|error| PlanError::File(error.to_string()))?;
        if plan.log.is_empty() {
            return Err(PlanError::File("there is no [[log]]".into()));
        }
        if !(1..=10_000).contains(&plan.repeats) {
            return Err(PlanError::File("repeats are 1 to 10000".into()));
        }
        Ok(plan)
    }

    /// Checks all settings, then reads logs and records, whose paths are relative to `beside`.
    pub fn load(&self, beside: &Path) -> Result<Loaded, PlanError> {
        let cases = self.cases()?;
        let mut logs = Vec::new();
        for wish in &self.log {
            let log = log::open(&beside.join(&wish.path), &wish.clean, wish.procs)
                .map_err(|source| PlanError::Log { name: wish.name.clone(), source })?;
            logs.push((wish.name.clone(), log));
        }
        let records = self.failures.as_ref().map(|path| records::open(&beside.join(path), self.system)).transpose()?;
        Ok(Loaded { logs, failures: records.map(Failures::new), cases })
    }

    fn cases(&self) -> Result<Vec<Case<Setup>>, SetupError> {
        let mut cases = Vec::new();
        for (input, wish) in self.log.iter().enumerate() {
            let mut setup = Setup::default();
            for (name, value) in self.base.iter().chain(&wish.set) {
                setup.set(name, &value.to_string())?;
            }
            cases.push(Case { cell: Cell::from([("log".to_owned(), wish.name.clone())]), input, setup });
        }
        cross(cases, self.axes.iter().map(|(axis, values)| (axis.as_str(), values.as_slice())))
    }
}

/// A simulated centre, and the data of its jobs that the table needs.
struct Done {
    report: Report,
    waits: Vec<f32>,
    harmed: Vec<bool>,
}

/// One row of the table: a cell, with means over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The values of the axes.
    pub cell: Cell,
    /// Mean over the repeats and standard deviation of each metric, by name.
    pub metrics: BTreeMap<String, (f64, f64)>,
}

/// Simulates all cases on `threads` threads and makes the table. `check` as for [`simulate`].
pub fn run(loaded: &Loaded, repeats: u64, threads: Option<usize>, check: bool) -> Result<Vec<Row>, PlanError> {
    let cases = &loaded.cases;
    let runs: Vec<_> = cases.iter().flat_map(|case| (0..repeats).map(move |repeat| (case, repeat))).collect();
    let done = side_by_side(&runs, threads, |(case, repeat)| {
        let setup = Setup { seed: case.setup.seed.wrapping_add(*repeat), ..case.setup.clone() };
        one_case(&setup, &loaded.logs[case.input].1, loaded.failures.as_ref(), check)
    });
    let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(table(cases, &done, repeats as usize))
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
    is(&case.setup) && case.input == of.input && case.setup == other
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

fn mean_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: &str = r#"
        failures = "f.csv"
        system = 1
        repeats = 2
        [[log]]
        name = "a"
        path = "a.swf"
        [base]
        io-nodes = 4
        check-every = "10min"
        [axes]
        stripes = [1, 2, 4]
        recovery = ["none", "on-the-fly", "ideal"]
    "#;

    /// A small, busy centre with nodes that fail often.
    fn files() -> tempfile::TempDir {
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
        at
    }

    #[test]
    fn the_table_shows_what_recovery_is_good_for_and_is_the_same_on_any_threads() {
        let at = files();
        let plan = Plan::parse(GRID).unwrap();
        let loaded = plan.load(at.path()).unwrap();
        let rows = run(&loaded, plan.repeats, Some(3), true).unwrap();
        assert_eq!(rows.len(), 9);
        assert_eq!(rows, run(&loaded, plan.repeats, Some(1), false).unwrap());
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
    fn mistakes_are_found_before_anything_is_read() {
        let at = tempfile::tempdir().unwrap();
        let wrong = |from: &str, to: &str| {
            Plan::parse(&GRID.replace(from, to)).and_then(|plan| plan.load(at.path()).map(|_| ()))
        };
        assert!(matches!(wrong("[axes]", "[axis]"), Err(PlanError::File(_))));
        assert!(matches!(wrong("ideal", "idle"), Err(PlanError::Setup(_))));
        assert!(matches!(wrong("repeats = 2", "repeats = 0"), Err(PlanError::File(_))));
        assert!(matches!(wrong("stripes =", "stripe ="), Err(PlanError::Setup(_))));
        assert!(matches!(wrong("x", "x"), Err(PlanError::Log { .. })));
    }
}
