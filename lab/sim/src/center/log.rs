//! Job logs in the Standard Workload Format, and their repair before the simulation.
//!
//! A line is a job: number, submit time, wait, run time, processors allocated, CPU time, memory used (KB per
//! processor). Then follow processors requested, time requested, memory requested, status, and unused fields. Times
//! are in seconds, -1 means unknown. Lines that begin with `;` are comments; `MaxProcs` is read from them.
//!
//! Real logs contain jobs that no scheduler could have run. Each kind has a rule ([`Rules`]) and a counter
//! ([`Census`]), and a log whose counts do not add up is refused.
//!
//! Source: Feitelson's Parallel Workloads Archive, "The Standard Workload Format" version 2.2.

use crate::setup::SetupError;
use policy::time::Time;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// A job of a log after repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the log.
    pub number: u64,
    /// Submission, from that of the first job.
    pub submit: Time,
    /// Actual run time.
    pub run: Time,
    /// Run time estimated by the user.
    pub estimate: Time,
    /// Number of processors.
    pub nodes: u32,
    /// Memory per processor in bytes: used, otherwise requested.
    pub memory: Option<u64>,
}

/// Rules for jobs that cannot be simulated as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Cancelled jobs (status 5): `never-ran` drops those without run time, `drop` all, `keep` none.
    pub cancelled: &'static str,
    /// Jobs without run time: `drop`, or `1s`.
    pub zero_run: &'static str,
    /// Jobs wider than the machine: `drop`, or `clamp` to its width.
    pub too_wide: &'static str,
    /// Jobs without an estimate: `run` takes the actual run time, or `drop`.
    pub no_estimate: &'static str,
    /// Jobs that exceeded their estimate: `extend` the estimate, `cut` the run, or `keep` both (promises break then).
    pub overrun: &'static str,
    /// Jobs not in order of submission: `sort`, or `refuse`.
    pub order: &'static str,
    /// Lines that are not a job: `refuse`, or `skip`.
    pub malformed: &'static str,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            cancelled: "never-ran",
            zero_run: "drop",
            too_wide: "drop",
            no_estimate: "run",
            overrun: "extend",
            order: "sort",
            malformed: "refuse",
        }
    }
}

impl Rules {
    /// Sets a rule by name.
    pub fn set(&mut self, rule: &str, what: &str) -> Result<(), SetupError> {
        let (place, words): (_, &[&'static str]) = match rule {
            "cancelled" => (&mut self.cancelled, &["never-ran", "drop", "keep"]),
            "zero-run" => (&mut self.zero_run, &["drop", "1s"]),
            "too-wide" => (&mut self.too_wide, &["drop", "clamp"]),
            "no-estimate" => (&mut self.no_estimate, &["run", "drop"]),
            "overrun" => (&mut self.overrun, &["extend", "cut", "keep"]),
            "order" => (&mut self.order, &["sort", "refuse"]),
            "malformed" => (&mut self.malformed, &["refuse", "skip"]),
            _ => {
                let why = "rules are cancelled, zero-run, too-wide, no-estimate, overrun, order, malformed";
                return Err(SetupError::new("cleaning rule", rule, why));
            }
        };
        *place = words.iter().find(|word| **word == what).ok_or_else(|| {
            SetupError::new("cleaning rule", format!("{rule}={what}"), format!("choose {}", words.join(", ")))
        })?;
        Ok(())
    }
}

/// Contents of a log, and the results of its repair.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Census {
    /// Lines that are a job.
    pub records: u64,
    /// Lines that are not a job and were skipped.
    pub malformed: u64,
    /// Cancelled jobs that were dropped.
    pub cancelled: u64,
    /// Jobs without run time that were dropped.
    pub zero_run: u64,
    /// Jobs without run time that got a run time of one second.
    pub zero_run_mended: u64,
    /// Jobs without processors that were dropped.
    pub no_processors: u64,
    /// Jobs wider than the machine that were dropped.
    pub too_wide: u64,
    /// Jobs wider than the machine that were narrowed.
    pub too_wide_mended: u64,
    /// Jobs without an estimate that were dropped.
    pub no_estimate: u64,
    /// Jobs without an estimate that got one.
    pub no_estimate_mended: u64,
    /// Jobs that exceeded their estimate, whether repaired or not.
    pub overrun: u64,
    /// Jobs that were submitted before the job of the line above.
    pub out_of_order: u64,
    /// Jobs with a logged memory size.
    pub with_memory: u64,
    /// Number of remaining jobs.
    pub jobs: u64,
    /// Processors of the machine.
    pub procs: u32,
    /// Time from the first to the last submission, in seconds.
    pub span_s: f64,
    /// Processor-seconds of the remaining jobs, over those of the machine in the span.
    pub offered_load: f64,
}

