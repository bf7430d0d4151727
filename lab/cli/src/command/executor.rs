//! The executor of cases: several threads, each finished case kept at once, and taken from there the next time.
//!
//! A case is known by the hash of the program, of its words and of the contents of its inputs. If one of them changes,
//! it is another case. Results are lines of JSON; a line that a crash cut short is skipped.

mod progress;

use super::seconds;
use crate::failure::{Failure, Result};
use crate::shown;
use indicatif::ProgressBar;
use node::control::exit;
use progress::Progress;
use rustix::time::ClockId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use sim::grid::{Cell, alone, side_by_side};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of a hash in results and in reports.
const SHORT: usize = 16;

/// A case: one simulation, or one live measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Case {
    /// Group of cases of a similar duration, for the time left.
    pub run: String,
    pub cell: Cell,
    pub words: Vec<String>,
    /// Input files; where one is a word, its contents count instead of its path.
    pub inputs: Vec<String>,
    /// Expected time of a live case, which has the machine for itself after the simulations.
    pub live: Option<Duration>,
}

/// Hashes of the input files of a case, by path.
pub(super) type Inputs = BTreeMap<String, String>;

/// Answer of a case, or the reason why it has none.
pub(super) type Answer<A> = std::result::Result<A, String>;

/// Where and how cases run.
pub(super) struct Executor {
    version: String,
    /// A folder with a file of each part.
    results: PathBuf,
    threads: usize,
    /// This part of the cases, of so many.
    pub shard: (u64, u64),
    /// Set by an interrupt.
    pub stop: Arc<AtomicBool>,
    /// The simulations are done, and live cases run.
    is_live: Arc<AtomicBool>,
}

/// A line of the results.
#[derive(Serialize, Deserialize)]
struct Line<A> {
    hash: String,
    #[serde(flatten)]
    answer: A,
}

/// The hash of a line.
#[derive(Deserialize)]
struct Name {
    hash: String,
}

/// A case that is to run.
struct Job<'a> {
    /// Number among the cases of its run.
    nth: usize,
    at: usize,
    case: &'a Case,
    hash: String,
    inputs: Inputs,
}

/// Version of the program: the package's, and the hash of the executable.
pub(super) fn version() -> Result<String> {
    let path = std::env::current_exe()?;
    let hash = hash_of(&path).map_err(|error| Failure::of_io(&path.display().to_string(), &error))?;
    Ok(format!("{} {hash}", env!("CARGO_PKG_VERSION")))
}

fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex()[..SHORT].to_owned())
}

impl Executor {
    /// Executor of a program of this version, without shards.
    pub(super) fn new(version: String, results: PathBuf, threads: Option<usize>) -> Executor {
        let cores = || std::thread::available_parallelism().map_or(1, Into::into);
        let threads = threads.unwrap_or_else(cores);
        Executor { version, results, threads, shard: (1, 1), stop: Arc::default(), is_live: Arc::default() }
    }

