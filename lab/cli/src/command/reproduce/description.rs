//! Descriptions of the papers' experiments: TOML files in `lab/cli/experiments`, a file for each chapter.
//!
//! ```toml
//! [run.two-streams]                # cases: every combination of the axes
//! setup = "published"
//! command = "sim cache --generate rates:rates=1000/{rate},seconds={seconds} {policy} --seed {seed}"
//! fixed = { seconds = 10 }
//! axes = { rate = [3000, 5000], policy = [["ets", "--l2-trigger ets"], ["32-32", "--l2-trigger fixed:32"]], seed = [1, 2] }
//! quick = { seconds = 2, seed = [1] }
//! split = { axis = "rate", tuning = ["3000"] }     # of a run whose parameters are ours; the other rates judge
//!
//! [run.live-tier]                  # a command of the source tree, which prints tables (see `live`)
//! command = "benches/tier/run.sh {entrepot}"
//! live = { minutes = 2, minutes_max = 10 }
//!
//! [[experiment]]
//! id = "Z02"
//! title = "..."
//! source = "Zhang, 2.6.1, figure 2.5"
//! input = "generated as published"
//! cause = "..."
//! [[experiment.figure]]
//! name = "ETS against 32-32"
//! run = "two-streams"
//! value = "mean(100 * (report.reads.mean_ms[policy=ets] / report.reads.mean_ms[policy=32-32] - 1))"
//! published = -19.0
//! within = 0.25
//! ```

use super::formula::{Cell, Formula, SEED};
use super::live::Live;
use super::split::{DATA, Split};
use crate::command::executor::Case;
use crate::shown;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The embedded files.
const FILES: [(&str, &str); 8] = [
    ("prefetching", include_str!("../../../experiments/prefetching.toml")),
    ("coordination", include_str!("../../../experiments/coordination.toml")),
    ("jobs", include_str!("../../../experiments/jobs.toml")),
    ("connections", include_str!("../../../experiments/connections.toml")),
    ("burst", include_str!("../../../experiments/burst.toml")),
    ("recovery", include_str!("../../../experiments/recovery.toml")),
    ("stripes", include_str!("../../../experiments/stripes.toml")),
    ("tiers", include_str!("../../../experiments/tiers.toml")),
];

/// Options before the name of an input file.
const INPUT_OPTIONS: [&str; 6] = ["--trace", "--jobs", "--failures", "--rules", "--disk", "stats"];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    run: BTreeMap<String, Run>,
    #[serde(default)]
    experiment: Vec<Experiment>,
}

/// Runs and experiments of all files.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    pub runs: BTreeMap<String, Run>,
    pub experiments: Vec<Experiment>,
}

/// Setup of the simulation.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Setup {
    /// The published one, as far as it is known.
    #[default]
    Published,
    /// Present devices, or parameters of our own.
    Modern,
}

/// A command, varied along axes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(default)]
    pub setup: Setup,
    pub command: String,
    /// Words that do not vary.
    #[serde(default)]
    fixed: BTreeMap<String, Word>,
    #[serde(default)]
    axes: BTreeMap<String, Vec<Word>>,
    /// Replacements of axes and fixed words for `--quick`.
    #[serde(default)]
    quick: BTreeMap<String, Words>,
    #[serde(default)]
    pub split: Option<Split>,
    /// Times of a command that measures this machine, for `--live`.
    #[serde(default)]
    pub live: Option<Live>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    Many(Vec<Word>),
    One(Word),
}

/// A value of an axis or a fixed word. A named value has a name in labels and another text in the command.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Word {
    Integer(i64),
    Number(f64),
    Text(String),
    Named(String, String),
}

impl Word {
    fn name_and_text(&self) -> (String, String) {
        match self {
            Word::Integer(number) => (number.to_string(), number.to_string()),
            Word::Number(number) => (number.to_string(), number.to_string()),
            Word::Text(text) => (text.clone(), text.clone()),
            Word::Named(name, text) => (name.clone(), text.clone()),
        }
    }
}