impl Census {
    fn closes(&self) -> bool {
        let gone = self.cancelled + self.zero_run + self.no_processors + self.too_wide + self.no_estimate;
        self.records == gone + self.jobs
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  records      {}, of which {} are left; {} malformed lines skipped",
            self.records, self.jobs, self.malformed
        )?;
        writeln!(
            f,
            "  dropped      cancelled {}, without run time {}, without processors {}, too wide {}, without estimate {}",
            self.cancelled, self.zero_run, self.no_processors, self.too_wide, self.no_estimate
        )?;
        writeln!(
            f,
            "  mended       without run time {}, too wide {}, without estimate {}; ran past their estimate {}; out of order {}",
            self.zero_run_mended, self.too_wide_mended, self.no_estimate_mended, self.overrun, self.out_of_order
        )?;
        write!(
            f,
            "  machine      {} processors; {:.1} days, offered load {:.1} %; {} jobs with their memory",
            self.procs,
            self.span_s / 86_400.0,
            self.offered_load * 100.0,
            self.with_memory
        )
    }
}

/// A log after repair, in order of submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Jobs of the log.
    pub jobs: Vec<Job>,
    /// Processors of the machine.
    pub procs: u32,
    /// Counts of its lines.
    pub census: Census,
}

/// Reason why a log cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("{}: {source}; nothing was simulated. Give a job log in the Standard Workload Format, plain, .gz or .zst", path.display())]
    Io {
        /// Path of the log.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line is no job.
    #[error(
        "line {line} is no job: {what}: \"{seen}\"; nothing was simulated. Jobs have at least 11 numbers: mend it, or skip such lines with --clean malformed=skip"
    )]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// Error in the line.
        what: String,
        /// Beginning of the line.
        seen: String,
    },
    /// Jobs are not in order, and the rule refuses that.
    #[error(
        "line {line} was submitted before the one above; nothing was simulated. Sort the log, or use --clean order=sort"
    )]
    OutOfOrder {
        /// Number of the line, from 1.
        line: usize,
    },
    /// No job is left.
    #[error(
        "the log holds no job that can be simulated: {} records, {} malformed lines; nothing was simulated. Check \
         that it is a log in the Standard Workload Format",
        .census.records, .census.malformed
    )]
    Empty {
        /// Counts of the log's lines.
        census: Box<Census>,
    },
}

/// Reads a log from a file, plain or compressed.
pub fn open(path: &Path, rules: &Rules, procs: Option<u32>) -> Result<Log, LogError> {
    let text = crate::disk::validate::read(path).map_err(|source| LogError::Io { path: path.into(), source })?;
    parse(&text, rules, procs)
}

struct Record {
    line: usize,
    number: u64,
    submit: f64,
    run: f64,
    procs: f64,
    estimate: f64,
    memory_kb: f64,
    status: i64,
}

fn record(line: usize, text: &str) -> Result<Record, LogError> {
    let wrong = |what: String| LogError::Malformed { line, what, seen: text.chars().take(60).collect() };
    let mut fields = [-1.0f64; 11];
    let mut words = text.split_ascii_whitespace();
    for (n, field) in fields.iter_mut().enumerate() {
        let word = words.next().ok_or_else(|| wrong(format!("it has {n} fields")))?;
        let number: f64 = word.parse().map_err(|_| wrong(format!("`{word}` is no number")))?;
        if !number.is_finite() || number.abs() > 1e12 {
            return Err(wrong(format!("`{word}` is beyond reason")));
        }
        *field = number;
    }
    let [number, submit, _, run, allocated, _, used_kb, asked, estimate, asked_kb, status] = fields;
    let procs = if allocated > 0.0 { allocated } else { asked };
    let memory_kb = if used_kb > 0.0 { used_kb } else { asked_kb };
    Ok(Record { line, number: number.max(0.0) as u64, submit, run, procs, estimate, memory_kb, status: status as i64 })
}

