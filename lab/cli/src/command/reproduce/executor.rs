//! Runs the cases of all simulators on several threads. Each result is stored; a later run reads it.
//!
//! The file of a result is named by the hash of the program, the command and the contents of its inputs. So a changed
//! program, command or input is another case.

use super::description::Case;
use crate::command::{Cli, Command, seconds};
use crate::failure::{Failure, Result};
use crate::shown;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use node::control::{Problem, exit};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Bytes of a hash in names of files and in reports.
const SHORT: usize = 16;

/// Stored result of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub version: String,
    pub command: String,
    /// Hashes of the input files, by path.
    pub inputs: BTreeMap<String, String>,
    pub cpu_s: f64,
    pub answer: Value,
}

/// Outcome of all cases.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub kept: BTreeMap<Vec<String>, Kept>,
    /// Why a case has no answer.
    pub failures: BTreeMap<Vec<String>, String>,
}

/// Settings of a run.
pub(super) struct Executor {
    pub version: String,
    pub results: PathBuf,
    pub threads: usize,
    /// Index of this shard, and the number of shards.
    pub shard: (u64, u64),
}

pub(super) fn parsed(words: &[String]) -> std::result::Result<Command, String> {
    let all = std::iter::once("entrepot-lab").chain(words.iter().map(String::as_str)).chain(["--output", "json"]);
    Ok(Cli::try_parse_from(all).map_err(|error| error.to_string())?.command)
}

/// Version of the program: the package's, and the hash of the executable.
pub(super) fn version() -> Result<String> {
    let path = std::env::current_exe()?;
    Ok(format!("{} {}", env!("CARGO_PKG_VERSION"), hash_of(&path)?))
}

fn hash_of(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| Failure::of_io(&path.display().to_string(), &error))?;
    Ok(blake3::hash(&bytes).to_hex()[..SHORT].to_owned())
}

impl Executor {
    /// Runs the cases without a stored result; returns all results. Each new one is stored at once.
    pub(super) fn run(&self, cases: &[Case]) -> Result<Outcome> {
        let unwritable = |error: std::io::Error| Failure::of_io(&self.results.display().to_string(), &error);
        std::fs::create_dir_all(&self.results).map_err(unwritable)?;
        let (mut outcome, mut todo) = (Outcome::default(), Vec::new());
        let mut hashes = BTreeMap::new();
        let mut nth: BTreeMap<&str, usize> = BTreeMap::new();
        for case in cases {
            match self.place(case, &mut hashes) {
                Err(why) => _ = outcome.failures.insert(case.words.clone(), why),
                Ok((path, inputs, number)) => match read(&path) {
                    Some(kept) => _ = outcome.kept.insert(case.words.clone(), kept),
                    None if number % self.shard.1 != self.shard.0 - 1 => {
                        outcome.failures.insert(case.words.clone(), "another shard runs it".into());
                    }
                    None => {
                        let before = nth.entry(&case.run).or_default();
                        *before += 1;
                        todo.push((*before, case, path, inputs));
                    }
                },
            }
        }
        eprintln!(
            "cases      {}, of which {} are kept in {}, {} have no input or are another shard's, and {} run on {}",
            cases.len(),
            outcome.kept.len(),
            self.results.display(),
            outcome.failures.len(),
            todo.len(),
            shown::count(self.threads as u64, "thread")
        );
        // Ordered by their number within the run, so that each run soon has a finished case for the estimate of the
        // time left.
        todo.sort_by_key(|(nth, ..)| *nth);
        self.run_all(&todo, &mut outcome)?;
        Ok(outcome)
    }

    /// File of a case, hashes of its inputs, and its number for shards.
    fn place(
        &self,
        case: &Case,
        hashes: &mut BTreeMap<String, String>,
    ) -> std::result::Result<(PathBuf, BTreeMap<String, String>, u64), String> {
        let mut inputs = BTreeMap::new();
        for input in &case.inputs {
            if !hashes.contains_key(input) {
                let hash = hash_of(Path::new(input)).map_err(|_| format!("{input} is missing"))?;
                hashes.insert(input.clone(), hash);
            }
            inputs.insert(input.clone(), hashes[input].clone());
        }
        // The contents count, not the paths.
        let words: Vec<&str> =
            case.words.iter().map(|word| inputs.get(word).map_or(word.as_str(), String::as_str)).collect();
        let hash = blake3::hash(format!("{}\n{}", self.version, words.join("\n")).as_bytes());
        let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight bytes"));
        Ok((self.results.join(format!("{}.json", &hash.to_hex()[..SHORT])), inputs, number))
    }

