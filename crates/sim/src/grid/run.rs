//! Running a grid: cases on several threads, each result kept as soon as it is there.
//!
//! Results are lines of JSON. While the grid runs they come in the order in which they are finished; at the end the file is
//! written anew in the order of the cases, so that it is the same whatever the number of threads.

use super::plan::{Case, Done, GridError, cell_text};
use crate::simulate::{Outcome, SimulateError};
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

/// Run what is not yet done of `cases` through `simulate`. Results are kept in `results`, or nowhere. When `stop` becomes true
/// no further case is begun.
pub fn run(
    cases: &[Case],
    results: Option<&Path>,
    threads: usize,
    stop: &AtomicBool,
    simulate: impl Fn(&Case) -> Result<Outcome, SimulateError> + Sync,
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
            let (send, next, failed, todo, simulate) = (send.clone(), &next, &failed, &todo, &simulate);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let Some(&case) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let result = simulate(&cases[case]).map(|outcome| done_with(&cases[case], outcome));
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

fn done_with(case: &Case, outcome: Outcome) -> Done {
    Done { cell: case.cell.clone(), wish: case.wish.clone(), setup: case.setup.clone(), report: outcome.report }
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
    let mut take =
        |case: &Case| by_cell.remove(&case.cell).filter(|done| done.setup == case.setup && done.wish == case.wish);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Plan;
    use crate::simulate::Report;
    use std::sync::atomic::AtomicU32;

    fn cases() -> Vec<Case> {
        let text = r#"
            [[trace]]
            name = "a"
            path = "a"
            [axes]
            pair = ["ra", "amp", "sarc"]
            coordinator = ["none", "pfc"]
        "#;
        Plan::parse(text).unwrap().cases().unwrap()
    }

    /// A stand-in for a simulation: figures that depend on the case.
    fn figures(case: &Case) -> Outcome {
        let mut report = Report { span_s: cell_text(&case.cell).len() as f64, ..Report::default() };
        report.reads.mean_ms = 1.0 / report.span_s;
        Outcome { report, samples: Vec::new() }
    }

    #[test]
    fn results_are_the_same_on_any_number_of_threads_and_survive_being_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let (cases, never) = (cases(), AtomicBool::new(false));
        let texts = [1, 4].map(|threads| {
            let path = directory.path().join(threads.to_string());
            run(&cases, Some(&path), threads, &never, |case| Ok(figures(case)), |_| ()).unwrap();
            fs::read_to_string(path).unwrap()
        });
        assert_eq!(texts[0], texts[1]);
        // Three whole lines and a half are left: three cases are not run again.
        let path = directory.path().join("torn");
        let third = texts[0].match_indices('\n').nth(2).unwrap().0;
        fs::write(&path, &texts[0][..third + 30]).unwrap();
        let ran = AtomicU32::new(0);
        let count = |case: &Case| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(figures(case))
        };
        run(&cases, Some(&path), 2, &never, count, |_| ()).unwrap();
        assert_eq!(ran.into_inner(), 3);
        assert_eq!(fs::read_to_string(&path).unwrap(), texts[0]);
    }

    #[test]
    fn a_changed_setup_is_run_again_and_a_stopped_grid_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results");
        let (mut cases, stop) = (cases(), AtomicBool::new(false));
        let stopping = |case: &Case| {
            stop.store(true, Ordering::Relaxed);
            Ok(figures(case))
        };
        assert_eq!(run(&cases, Some(&path), 1, &stop, stopping, |_| ()).unwrap().len(), 1);
        cases[0].setup.alpha = "1ms".into();
        cases[1].wish.seed = 7;
        let mut progress = Vec::new();
        let never = AtomicBool::new(false);
        run(&cases, Some(&path), 1, &never, |case| Ok(figures(case)), |at| progress.push((at.done, at.resumed)))
            .unwrap();
        assert_eq!(progress.first(), Some(&(0, 0)));
        assert_eq!(progress.last(), Some(&(6, 0)));
    }

    #[test]
    fn a_case_that_fails_ends_the_grid_and_is_named() {
        let never = AtomicBool::new(false);
        let fail = |_: &Case| Err(SimulateError::Trace("gone".into()));
        let error = run(&cases(), None, 2, &never, fail, |_| ()).unwrap_err();
        assert!(matches!(error, GridError::Case { cell, .. } if cell.contains("pair=")));
    }
}