/// An experiment of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    pub id: String,
    pub title: String,
    /// Paper, section, figure or table.
    pub source: String,
    /// Input data: real, or a stand-in.
    #[serde(default)]
    pub input: String,
    /// Data by which our parameters were chosen, and data that judge.
    #[serde(default)]
    pub tuned_on: String,
    /// One sentence: the assumption on which the verdict depends.
    pub cause: String,
    /// Reason why it cannot run here.
    #[serde(default)]
    pub impossible: Option<String>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A figure of an experiment: a number, or a number for each point of the axes that its formula leaves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub name: String,
    pub run: String,
    pub value: String,
    #[serde(default)]
    pub unit: String,
    /// Values of axes to which the figure is limited.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, String>,
    /// Published numbers, in the order of the axes' values.
    #[serde(default)]
    published: Option<Numbers>,
    /// Published result in words, if the paper has no number.
    #[serde(default)]
    pub words: String,
    /// Criterion that must hold for `reproduced`.
    #[serde(default)]
    pub judge: Judge,
    /// Allowed deviation from the published number, as a share of it.
    #[serde(default = "quarter")]
    pub within: f64,
    /// Whether the figure counts for the verdict of the experiment.
    #[serde(default = "yes")]
    pub decides: bool,
    /// Whether the figure needs the full scale.
    #[serde(default)]
    pub full_only: bool,
}

/// A guess: two simulators of the same disk differ by a quarter.
fn quarter() -> f64 {
    0.25
}

fn yes() -> bool {
    true
}

/// Criterion of a figure.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Judge {
    /// Each number is within the tolerance.
    #[default]
    Within,
    /// The paper has a sign only.
    Sign,
    /// The paper has an order only.
    Order,
    /// The paper has a lower bound.
    Above,
    /// The paper has an upper bound.
    Below,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(f64),
    Many(Vec<f64>),
}

impl Figure {
    /// The published numbers; empty if there are none.
    pub(super) fn published(&self) -> &[f64] {
        match &self.published {
            None => &[],
            Some(Numbers::One(number)) => std::slice::from_ref(number),
            Some(Numbers::Many(numbers)) => numbers,
        }
    }

    pub(super) fn covers(&self, cell: &Cell) -> bool {
        self.only.iter().all(|(axis, value)| cell.get(axis) == Some(value))
    }
}

impl Run {
    fn words_of(&self, name: &str, quick: bool) -> Option<Vec<Word>> {
        let replaced = self.quick.get(name).filter(|_| quick).map(|words| match words {
            Words::Many(words) => words.clone(),
            Words::One(word) => vec![word.clone()],
        });
        replaced.or_else(|| self.axes.get(name).cloned()).or_else(|| Some(vec![self.fixed.get(name)?.clone()]))
    }

    /// Names of the axes' values, in order.
    pub(super) fn values(&self, axis: &str, quick: bool) -> Vec<String> {
        let words = self.words_of(axis, quick).unwrap_or_default();
        words.iter().map(|word| word.name_and_text().0).collect()
    }

    /// A command as a user types it; of a live one with its time.
    pub(super) fn shown(&self, command: &str) -> String {
        match self.live {
            Some(live) => format!("{command} (about {})", shown::span_s(live.expected().as_secs())),
            None => format!("entrepot-lab {command}"),
        }
    }

    /// Words that name an input file; of a live command, its script and the program.
    fn inputs(&self, words: &[String]) -> Vec<String> {
        let is_path = |word: &&String| word.contains('/') && !word.contains('=');
        if self.live.is_some() {
            return words.iter().filter(is_path).cloned().collect();
        }
        let after = words.windows(2).filter(|pair| INPUT_OPTIONS.contains(&pair[0].as_str())).map(|pair| &pair[1]);
        after.filter(|word| word.contains('/')).cloned().collect()
    }

    fn has_axis(&self, axis: &str) -> bool {
        self.axes.contains_key(axis) || axis == DATA && self.split.is_some()
    }

    /// Every combination of the axes, with its command.
    pub(super) fn cases(&self, name: &str, data: &Path, quick: bool) -> Result<Vec<Case>, String> {
        let mut all: Vec<(Cell, BTreeMap<String, String>)> = vec![Default::default()];
        for axis in self.axes.keys().chain(self.fixed.keys()) {
            let words = self.words_of(axis, quick).unwrap_or_default();
            let varies = self.axes.contains_key(axis);
            let with = |(cell, texts): &(Cell, BTreeMap<String, String>), word: &Word| {
                let (label, text) = word.name_and_text();
                let (mut cell, mut texts) = (cell.clone(), texts.clone());
                texts.insert(axis.clone(), text);
                if varies {
                    cell.insert(axis.clone(), label);
                }
                (cell, texts)
            };
            all = all.iter().flat_map(|one| words.iter().map(move |word| with(one, word))).collect();
        }
        let case = |(mut cell, mut texts): (Cell, BTreeMap<String, String>)| {
            if let Some(split) = &self.split {
                split.extend(&mut cell);
            }
            texts.insert("data".into(), data.display().to_string());
            texts.insert("entrepot".into(), beside("entrepot"));
            let command = filled(&self.command, &texts)?;
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            let inputs = self.inputs(&words);
            Ok(Case { run: name.to_owned(), cell, words, inputs, live: self.live.map(Live::expected) })
        };
        all.into_iter().map(case).collect()
    }
}

