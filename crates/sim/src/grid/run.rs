//! Running a grid: cases on several threads, each result kept as soon as it is there.
//!
//! Results are lines of JSON. While the grid runs they come in the order in which they are finished; at the end the file is
//! written anew in the order of the cases, so that it is the same whatever the number of threads.

use super::plan::{Case, Done, GridError, cell_text};
use crate::replay::Survey;
use crate::simulate::{self, Opener, SimulateError};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

/// How far a grid has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Cases done, those of earlier runs included.
    pub done: usize,
    /// Cases in all.
    pub cases: usize,
    /// Cases that an earlier run had done.
    pub resumed: usize,
    /// The case that was just done; empty at the start.
    pub last: String,
}

/// Run what is not yet done of `cases`, where `traces[case.trace]` and `surveys[case.trace]` belong to a case. Results are kept
/// in `results`, or nowhere. When `stop` becomes true no further case is begun.
pub fn run(
    cases: &[Case],
    traces: &[&dyn Opener],
    surveys: &[Survey],
    results: Option<&Path>,
    threads: usize,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Progress),
) -> Result<Vec<Done>, GridError> {
    let mut done = match results {
        Some(path) => read(path, cases).map_err(|source| GridError::Results { path: path.into(), source })?,
        None => vec![None; cases.len()],
    };
    let resumed = done.iter().flatten().count();
    let mut state = Progress { done: resumed, cases: cases.len(), resumed, last: String::new() };
    progress(&state);
    let todo: Vec<usize> = (0..cases.len()).filter(|&case| done[case].is_none()).collect();
    let append = match results {
        Some(path) => Some(appender(path).map_err(|source| GridError::Results { path: path.into(), source })?),
        None => None,
    };
    let append = Mutex::new(append);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let (send, receive) = mpsc::channel();
    let outcome = thread::scope(|scope| {
        for _ in 0..threads.clamp(1, todo.len().max(1)) {
            let (send, next, failed, todo) = (send.clone(), &next, &failed, &todo);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let Some(&case) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let result = one(&cases[case], traces, surveys);
                    if result.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    if send.send((case, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut outcome = Ok(());
        for (case, result) in receive {
            match result {
                Ok(result) => {
                    outcome = outcome.and_then(|()| keep(&append, &result, results));
                    state.done += 1;
                    state.last = cell_text(&result.cell);
                    done[case] = Some(result);
                    progress(&state);
                }
                Err(source) => {
                    let cell = cell_text(&cases[case].cell);
                    outcome = outcome.and(Err(GridError::Case { cell, source }));
                }
            }
            if outcome.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        }
        outcome
    });
    outcome?;
    let whole = done.iter().all(Option::is_some);
    let done: Vec<Done> = done.into_iter().flatten().collect();
    if let (Some(path), true) = (results, whole) {
        rewrite(path, &done).map_err(|source| GridError::Results { path: path.into(), source })?;
    }
    Ok(done)
}

fn one(case: &Case, traces: &[&dyn Opener], surveys: &[Survey]) -> Result<Done, SimulateError> {
    let outcome = simulate::run(&case.setup, &surveys[case.trace], &traces[case.trace..=case.trace])?;
    Ok(Done { cell: case.cell.clone(), setup: case.setup.clone(), report: outcome.report })
}

fn keep(append: &Mutex<Option<File>>, done: &Done, path: Option<&Path>) -> Result<(), GridError> {
    let mut append = append.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (Some(file), Some(path)) = (append.as_mut(), path) else { return Ok(()) };
    let written = line(done).and_then(|line| file.write_all(line.as_bytes()));
    written.map_err(|source| GridError::Results { path: path.into(), source })
}

fn line(done: &Done) -> io::Result<String> {
    Ok(serde_json::to_string(done)? + "\n")
}

/// Results of earlier runs, by case. A line that was cut off by a crash is passed over; the last line for a case counts.
fn read(path: &Path, cases: &[Case]) -> io::Result<Vec<Option<Done>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
    let mut by_cell: BTreeMap<_, _> = lines.map(|done| (done.cell.clone(), done)).collect();
    let mut take = |case: &Case| by_cell.remove(&case.cell).filter(|done| done.setup == case.setup);
    Ok(cases.iter().map(&mut take).collect())
}

/// The file, open at its end, which is the end of a line.
fn appender(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    let torn = fs::read(path).is_ok_and(|bytes| bytes.last().is_some_and(|&last| last != b'\n'));
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if torn {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn rewrite(path: &Path, done: &[Done]) -> io::Result<()> {
    let text = done.iter().map(line).collect::<io::Result<String>>()?;
    let beside = path.with_extension("new");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}
