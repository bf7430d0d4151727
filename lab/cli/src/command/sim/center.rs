//! `entrepot-lab sim center`: a computing centre with a batch queue, I/O nodes that fail, recovery and replication.

use super::words::{Axis, Setting, axis, setting};
use super::{remark, said};
use crate::command::write_file;
use crate::failure::{Failure, Result};
use crate::table::{self, Answer, Column, Output, column};
use clap::Args;
use node::control::Problem;
use serde_json::json;
use sim::center::plan::{self, Plan};
use sim::center::{Failures, JobOutcome, Log, Report, Rules, Sample, Setup, Waits, log, records};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Simulate a computing centre: a job log through FCFS and EASY backfilling, with I/O nodes that fail
///
/// Scheduler, replication window, failover and repair order are the ones that the live system runs. Before anything is
/// simulated the log's census is shown: what was in it, what was dropped or mended, and why. The exit status is 1 if a
/// job at the head of the queue started later than it was promised though no job ran past its estimate.
#[derive(Debug, Args)]
#[command(after_help = "\
SETTINGS (--set NAME=VALUE, --sweep NAME=V1,V2,...), with their defaults:
  stripes=4              I/O nodes over which a job's input is striped
  io-nodes=64            I/O nodes in all
  recovery=none          none, offline, on-the-fly, ideal (no I/O node ever fails)
  replication=none       none, fcfs, shortcut, all, dispatch-aware (knows the true order of dispatch)
  alpha=0.2              eagerness of the replication window, or inf
  threshold=0.01         T: jobs of at most T of the machine are replicated at once (shortcut)
  removal=eager          when copies are removed: eager (input read), job-end
  load=1                 a factor on the rate of submissions, or a part of the machine like 80%
  failure-model=records  records, exponential, weibull (renewal processes fitted to the records)
  seed=1                 of placement and failures
  reads-for=1            part of its run in which a job reads its input
  error-after=60s        until a job whose input is missing fails
  check-every=5min, detection=25s, source-rate=34.41MB/s, repair-streams=4      offline recovery
  recovery-overhead=1s, failover-time=0.9s      what a failure adds to a run on the fly, or with a replica
  copy-rate=300MB/s      at which a copy is made
  memory=2GB, input-share=0.1, memory-of-log=true      an input is as large as this part of its job's memory
  scratch=jaguar         scratch space: in Jaguar's proportion to memory, or bytes
  snapshots=300, scan-max=0

CLEANING (--clean RULE=WHAT), defaults first:
  cancelled=never-ran|drop|keep   zero-run=drop|1s     too-wide=drop|clamp   no-estimate=run|drop
  overrun=extend|cut|keep         order=sort|refuse    malformed=refuse|skip

EXAMPLES:
  entrepot-lab sim center --jobs KTH.swf.gz
  entrepot-lab sim center --jobs KTH.swf.gz --failures lanl-failures.csv.gz --stripes 32 --recovery on-the-fly
  entrepot-lab sim center --jobs KTH.swf.gz --schedule jobs.csv
  entrepot-lab sim center --jobs RICC.swf.gz --failures lanl.csv.gz --sweep stripes=2,8,32 --sweep recovery=none,on-the-fly,ideal
  entrepot-lab sim center --jobs RICC.swf.gz --replication shortcut --sweep threshold=0.01,0.1 --sweep alpha=0.2,0.5,2,inf")]