/// Path of a program in the folder of this one.
fn beside(name: &str) -> String {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(name).display().to_string()
}

/// Replaces `{name}`, also within replacements, and `{name*number}`.
fn filled(text: &str, texts: &BTreeMap<String, String>) -> Result<String, String> {
    let mut text = text.to_owned();
    for _ in 0..100 {
        let Some(start) = text.find('{') else { return Ok(text) };
        let end = text[start..].find('}').ok_or_else(|| format!("`{text}` has no closing brace"))? + start;
        let name = &text[start + 1..end];
        let (name, factor) = name.split_once('*').unwrap_or((name, "1"));
        let value = texts.get(name).ok_or_else(|| format!("`{text}`: {name} is unknown"))?;
        let value = match (factor, value.parse::<f64>(), factor.parse::<f64>()) {
            ("1", ..) => value.clone(),
            (_, Ok(value), Ok(factor)) => (value * factor).to_string(),
            _ => return Err(format!("`{text}`: {name} is no number")),
        };
        text.replace_range(start..=end, &value);
    }
    Err(format!("`{text}` refers to itself"))
}

impl Descriptions {
    /// The embedded files, or those of a folder.
    pub(super) fn load(folder: Option<&Path>) -> Result<Descriptions, String> {
        let mut all = Descriptions::default();
        let Some(folder) = folder else {
            FILES.iter().try_for_each(|(name, text)| all.add(name, text))?;
            return all.checked();
        };
        let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
        let entries = std::fs::read_dir(folder).map_err(unreadable)?;
        let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_, _>>().map_err(unreadable)?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(unreadable)?;
            all.add(&path.display().to_string(), &text)?;
        }
        all.checked()
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        for (run, of) in file.run {
            if self.runs.insert(run.clone(), of).is_some() {
                return Err(format!("{name}: two runs are called {run}"));
            }
        }
        self.experiments.extend(file.experiment);
        Ok(())
    }

    fn checked(self) -> Result<Descriptions, String> {
        for (name, run) in &self.runs {
            let Some(split) = &run.split else { continue };
            split.check(run).map_err(|error| format!("{name}: {error}"))?;
        }
        for experiment in &self.experiments {
            let id = &experiment.id;
            if experiment.figures.is_empty() && experiment.impossible.is_none() {
                return Err(format!("{id} has neither a figure nor a reason why it cannot run"));
            }
            for figure in &experiment.figures {
                let run = self.runs.get(&figure.run).ok_or_else(|| format!("{id}: no run is called {}", figure.run))?;
                Formula::parse(&figure.value).map_err(|error| format!("{id}: {error}"))?;
                if let Some(axis) = figure.only.keys().find(|axis| !run.has_axis(axis)) {
                    return Err(format!("{id}: {} has no axis {axis}", figure.run));
                }
                if figure.published().is_empty() && figure.words.is_empty() {
                    return Err(format!("{id}: {} has nothing published", figure.name));
                }
            }
        }
        Ok(self)
    }

    /// Removes the figures of live runs.
    pub(super) fn leave_out_live(&mut self) {
        let runs = &self.runs;
        for experiment in &mut self.experiments {
            experiment.figures.retain(|figure| runs[&figure.run].live.is_none());
        }
    }

    /// Paths of the numbers that figures read from the answers of a run.
    pub(super) fn paths(&self, run: &str) -> Result<BTreeSet<Vec<String>>, String> {
        let figures = self.experiments.iter().flat_map(|of| &of.figures).filter(|figure| figure.run == run);
        let paths =
            figures.map(|figure| Ok(Formula::parse(&figure.value)?.paths())).collect::<Result<Vec<_>, String>>()?;
        Ok(paths.into_iter().flatten().collect())
    }

    /// Cases that these experiments need, each once.
    pub(super) fn cases(&self, of: &[&Experiment], data: &Path, quick: bool) -> Result<Vec<Case>, String> {
        let mut cases: Vec<Case> = Vec::new();
        let mut known = BTreeSet::new();
        for figure in of.iter().flat_map(|experiment| &experiment.figures) {
            if quick && figure.full_only {
                continue;
            }
            for case in self.runs[&figure.run].cases(&figure.run, data, quick)? {
                if figure.covers(&case.cell) && known.insert(case.words.clone()) {
                    cases.push(case);
                }
            }
        }
        Ok(cases)
    }

    /// Seeds of a figure.
    pub(super) fn seeds(&self, figure: &Figure, quick: bool) -> Vec<String> {
        self.runs[&figure.run].values(SEED, quick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the list of published experiments.
    fn ids() -> Vec<String> {
        let rows = [("Z", 32), ("S", 21), ("W", 12), ("R", 12), ("T", 6)];
        rows.iter().flat_map(|(letter, last)| (1..=*last).map(move |n| format!("{letter}{n:02}"))).collect()
    }

    #[test]
    fn every_published_experiment_has_one_description() {
        let all = Descriptions::load(None).expect("the embedded files");
        let mut found: Vec<_> = all.experiments.iter().map(|of| of.id.clone()).collect();
        let mut listed = ids();
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
        for of in &all.experiments {
            assert!(!of.source.is_empty() && of.cause.ends_with('.'), "{}", of.id);
            assert!(of.figures.is_empty() || !of.input.is_empty(), "{}: input", of.id);
        }
    }

    #[test]
    fn every_case_of_the_files_is_a_command() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grids");
        for (folder, quick) in [(None, true), (None, false), (Some(&*own), false)] {
            let all = Descriptions::load(folder).expect("valid files");
            let every: Vec<_> = all.experiments.iter().collect();
            let cases = all.cases(&every, Path::new("/data"), quick).expect("cases");
            assert!(cases.len() > if folder.is_some() { 50 } else { 100 });
            for case in cases.iter().filter(|case| case.live.is_none()) {
                super::super::parsed(&case.words).unwrap_or_else(|error| panic!("{:?}: {error}", case.words));
            }
        }
    }

    #[test]
    fn every_live_run_is_a_command_of_the_source_tree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut all = Descriptions::load(None).expect("the embedded files");
        let runs: Vec<_> = all.runs.iter().filter(|(_, run)| run.live.is_some()).collect();
        for (name, run) in &runs {
            let words: Vec<&str> = run.command.split_whitespace().collect();
            let bench =
                words.iter().skip_while(|word| **word != "--bench").nth(1).map(|b| format!("crates/cli/benches/{b}"));
            let path = bench.or_else(|| words.iter().find(|word| word.ends_with(".sh")).map(|path| (*path).to_owned()));
            assert!(path.is_some_and(|path| root.join(path).exists()), "{name}: {}", run.command);
            assert!(!all.paths(name).expect("formulas").is_empty(), "{name}: no figure reads it");
        }
        assert!(runs.len() > 3);
        all.leave_out_live();
        let figures = all.experiments.iter().flat_map(|of| &of.figures);
        assert!(figures.clone().count() > 100 && figures.clone().all(|figure| all.runs[&figure.run].live.is_none()));
    }

    #[test]
    fn axes_are_crossed_and_names_are_filled_in() {
        let run: Run = toml::from_str(
            "command = \"sim x --a {a} --n {n} --size {n*128} --trace {data}/t\"\nfixed = { n = 4 }\n\
             axes = { a = [[\"one\", \"1\"], [\"two\", \"2 --n2 {n}\"]], seed = [1, 2] }\nquick = { n = 2, seed = [1] }",
        )
        .unwrap();
        let full = run.cases("x", Path::new("/d"), false).unwrap();
        assert_eq!(full.len(), 4);
        let quick = run.cases("x", Path::new("/d"), true).unwrap();
        assert_eq!(quick[1].words.join(" "), "sim x --a 2 --n2 2 --n 2 --size 256 --trace /d/t");
        assert_eq!((quick[1].cell["a"].as_str(), quick[1].inputs.clone()), ("two", vec!["/d/t".to_owned()]));
        let wrong: Run = toml::from_str("command = \"sim {b}\"").unwrap();
        assert!(wrong.cases("x", Path::new("/d"), false).unwrap_err().contains("b"));
    }
}