/// Parses a log. `procs` is the machine's width; without it the log's own is used.
pub fn parse(text: &str, rules: &Rules, procs: Option<u32>) -> Result<Log, LogError> {
    let mut census = Census::default();
    let (mut records, mut said) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        if let Some(comment) = line.trim_start().strip_prefix(';') {
            let value = |key: &str| comment.trim().strip_prefix(key)?.trim().parse::<u32>().ok().filter(|n| *n > 0);
            said = said.or(value("MaxProcs:"));
        } else if !line.trim().is_empty() {
            match record(at + 1, line) {
                Ok(record) => records.push(record),
                Err(_) if rules.malformed == "skip" => census.malformed += 1,
                Err(error) => return Err(error),
            }
        }
    }
    census.records = records.len() as u64;
    for pair in records.windows(2).filter(|pair| pair[1].submit < pair[0].submit) {
        if rules.order == "refuse" {
            return Err(LogError::OutOfOrder { line: pair[1].line });
        }
        census.out_of_order += 1;
    }
    records.sort_by(|a, b| a.submit.total_cmp(&b.submit));
    let widest = records.iter().map(|r| r.procs.max(0.0) as u32).max().unwrap_or(0);
    census.procs = procs.or(said).unwrap_or(widest);
    let first = records.first().map_or(0.0, |record| record.submit);
    let mut jobs: Vec<Job> = records.iter().filter_map(|record| mend(record, first, rules, &mut census)).collect();
    let Some(start) = jobs.first().map(|job| job.submit) else {
        return Err(LogError::Empty { census: Box::new(census) });
    };
    jobs.iter_mut().for_each(|job| job.submit = job.submit.since(start));
    census.jobs = jobs.len() as u64;
    assert!(census.closes(), "every record is left or dropped for a reason: {census:?}");
    census.span_s = jobs.last().map_or(0.0, |job| job.submit.as_secs_f64());
    census.offered_load = offered_load(&jobs, census.procs);
    Ok(Log { jobs, procs: census.procs, census })
}

/// Returns the load of the jobs: processor-seconds over those of the machine between first and last submission.
pub fn offered_load(jobs: &[Job], procs: u32) -> f64 {
    let area: f64 = jobs.iter().map(|job| job.run.as_secs_f64() * f64::from(job.nodes)).sum();
    let span = jobs.last().map_or(0.0, |job| job.submit.as_secs_f64());
    if span > 0.0 { area / (span * f64::from(procs)) } else { 0.0 }
}

fn seconds(s: f64) -> Time {
    Time((s * 1e9).round() as u64)
}

fn mend(record: &Record, first: f64, rules: &Rules, census: &mut Census) -> Option<Job> {
    let procs = census.procs;
    let mut drop = |count: fn(&mut Census) -> &mut u64| {
        *count(census) += 1;
        None
    };
    if record.status == 5 && (rules.cancelled == "drop" || rules.cancelled == "never-ran" && record.run <= 0.0) {
        return drop(|c| &mut c.cancelled);
    }
    if record.procs < 1.0 {
        return drop(|c| &mut c.no_processors);
    }
    if record.run <= 0.0 && rules.zero_run == "drop" {
        return drop(|c| &mut c.zero_run);
    }
    let too_wide = record.procs > f64::from(procs);
    if too_wide && rules.too_wide == "drop" {
        return drop(|c| &mut c.too_wide);
    }
    if record.estimate <= 0.0 && rules.no_estimate == "drop" {
        return drop(|c| &mut c.no_estimate);
    }
    census.zero_run_mended += u64::from(record.run <= 0.0);
    census.too_wide_mended += u64::from(too_wide);
    census.no_estimate_mended += u64::from(record.estimate <= 0.0);
    let mut run = if record.run <= 0.0 { 1.0 } else { record.run };
    let mut estimate = if record.estimate <= 0.0 { run } else { record.estimate };
    if run > estimate {
        census.overrun += 1;
        match rules.overrun {
            "extend" => estimate = run,
            "cut" => run = estimate,
            _ => {}
        }
    }
    let memory = (record.memory_kb > 0.0).then_some((record.memory_kb * 1024.0) as u64);
    census.with_memory += u64::from(memory.is_some());
    Some(Job {
        number: record.number,
        submit: seconds(record.submit - first),
        run: seconds(run),
        estimate: seconds(estimate),
        nodes: if too_wide { procs } else { record.procs as u32 },
        memory,
    })
}

#[cfg(test)]
mod tests;
