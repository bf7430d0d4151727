//! `entrepot-lab reproduce`: the experiments of the five papers, each with a verdict.

mod cases;
mod description;
mod formula;
mod html;
mod live;
mod split;
mod text;
mod verdict;

use super::executor::{self, Answer, Executor, Inputs};
use super::{Command, seconds, write_file};
use crate::failure::{Failure, Result};
use crate::{shown, table};
use clap::Args;
use description::{Descriptions, Experiment};
use node::control::Problem;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use verdict::{Circumstances, Judged, Verdict};

/// Run the experiments of the papers, and judge each published figure
///
/// Each experiment has a description: commands, published numbers, tolerance, input data, and the assumption on which
/// the verdict depends. Finished cases are kept, so a second run goes on where the first one ended. A missing input
/// costs its own cases only. The exit status is 0 whatever the verdicts are.
#[derive(Debug, Args)]
#[command(after_help = "\
VERDICTS:
  reproduced          each deciding figure is within its tolerance (where the paper has a sign, an order or a bound
                      only: it holds)
  same direction      each deciding figure has the published sign (in every seed) and order
  not reproduced      a deciding figure has not
  not possible here   the description says why, or an input is missing

EXAMPLES:
  entrepot-lab reproduce --list
  entrepot-lab reproduce --quick
  entrepot-lab reproduce Z15 S17 --html report.html
  entrepot-lab reproduce --live --list
  entrepot-lab reproduce --live T04 S17
  entrepot-lab reproduce --descriptions my-experiments --csv cases.csv
  entrepot-lab reproduce --data /srv/traces --shard 1/4 --results /shared/results")]
pub struct Reproduce {
    /// Experiments, such as Z15; a letter stands for all of its rows. Without any: all.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// List the experiments and their commands; run nothing.
    #[arg(long)]
    list: bool,
    /// Smaller scales: they show that every command runs; verdicts need the full scale.
    #[arg(long)]
    quick: bool,
    /// Also run the benchmarks that measure a volume on this machine: in the root of the source tree, after `make
    /// build lab`, on an idle machine.
    #[arg(long)]
    live: bool,
    /// Directory of the traces and logs.
    #[arg(long, value_name = "DIR", env = "ENTREPOT_DATA", default_value = "data")]
    data: PathBuf,
    /// Directory in which finished cases are kept.
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    results: PathBuf,
    /// Cases side by side; without it, as many as there are cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Run this part of the cases only; the last part, or a run without it, prints the verdicts of all.
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    shard: (u64, u64),
    /// Descriptions from a folder instead of the built-in ones.
    #[arg(long, value_name = "DIR")]
    descriptions: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the report as a page in Markdown.
    #[arg(long)]
    markdown: bool,
    /// Write the numbers that the figures read from each case to a file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the report with charts to one file, which needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// An experiment with its verdict.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    title: String,
    source: String,
    input: String,
    tuned_on: String,
    verdict: Verdict,
    cause: String,
    impossible: Option<String>,
    figures: Vec<Judged>,
}

#[derive(Debug, Serialize)]
struct Commands {
    setup: description::Setup,
    command: String,
    seeds: Vec<String>,
    cases: usize,
    finished: usize,
    /// Processor time of the simulations; processes of live cases are not counted.
    cpu_s: f64,
    inputs: BTreeMap<String, String>,
    /// Values of an axis that tuned our parameters, and those that judge.
    split: Option<split::Sides>,
}

/// Everything that the report shows.
#[derive(Debug, Serialize)]
struct Report {
    version: String,
    quick: bool,
    cpu_s: f64,
    cases: usize,
    runs: BTreeMap<String, Commands>,
    rows: Vec<Row>,
}

impl Report {
    /// The experiments with a verdict.
    fn ids(&self, verdict: Verdict) -> Vec<&str> {
        self.rows.iter().filter(|row| row.verdict == verdict).map(|row| &*row.id).collect()
    }
}

impl Reproduce {
    pub fn run(self) -> Result<u8> {
        let mut descriptions = Descriptions::load(self.descriptions.as_deref()).map_err(wrong)?;
        if !self.live {
            descriptions.leave_out_live();
        }
        let chosen = self.chosen(&descriptions)?;
        if self.list {
            shown::text(&text::list(&descriptions, &chosen))?;
            return Ok(0);
        }
        let report = self.report(&descriptions, &chosen)?;
        if let Some(path) = &self.html {
            write_file(path, &html::page(&report))?;
        }
        match (self.json, self.markdown) {
            (true, _) => shown::json(&report)?,
            (_, true) => shown::text(&text::markdown(&report))?,
            _ => shown::text(&text::table(&report))?,
        }
        Ok(0)
    }