    fn run_all(&self, todo: &[(usize, &Case, PathBuf, BTreeMap<String, String>)], outcome: &mut Outcome) -> Result<()> {
        let progress = Arc::new(Mutex::new(Progress::new(todo.iter().map(|(_, case, ..)| case.run.as_str()))));
        stop_at_interrupt(Arc::clone(&progress))?;
        let done = sim::grid::side_by_side(todo, Some(self.threads), |(_, case, path, inputs)| {
            let result = sim::grid::alone(|| self.one(case, inputs));
            // The handler of an interrupt takes the same lock, so it never ends the process during a write.
            let mut progress = progress.lock().expect("no thread panics with it");
            if let Ok(kept) = &result {
                keep(path, kept).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            progress.advance(&case.run, result.as_ref().map_or(0.0, |kept| kept.cpu_s), self.threads);
            result
        });
        progress.lock().expect("no thread panics with it").bar.finish_and_clear();
        for ((_, case, ..), result) in todo.iter().zip(done) {
            match result {
                Ok(kept) => _ = outcome.kept.insert(case.words.clone(), kept),
                Err(why) => _ = outcome.failures.insert(case.words.clone(), why),
            }
        }
        Ok(())
    }

    fn one(&self, case: &Case, inputs: &BTreeMap<String, String>) -> std::result::Result<Kept, String> {
        let before = seconds(ClockId::ThreadCPUTime);
        let answer = parsed(&case.words)?.json().map_err(|failure| match failure {
            Failure::Problem(problem) => problem.cause,
            other => format!("{other:?}"),
        })?;
        let cpu_s = seconds(ClockId::ThreadCPUTime) - before;
        let answer = answer.ok_or("the command has no answer in JSON")?;
        let (version, command) = (self.version.clone(), case.words.join(" "));
        Ok(Kept { version, command, inputs: inputs.clone(), cpu_s, answer })
    }
}

fn read(path: &Path) -> Option<Kept> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn keep(path: &Path, kept: &Kept) -> std::io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    std::fs::write(&unfinished, serde_json::to_vec(kept)?)?;
    std::fs::rename(unfinished, path)
}

/// Progress, and an estimate of the time left.
struct Progress {
    bar: ProgressBar,
    start: Instant,
    /// Cases left, cases done and their processor time, for each run.
    runs: BTreeMap<String, (usize, usize, f64)>,
    said: bool,
}

impl Progress {
    fn new<'a>(runs: impl Iterator<Item = &'a str>) -> Progress {
        let mut left: BTreeMap<String, (usize, usize, f64)> = BTreeMap::new();
        runs.for_each(|run| left.entry(run.to_owned()).or_default().0 += 1);
        let bar = ProgressBar::new(left.values().map(|(cases, ..)| *cases as u64).sum());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cases  {wide_msg}") {
            bar.set_style(style);
        }
        Progress { bar, start: Instant::now(), runs: left, said: false }
    }

    fn advance(&mut self, run: &str, cpu_s: f64, threads: usize) {
        if let Some((left, done, sum)) = self.runs.get_mut(run) {
            (*left, *done, *sum) = (*left - 1, *done + 1, *sum + cpu_s);
        }
        self.bar.inc(1);
        let busy: f64 = self.runs.values().map(|(.., sum)| sum).sum();
        // On a busy machine elapsed time exceeds processor time.
        let slowdown = (self.start.elapsed().as_secs_f64() * threads as f64 / busy.max(1e-9)).max(1.0);
        match self.left_s() {
            None => self.bar.set_message("time left is known when each run has a case"),
            Some(left) => {
                let left = (left * slowdown / threads as f64) as u64;
                self.bar.set_message(format!("{} left, after {run}", shown::span_s(left)));
                if left > 60 && !std::mem::replace(&mut self.said, true) {
                    self.bar.suspend(|| eprintln!("about {} are left", shown::span_s(left)));
                }
            }
        }
    }

    /// Processor time of the cases left; `None` until each run has finished a case.
    fn left_s(&self) -> Option<f64> {
        let of = |(left, done, sum): &(usize, usize, f64)| match (left, done) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            _ => Some(*left as f64 * sum / *done as f64),
        };
        self.runs.values().map(of).sum()
    }
}