    /// Runs the cases that are not kept; returns the answers of all, in their order. An interrupt ends the process at
    /// once while simulations run, whose finished cases are kept; a live case is ended first.
    pub(super) fn run<A: Serialize + DeserializeOwned + Send>(
        &self,
        cases: &[Case],
        one: impl Fn(usize, &Inputs) -> Answer<A> + Sync,
    ) -> Result<Vec<Answer<A>>> {
        let lines = self.lines().map_err(|error| self.unusable(&error))?;
        let (mut answers, mut todo) = (Vec::new(), Vec::new());
        let (mut inputs_seen, mut nth) = (Inputs::new(), BTreeMap::<&str, usize>::new());
        for (at, case) in cases.iter().enumerate() {
            let placed = self.place(case, &mut inputs_seen);
            let kept = placed.as_ref().ok().and_then(|(hash, ..)| kept(lines.get(hash)?));
            answers.push(match (placed, kept) {
                (Err(why), _) => Some(Err(why)),
                (Ok(_), Some(answer)) => Some(Ok(answer)),
                (Ok((.., number)), None) if number % self.shard.1 != self.shard.0 - 1 => {
                    Some(Err("another shard runs it".into()))
                }
                (Ok((hash, inputs, _)), None) => {
                    let nth = nth.entry(&case.run).and_modify(|nth| *nth += 1).or_default();
                    todo.push(Job { nth: *nth, at, case, hash, inputs });
                    None
                }
            });
        }
        let [kept, failed] = [true, false].map(|ok| answers.iter().flatten().filter(|of| of.is_ok() == ok).count());
        let (results, all) = (self.results.display(), cases.len());
        eprintln!(
            "cases      {all}, {} at a time: {kept} are kept in {results}, {failed} have no input or are another shard's, \
             and {} run",
            self.threads,
            todo.len(),
        );
        // The first cases of each run first: then the time left of all runs is known soon.
        todo.sort_by_key(|job| job.nth);
        for (at, answer) in self.run_all(&todo, one)? {
            answers[at] = answer;
        }
        if answers.iter().any(Option::is_none) {
            report_interrupt(answers.iter().filter(|of| of.is_none()).count() as u64, &self.results);
            return Err(Failure::Said(exit::INTERRUPTED));
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn unusable(&self, error: &io::Error) -> Failure {
        let problem = Failure::of_io(&self.results.display().to_string(), error).so("finished cases are not lost");
        problem.try_this("give another path with --results").into()
    }

    /// Hash of a case, hashes of its inputs, and its number for shards.
    fn place(&self, case: &Case, hashes: &mut Inputs) -> Answer<(String, Inputs, u64)> {
        let mut inputs = Inputs::new();
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
        Ok((hash.to_hex()[..SHORT].to_owned(), inputs, number))
    }

    /// Runs the jobs, live ones last and one by one; `None` for those that an interrupt left out.
    fn run_all<A: Serialize + Send>(
        &self,
        todo: &[Job<'_>],
        one: impl Fn(usize, &Inputs) -> Answer<A> + Sync,
    ) -> Result<Vec<(usize, Option<Answer<A>>)>> {
        let progress = Progress::new(todo.iter().map(|job| (job.case.run.as_str(), job.case.live)));
        let (bar, stop) = (progress.bar.clone(), &self.stop);
        self.stop_at_interrupt(&bar)?;
        let file = self.append().map_err(|error| self.unusable(&error))?;
        let state = Mutex::new((progress, file));
        let run = |job: &&Job<'_>| {
            if stop.load(Ordering::Relaxed) {
                return (job.at, None);
            }
            let before = seconds(ClockId::ThreadCPUTime);
            let mut answer = alone(|| one(job.at, &job.inputs));
            let cpu_s = seconds(ClockId::ThreadCPUTime) - before;
            if answer.is_err() && stop.load(Ordering::Relaxed) {
                return (job.at, None);
            }
            let (progress, file) = &mut *state.lock().expect("no thread panics with it");
            if let Ok(of) = &answer {
                let written = line(&job.hash, of).and_then(|line| file.write_all(line.as_bytes()));
                answer = written.map_err(|error| format!("its result is not kept: {error}")).and(answer);
            }
            progress.advance(&job.case.run, if answer.is_ok() { cpu_s } else { 0.0 }, self.threads);
            (job.at, Some(answer))
        };
        let (live, simulated): (Vec<_>, Vec<_>) = todo.iter().partition(|job| job.case.live.is_some());
        let mut done = side_by_side(&simulated, Some(self.threads), run);
        self.is_live.store(true, Ordering::Relaxed);
        for (at, job) in live.iter().enumerate() {
            let expected = |jobs: &[&Job<'_>]| jobs.iter().filter_map(|job| job.case.live).sum::<Duration>().as_secs();
            let [one, all] = [expected(&[job]), expected(&live[at..])].map(shown::span_s);
            let (name, command) = (&job.case.run, job.case.words.join(" "));
            bar.suspend(|| eprintln!("{name}, about {one} (all that are left: {all}): {command}"));
            done.push(run(job));
        }
        bar.finish_and_clear();
        Ok(done)
    }

    /// Ends the process at an interrupt. While live cases run, the first one sets `stop`, so that they clean up.
    fn stop_at_interrupt(&self, bar: &ProgressBar) -> Result<()> {
        signal_hook::flag::register_conditional_shutdown(SIGINT, exit::INTERRUPTED.into(), Arc::clone(&self.stop))?;
        let (mut signals, bar, results) = (Signals::new([SIGINT])?, bar.clone(), self.results.clone());
        let [stop, is_live] = [&self.stop, &self.is_live].map(Arc::clone);
        std::thread::Builder::new().name("interrupts".into()).spawn(move || {
            for _ in signals.forever() {
                if !is_live.load(Ordering::Relaxed) {
                    let left = bar.length().unwrap_or_default() - bar.position();
                    bar.suspend(|| report_interrupt(left, &results));
                    std::process::exit(exit::INTERRUPTED.into());
                }
                stop.store(true, Ordering::Relaxed);
                bar.suspend(|| eprintln!("interrupted: the live case is ended first; a second one does not wait"));
            }
        })?;
        Ok(())
    }

    /// Kept lines, by the hash of their case; the last line of a case counts.
    fn lines(&self) -> io::Result<BTreeMap<String, String>> {
        let paths = fs::read_dir(&self.results)?.map(|entry| Ok(entry?.path()));
        let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let mut lines = BTreeMap::new();
        for path in paths {
            for line in String::from_utf8_lossy(&fs::read(&path)?).lines() {
                if let Ok(Name { hash }) = serde_json::from_str(line) {
                    lines.insert(hash, line.to_owned());
                }
            }
        }
        Ok(lines)
    }

    /// Opens the file of this part at its end, and completes a torn line.
    fn append(&self) -> io::Result<File> {
        let path = self.results.join(format!("{}-of-{}.jsonl", self.shard.0, self.shard.1));
        let torn = fs::read(&path).is_ok_and(|bytes| bytes.last().is_some_and(|&last| last != b'\n'));
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(if torn { b"\n" } else { b"" })?;
        Ok(file)
    }
}

fn report_interrupt(left: u64, results: &Path) {
    eprintln!("interrupted: {left} cases are left, the others are kept in {}", results.display());
    eprintln!("the same command goes on from there");
}

fn line<A: Serialize>(hash: &str, answer: &A) -> io::Result<String> {
    Ok(serde_json::to_string(&Line { hash: hash.to_owned(), answer })? + "\n")
}

fn kept<A: DeserializeOwned>(line: &str) -> Option<A> {
    serde_json::from_str::<Line<A>>(line).ok().map(|line| line.answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cases(words: &[&str]) -> Vec<Case> {
        let case = |word: &&str| Case { run: "r".into(), words: vec![(*word).to_owned()], ..Case::default() };
        words.iter().map(case).collect()
    }

    fn executor(version: &str, results: &Path, threads: usize) -> Executor {
        Executor::new(version.into(), results.into(), Some(threads))
    }

    /// Runs the cases; returns how many were not kept.
    fn run(executor: &Executor, cases: &[Case]) -> (usize, Vec<Answer<Value>>) {
        let ran = Mutex::new(0);
        let answers = executor.run(cases, |at, _| {
            *ran.lock().unwrap() += 1;
            let words = &cases[at].words[0];
            if words == "fails" { Err("it fails".into()) } else { Ok(json!({ "word": words, "n": 0.1 })) }
        });
        (ran.into_inner().unwrap(), answers.unwrap())
    }

    #[test]
    fn answers_are_the_same_on_any_number_of_threads_and_survive_being_cut_off() {
        let cases = cases(&["a", "b", "c", "d", "e", "f"]);
        let [one, four] = [1, 4].map(|threads| {
            let at = tempfile::tempdir().unwrap();
            let (ran, answers) = run(&executor("1", at.path(), threads), &cases);
            assert_eq!(ran, 6);
            (at, answers)
        });
        assert_eq!(one.1, four.1);
        // Three and a half lines are left: three cases are not run again.
        let path = one.0.path().join("1-of-1.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let third = text.match_indices('\n').nth(2).unwrap().0;
        fs::write(&path, &text[..third + 20]).unwrap();
        assert_eq!(run(&executor("1", one.0.path(), 2), &cases), (3, one.1.clone()));
        assert_eq!(run(&executor("1", one.0.path(), 2), &cases), (0, one.1));
        assert_eq!(run(&executor("2", one.0.path(), 2), &cases).0, 6, "another program");
    }

    #[test]
    fn a_case_that_fails_or_has_no_input_costs_itself_only_and_contents_count() {
        let at = tempfile::tempdir().unwrap();
        let mut cases = cases(&["a", "fails", "c"]);
        let input = at.path().join("input").display().to_string();
        (cases[2].words, cases[2].inputs) = (vec![input.clone()], vec![input.clone()]);
        let executor = executor("1", at.path(), 2);
        let (ran, answers) = run(&executor, &cases);
        assert_eq!((ran, answers[1].clone()), (2, Err("it fails".into())));
        assert!(answers[0].is_ok() && answers[2].as_ref().unwrap_err().contains("input is missing"));
        for (contents, ran) in [("1", 2), ("1", 1), ("2", 2)] {
            fs::write(&input, contents).unwrap();
            assert_eq!(run(&executor, &cases).0, ran, "{contents}");
        }
    }

    #[test]
    fn shards_share_the_cases() {
        let at = tempfile::tempdir().unwrap();
        let cases = cases(&["a", "b", "c", "d", "e", "f", "g", "h"]);
        let [one, both] = [1, 2].map(|part| {
            let part = Executor { shard: (part, 2), ..executor("1", at.path(), 2) };
            run(&part, &cases).1.iter().filter(|of| of.is_ok()).count()
        });
        assert!(one < 8 && both == 8, "{one}, then {both}");
    }
}