pub struct Center {
    /// The job log, in the Standard Workload Format; plain, .gz or .zst.
    #[arg(long, value_name = "LOG.swf")]
    jobs: PathBuf,
    /// LANL's failure records; without them no I/O node fails.
    #[arg(long, value_name = "FILE")]
    failures: Option<PathBuf>,
    /// Number of one of LANL's systems.
    #[arg(long, default_value_t = 20, value_name = "N")]
    system: u32,
    /// Processors of the machine, if they differ from the log.
    #[arg(long, value_name = "N")]
    procs: Option<u32>,
    /// How the log is mended.
    #[arg(long, value_name = "RULE=WHAT", value_parser = setting)]
    clean: Vec<Setting>,
    /// Stripes of a job's input.
    #[arg(long, value_name = "N")]
    stripes: Option<String>,
    /// none, offline, on-the-fly, ideal.
    #[arg(long)]
    recovery: Option<String>,
    /// none, fcfs, shortcut, all, dispatch-aware.
    #[arg(long)]
    replication: Option<String>,
    /// Eagerness of the replication window.
    #[arg(long)]
    alpha: Option<String>,
    /// The shortcut's T.
    #[arg(long)]
    threshold: Option<String>,
    /// A factor, or a part of the machine.
    #[arg(long)]
    load: Option<String>,
    /// records, exponential, weibull.
    #[arg(long)]
    failure_model: Option<String>,
    /// Seed of placement and failures.
    #[arg(long)]
    seed: Option<String>,
    /// Any other setting.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<Setting>,
    /// Vary a setting; several are combined.
    #[arg(long, value_name = "NAME=V1,V2,...", value_parser = axis)]
    sweep: Vec<Axis>,
    /// Number of seeds; means are shown.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    repeats: u64,
    /// Write samples of queue and copies to this file, as comma-separated values.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sweep", "repeats"])]
    timeline: Option<PathBuf>,
    /// Write the schedule to this file, a row for each job, as comma-separated values.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sweep", "repeats"])]
    schedule: Option<PathBuf>,
    /// Centres simulated side by side; without it, as many as there are cores.
    #[arg(long, value_name = "N", value_parser = super::words::threads)]
    threads: Option<usize>,
    /// Let every machine check its invariants after every event; slow.
    #[arg(long)]
    check: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Center {
    pub fn run(self) -> Result<u8> {
        let (answer, broken) = self.answer()?;
        answer.write()?;
        verdict(broken)
    }

    /// The answer, and whether a promise was broken.
    pub fn answer(&self) -> Result<(Answer, bool)> {
        let plan = Plan { repeats: self.repeats, base: self.settings(), axes: self.sweep.iter().cloned().collect() };
        plan.cases().map_err(problem)?;
        let mut clean = Rules::default();
        for (rule, what) in &self.clean {
            clean.set(rule, what).map_err(problem)?;
        }
        let name = self.jobs.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let log = log::open(&self.jobs, &clean, self.procs).map_err(|error| problem(format!("log {name}: {error}")))?;
        let records = self.failures.as_ref().map(|path| records::open(path, self.system)).transpose();
        let failures = records.map_err(problem)?.map(Failures::new);
        self.show_input(&name, &log, failures.as_ref())?;
        if self.sweep.is_empty() && plan.repeats == 1 {
            return self.one(&plan, &name, &log, failures.as_ref());
        }
        let rows = plan::run(&plan, &log, failures.as_ref(), self.threads, self.check).map_err(problem)?;
        let (text, json) = (|| text_of(&plan, &rows), || json!({ "log": name, "plan": plan, "rows": rows }));
        let broken: f64 = rows.iter().filter_map(|row| row.metrics.get("promises_broken")).map(|(mean, _)| mean).sum();
        Ok((table::answer(self.output, &columns(&plan, &rows), &rows, text, json), broken > 0.0))
    }

    /// Settings from the flags.
    fn settings(&self) -> BTreeMap<String, String> {
        let flags = [
            ("stripes", &self.stripes),
            ("recovery", &self.recovery),
            ("replication", &self.replication),
            ("alpha", &self.alpha),
            ("threshold", &self.threshold),
            ("load", &self.load),
            ("failure-model", &self.failure_model),
            ("seed", &self.seed),
        ];
        let flags = flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        flags.chain(self.set.iter().cloned()).collect()
    }

    fn show_input(&self, name: &str, log: &Log, failures: Option<&Failures>) -> Result<()> {
        let mut text = format!("log          {name}\n{}\n", log.census);
        match failures {
            None => text += "failures     none: no I/O node fails\n",
            Some(Failures { records, fit }) => {
                let _ = writeln!(
                    text,
                    "failures     {} records of {} nodes of system {} in {:.1} days; {} without duration skipped",
                    records.records,
                    records.nodes,
                    records.system,
                    records.span.as_secs_f64() / 86_400.0,
                    records.empty
                );
                match fit {
                    Some(fit) => _ = writeln!(text, "{fit}"),
                    None => text += "  fitted       nothing: too few failures\n",
                }
            }
        }
        remark(self.output, &(text + "\n"))
    }

    fn one(&self, plan: &Plan, name: &str, log: &Log, failures: Option<&Failures>) -> Result<(Answer, bool)> {
        let setup = plan.setup().map_err(problem)?;
        // A wrong path is reported before the work.
        for path in self.timeline.iter().chain(&self.schedule) {
            write_file(path, "")?;
        }
        let (report, outcomes) = sim::center::simulate(&setup, log, failures, self.check).map_err(problem)?;
        if let Some(path) = &self.timeline {
            timeline(path, &report)?;
        }
        if let Some(path) = &self.schedule {
            schedule(path, &log.jobs, &outcomes)?;
        }
        let json = || json!({ "log": name, "settings": plan.base, "census": log.census, "report": report });
        let answer = table::answer(self.output, &waits(), &jobs(&report), || text(&setup, &report), json);
        Ok((answer, report.promises.broken > 0))
    }
}

/// The exit status, and a message if a promise was broken.
fn verdict(broken: bool) -> Result<u8> {
    if !broken {
        return Ok(0);
    }
    let problem = Problem::failed("jobs at the head of the queue started later than promised, though no job overran");
    Err(problem.so("the scheduler has a fault").try_this("run again with --check and report it with the log").into())
}

fn problem(error: impl ToString) -> Failure {
    said(&error.to_string(), true).into()
}

/// Name of a set of jobs, and their waits.
type JobsWaits<'a> = (&'static str, &'a Waits);

fn jobs(report: &Report) -> [JobsWaits<'_>; 3] {
    [("all", &report.all), ("waited", &report.waited), ("affected", &report.affected)]
}

fn waits<'a>() -> Vec<Column<'a, JobsWaits<'a>>> {
    vec![
        column("jobs", |(of, _): &JobsWaits<'_>| *of).shown("wait of jobs", 0),
        column("jobs_n", |(_, of): &JobsWaits<'_>| of.jobs).shown("jobs", 0),
        column("mean_s", |(_, of): &JobsWaits<'_>| of.mean_s).shown("mean s", 1),
        column("sd_s", |(_, of): &JobsWaits<'_>| of.sd_s).shown("SD s", 1),
        column("p50_s", |(_, of): &JobsWaits<'_>| of.p50_s).shown("p50 s", 0),
        column("p90_s", |(_, of): &JobsWaits<'_>| of.p90_s).shown("p90 s", 0),
        column("p99_s", |(_, of): &JobsWaits<'_>| of.p99_s).shown("p99 s", 0),
        column("max_s", |(_, of): &JobsWaits<'_>| of.max_s).shown("max s", 0),
    ]
}

fn text(setup: &Setup, report: &Report) -> String {
    let mut text = format!(
        "centre       {} stripes over {} I/O nodes, recovery {}, replication {}, load {}, seed {}\n",
        setup.stripes, setup.io_nodes, setup.recovery, setup.replication, setup.load, setup.seed
    );
    text += &table::text(&waits(), &jobs(report));
    let _ = writeln!(
        text,
        "failures     {} of I/O nodes; {:.3} % of the jobs affected, {} runs to the tail of the queue, {} inputs brought back while waiting",
        report.failures, report.affected_percent, report.requeued, report.patched
    );
    let _ = writeln!(
        text,
        "use          {:.2} % by runs that succeeded, {:.2} % in all; expansion factor {:.2}; until {:.1} days",
        report.utilisation_percent,
        report.held_percent,
        report.expansion_factor,
        report.makespan_s / 86_400.0
    );
    let _ = writeln!(
        text,
        "queue        {:.1} jobs on average; {} started in turn, {} backfilled; promises kept {}, excused {}, broken {}",
        report.queue_mean,
        report.started_in_turn,
        report.backfilled,
        report.promises.kept,
        report.promises.excused,
        report.promises.broken
    );
    if setup.replication != sim::center::setup::Replication::None {
        let _ = writeln!(
            text,
            "copies       {:.2} % of the jobs at risk; {:.4} % of the scratch space on average, {:.4} % at most; {} replicas took over",
            report.at_risk_percent, report.copy_space_mean_percent, report.copy_space_peak_percent, report.failovers
        );
    }
    text
}

fn timeline(path: &Path, report: &Report) -> Result<()> {
    let columns = [
        column("at_s", |s: &Sample| s.at_s),
        column("waiting", |s: &Sample| s.waiting),
        column("busy", |s: &Sample| s.busy),
        column("copies", |s: &Sample| s.copies),
        column("copy_bytes", |s: &Sample| s.copy_bytes),
    ];
    write_file(path, &table::csv(&columns, &report.samples))
}

fn schedule(path: &Path, jobs: &[log::Job], outcomes: &[JobOutcome]) -> Result<()> {
    type Row<'a> = (&'a log::Job, &'a JobOutcome);
    let rows: Vec<Row<'_>> = jobs.iter().zip(outcomes).collect();
    let columns = [
        column("job", |(job, _): &Row<'_>| job.number),
        column("processors", |(job, _): &Row<'_>| job.nodes),
        column("estimate_s", |(job, _): &Row<'_>| job.estimate.as_secs_f64()),
        column("submit_s", |(_, of): &Row<'_>| of.submit_s),
        column("start_s", |(_, of): &Row<'_>| of.start_s),
        column("end_s", |(_, of): &Row<'_>| of.end_s),
        column("wait_s", |(_, of): &Row<'_>| of.wait_s),
        column("harmed", |(_, of): &Row<'_>| u32::from(of.harmed)),
    ];
    write_file(path, &table::csv(&columns, &rows))
}

/// Metrics in the table: metric, heading, digits behind the point.
const SHOWN: [(&str, &str, usize); 10] = [
    ("wait_s", "wait s", 0),
    ("wait_sd_s", "SD s", 0),
    ("affected_percent", "affected %", 3),
    ("struck_wait_s", "struck s", 0),
    ("struck_cut", "cut", 2),
    ("expansion_factor", "expansion", 2),
    ("utilisation_percent", "use %", 2),
    ("at_risk_percent", "at risk %", 2),
    ("copy_space_percent", "copies %", 4),
    ("promises_broken", "broken", 0),
];

/// The axes, then mean and standard deviation of every metric; the text shows the informative ones.
fn columns<'a>(plan: &Plan, rows: &'a [plan::Row]) -> Vec<Column<'a, plan::Row>> {
    let axes: BTreeSet<&String> = rows.iter().flat_map(|row| row.cell.keys()).collect();
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.metrics.keys()).collect();
    let axis = |axis: &'a String| column(axis, |row: &plan::Row| row.cell.get(axis).cloned()).shown(axis, 0);
    let mut columns: Vec<_> = axes.into_iter().map(axis).collect();
    for name in names {
        let of = |row: &plan::Row| row.metrics.get(name).copied();
        let mean = column(name, move |row| of(row).map(|(mean, _)| mean));
        let spread = column(format!("{name}_over_repeats_sd"), move |row| of(row).map(|(_, sd)| sd));
        let always = matches!(name.as_str(), "wait_s" | "promises_broken");
        let says = always || rows.iter().filter_map(of).any(|(mean, _)| mean != 0.0);
        let varies = plan.repeats > 1 && rows.iter().filter_map(of).any(|(_, sd)| sd > 0.0);
        columns.extend(match SHOWN.iter().find(|(shown, ..)| shown == name).filter(|_| says) {
            Some((_, heading, digits)) if varies => [mean.shown(*heading, *digits), spread.shown("±", *digits)],
            Some((_, heading, digits)) => [mean.shown(*heading, *digits), spread],
            None => [mean, spread],
        });
    }
    columns
}

fn text_of(plan: &Plan, rows: &[plan::Row]) -> String {
    let mut text = table::text(&columns(plan, rows), rows);
    let _ = writeln!(
        text,
        "\nwait: jobs that waited in some row of the same load; struck: jobs that a failure harms without recovery and\n\
         replication; cut: their wait without, over their wait here. Means over {} seed(s){}.",
        plan.repeats,
        if plan.repeats > 1 { ", ± standard deviation over them" } else { "" }
    );
    text
}
