//! `entrepot-lab reproduce`: the experiments of the five papers, each with a verdict.

mod description;
mod executor;
mod formula;
mod html;
mod svg;
mod text;
mod verdict;

use crate::failure::{Failure, Result};
use crate::shown;
use clap::Args;
use description::{Descriptions, Experiment};
use executor::{Executor, shard, version, wrong};
use serde::Serialize;
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
    cpu_s: f64,
    inputs: BTreeMap<String, String>,
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
        let descriptions = Descriptions::load(self.descriptions.as_deref()).map_err(wrong)?;
        let chosen = self.chosen(&descriptions)?;
        if self.list {
            shown::text(&text::list(&descriptions, &chosen))?;
            return Ok(0);
        }
        let report = self.report(&descriptions, &chosen)?;
        if let Some(path) = &self.html {
            std::fs::write(path, html::page(&report)).map_err(|error| {
                let what = path.display().to_string();
                Failure::from(Failure::of_io(&what, &error).so("finished cases are kept"))
            })?;
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
        let cores = || std::thread::available_parallelism().map_or(1, Into::into);
        let executor = Executor {
            version: version()?,
            results: self.results.clone(),
            threads: self.threads.map_or_else(cores, usize::from),
            shard: self.shard,
        };
        let outcome = executor.run(&cases)?;
        let mut runs: BTreeMap<String, Commands> = BTreeMap::new();
        for case in &cases {
            let of = runs.entry(case.run.clone()).or_insert_with(|| {
                let run = &descriptions.runs[&case.run];
                Commands {
                    setup: run.setup,
                    command: format!("entrepot-lab {}", case.words.join(" ")),
                    seeds: run.values(formula::SEED, self.quick),
                    cases: 0,
                    finished: 0,
                    cpu_s: 0.0,
                    inputs: BTreeMap::new(),
                }
            });
            of.cases += 1;
            if let Some(kept) = outcome.kept.get(&case.words) {
                of.finished += 1;
                of.cpu_s += kept.cpu_s;
                of.inputs.extend(kept.inputs.clone());
            }
        }
        let cpu_s = runs.values().map(|of| of.cpu_s).sum();
        let answers = outcome.kept.into_iter().map(|(words, kept)| (words, kept.answer)).collect();
        let circumstances = Circumstances {
            descriptions,
            answers: &answers,
            failures: &outcome.failures,
            data: &self.data,
            quick: self.quick,
        };
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
                impossible: experiment.impossible.clone(),
                figures,
            }
        };
        let rows = chosen.iter().map(row).collect();
        Ok(Report { version: executor.version, quick: self.quick, cpu_s, cases: cases.len(), runs, rows })
    }
}