    fn chosen<'a>(&self, all: &'a Descriptions) -> Result<Vec<&'a Experiment>> {
        let is = |of: &Experiment, word: &String| of.id == *word || word.len() == 1 && of.id.starts_with(word.as_str());
        if let Some(word) = self.experiments.iter().find(|word| !all.experiments.iter().any(|of| is(of, word))) {
            return Err(wrong(format!("there is no experiment `{word}`")));
        }
        let chosen = |of: &&Experiment| self.experiments.is_empty() || self.experiments.iter().any(|word| is(of, word));
        Ok(all.experiments.iter().filter(chosen).collect())
    }

    fn report(&self, descriptions: &Descriptions, chosen: &[&Experiment]) -> Result<Report> {
        let cases = descriptions.cases(chosen, &self.data, self.quick).map_err(wrong)?;
        std::fs::create_dir_all(&self.results)
            .map_err(|error| Failure::of_io(&self.results.display().to_string(), &error))?;
        let (version, threads) = (executor::version()?, self.threads.map(usize::from));
        let mut executor = Executor::new(version.clone(), self.results.clone(), threads);
        executor.shard = self.shard;
        let done = executor.run(&cases, |at, inputs| match descriptions.runs[&cases[at].run].live {
            None => answer(&cases[at].words, inputs),
            Some(times) => {
                let (words, kept) = (&cases[at].words, self.results.join(&cases[at].run));
                let wanted = descriptions.paths(&cases[at].run)?;
                let answer = live::measure(words, &kept, times.time_max(), &wanted, &executor.stop)?;
                Ok(Kept { command: words.join(" "), inputs: inputs.clone(), cpu_s: 0.0, answer })
            }
        })?;
        let mut runs: BTreeMap<String, Commands> = BTreeMap::new();
        for (case, done) in cases.iter().zip(&done) {
            let of = runs.entry(case.run.clone()).or_insert_with(|| {
                let run = &descriptions.runs[&case.run];
                Commands {
                    setup: run.setup,
                    command: run.shown(&case.words.join(" ")),
                    seeds: run.values(formula::SEED, self.quick),
                    cases: 0,
                    finished: 0,
                    cpu_s: 0.0,
                    inputs: BTreeMap::new(),
                    split: run.split.as_ref().map(|split| split.sides(run, self.quick)),
                }
            });
            of.cases += 1;
            if let Ok(kept) = done {
                of.finished += 1;
                of.cpu_s += kept.cpu_s;
                of.inputs.extend(kept.inputs.clone());
            }
        }
        let cpu_s = runs.values().map(|of| of.cpu_s).sum();
        let done = done.into_iter().map(|done| done.map(|kept| kept.answer));
        let answers = cases.iter().map(|case| case.words.clone()).zip(done).collect();
        if let Some(path) = &self.csv {
            write_file(path, &cases::csv(descriptions, chosen, &answers, &self.data, self.quick).map_err(wrong)?)?;
        }
        let circumstances = Circumstances { descriptions, answers: &answers, data: &self.data, quick: self.quick };
        let row = |experiment: &&Experiment| {
            let (verdict, figures) = circumstances.judge(experiment);
            Row {
                id: experiment.id.clone(),
                title: experiment.title.clone(),
                source: experiment.source.clone(),
                input: experiment.input.clone(),
                tuned_on: experiment.tuned_on.clone(),
                verdict,
                cause: experiment.cause.clone(),
                impossible: experiment.impossible.clone().filter(|_| verdict == Verdict::NotPossible),
                figures,
            }
        };
        let rows = chosen.iter().map(row).collect();
        Ok(Report { version, quick: self.quick, cpu_s, cases: cases.len(), runs, rows })
    }
}

/// A finished case, as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    command: String,
    /// Hashes of the input files, by path.
    inputs: Inputs,
    cpu_s: f64,
    answer: Value,
}

fn answer(words: &[String], inputs: &Inputs) -> Answer<Kept> {
    let before = seconds(ClockId::ThreadCPUTime);
    let answer = match parsed(words)?.answer() {
        Ok(table::Answer::Json(answer)) => answer,
        Ok(table::Answer::Text(_)) => return Err("the command has no answer in JSON".into()),
        Err(Failure::Problem(problem)) => return Err(problem.cause),
        Err(other) => return Err(format!("{other:?}")),
    };
    let cpu_s = seconds(ClockId::ThreadCPUTime) - before;
    Ok(Kept { command: words.join(" "), inputs: inputs.clone(), cpu_s, answer })
}

/// Parses a command of a description.
fn parsed(words: &[String]) -> Answer<Command> {
    let all = words.iter().map(String::as_str).chain(["--output", "json"]);
    Command::parse(all).map_err(|error| error.to_string())
}

/// Parses a part and the number of parts.
fn shard(text: &str) -> Answer<(u64, u64)> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(i, n)| (1..=*n).contains(i)).ok_or_else(|| "give a part and the number of parts: 1/4".into())
}

/// A wrong description.
fn wrong(cause: impl Into<String>) -> Failure {
    let problem = Problem::wrong(cause.into()).so("nothing was simulated");
    problem.try_this("see `entrepot-lab reproduce --list`").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_several() {
        assert_eq!(shard("2/3"), Ok((2, 3)));
        assert!(["0/3", "4/3", "x/3", "1"].iter().all(|text| shard(text).is_err()));
    }
}