/// Ends the process at an interrupt: finished cases are kept, cases under way are lost.
fn stop_at_interrupt(progress: Arc<Mutex<Progress>>) -> Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    let wait = move || {
        if signals.forever().next().is_some() {
            let progress = progress.lock();
            progress.iter().for_each(|progress| progress.bar.finish_and_clear());
            eprintln!("interrupted: finished cases are kept, and the same command goes on from there");
            std::process::exit(exit::INTERRUPTED.into());
        }
    };
    std::thread::Builder::new().name("interrupts".into()).spawn(wait)?;
    Ok(())
}

/// Parses the index of a shard and the number of shards.
pub(super) fn shard(text: &str) -> std::result::Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(i, n)| (1..=*n).contains(i)).ok_or_else(|| "give a part and the number of parts: 1/4".into())
}

pub(super) fn wrong(cause: impl Into<String>) -> Failure {
    let problem = Problem::wrong(cause.into()).so("nothing was simulated");
    problem.try_this("see `entrepot-lab reproduce --list`").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(command: &str, inputs: &[&str]) -> Case {
        Case {
            run: "r".into(),
            cell: BTreeMap::new(),
            words: command.split(' ').map(str::to_owned).collect(),
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        }
    }

    fn executor(at: &Path) -> Executor {
        Executor { version: "1".into(), results: at.join("results"), threads: 2, shard: (1, 1) }
    }

    #[test]
    fn a_kept_case_is_not_run_again_and_a_changed_one_is() {
        let at = tempfile::tempdir().unwrap();
        let cases = [case("sim stripe model --rate 30", &[]), case("sim stripe model --rate 31", &[])];
        let first = executor(at.path()).run(&cases).unwrap();
        assert_eq!((first.kept.len(), first.failures.len()), (2, 0));
        let files = || std::fs::read_dir(at.path().join("results")).unwrap().map(|file| file.unwrap().path());
        for path in files() {
            let mut kept = read(&path).unwrap();
            kept.answer = Value::from("kept");
            keep(&path, &kept).unwrap();
        }
        let again = executor(at.path()).run(&cases).unwrap();
        assert!(again.kept.values().all(|kept| kept.answer == "kept"));
        let other = Executor { version: "2".into(), ..executor(at.path()) }.run(&cases).unwrap();
        assert!(other.kept.values().all(|kept| kept.answer != "kept"));
        assert_eq!(files().count(), 4);
    }

    #[test]
    fn a_missing_input_costs_its_own_cases_only() {
        let at = tempfile::tempdir().unwrap();
        let missing = at.path().join("no.swf").display().to_string();
        let cases = [
            case(&format!("sim center --jobs {missing}"), &[&missing]),
            case("sim stripe model --rate 30", &[]),
            case("sim stripe model --rate -1", &[]),
        ];
        let outcome = executor(at.path()).run(&cases).unwrap();
        assert_eq!((outcome.kept.len(), outcome.failures.len()), (1, 2));
        assert!(outcome.failures[&cases[0].words].contains("no.swf is missing"));
    }

    #[test]
    fn shards_share_the_cases() {
        let at = tempfile::tempdir().unwrap();
        let cases: Vec<_> = (1..=8).map(|rate| case(&format!("sim stripe model --rate {rate}"), &[])).collect();
        let one = Executor { shard: (1, 2), ..executor(at.path()) }.run(&cases).unwrap().kept.len();
        let both = Executor { shard: (2, 2), ..executor(at.path()) }.run(&cases).unwrap().kept.len();
        assert!(one < 8 && both == 8, "{one}, then all");
        assert_eq!(
            [shard("2/3"), shard("0/3").or(Ok((9, 9))), shard("4/3").or(Ok((8, 8)))],
            [Ok((2, 3)), Ok((9, 9)), Ok((8, 8))]
        );
    }

    #[test]
    fn the_time_left_is_known_once_each_run_has_a_case() {
        let mut progress = Progress::new(["a", "a", "a", "b", "b"].into_iter());
        progress.advance("a", 2.0, 1);
        assert_eq!(progress.left_s(), None);
        progress.advance("b", 5.0, 1);
        assert_eq!(progress.left_s(), Some(2.0 * 2.0 + 5.0));
    }
}
