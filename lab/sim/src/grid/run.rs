//! Running a grid: cases on several threads, each result stored as soon as it is complete.
//!
//! Results are lines of JSON. During the run they are in order of completion. At the end the file is rewritten in the
//! order of the cases, so that it does not depend on the number of threads.

use super::axes::Case;
use super::parallel::as_they_end;
use super::plan::{Done, GridError, TraceWish, cell_text};
use crate::setup::Setup;
use crate::simulate::{Outcome, SimulateError};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Progress of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of completed cases, including those of earlier runs.
    pub done: usize,
    /// Number of all cases.
    pub cases: usize,
    /// Cases that an earlier run completed.
    pub resumed: usize,
    /// Name of the case just completed; empty at the start.
    pub last: String,
}

/// Runs the remaining `cases` on the traces `wishes` with `simulate`. Results are stored in `results`, if given. Once
/// `stop` is true no further case begins.
pub fn run(
    cases: &[Case<Setup>],
    wishes: &[TraceWish],
    results: Option<&Path>,
    threads: usize,
    stop: &AtomicBool,
    simulate: impl Fn(&Case<Setup>) -> Result<Outcome, SimulateError> + Sync,
    mut progress: impl FnMut(&Progress),
) -> Result<Vec<Done>, GridError> {
    let mut done = match results {
        Some(path) => read(path, cases, wishes).map_err(|source| GridError::Results { path: path.into(), source })?,
        None => vec![None; cases.len()],
    };
    let resumed = done.iter().flatten().count();
    let mut state = Progress { done: resumed, cases: cases.len(), resumed, last: String::new() };
    progress(&state);
    let todo: Vec<usize> = (0..cases.len()).filter(|&case| done[case].is_none()).collect();
    let mut append = match results {
        Some(path) => Some(appender(path).map_err(|source| GridError::Results { path: path.into(), source })?),
        None => None,
    };
    let failed = AtomicBool::new(false);
    let mut first_error = None;
    let go_on = || !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed);
    let one = |case: &usize| {
        let result = simulate(&cases[*case]);
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        result
    };
    as_they_end(&todo, threads, go_on, one, |at, result| {
        let case = &cases[todo[at]];
        let kept =
            result.map_err(|source| GridError::Case { cell: cell_text(&case.cell), source }).and_then(|outcome| {
                let wish = wishes[case.input].clone();
                let result = Done { cell: case.cell.clone(), wish, setup: case.setup.clone(), report: outcome.report };
                keep(append.as_mut(), &result, results)?;
                Ok(result)
            });
        match kept {
            Ok(result) => {
                state.done += 1;
                state.last = cell_text(&result.cell);
                done[todo[at]] = Some(result);
                progress(&state);
            }
            Err(error) => {
                failed.store(true, Ordering::Relaxed);
                first_error.get_or_insert(error);
            }
        }
    });
    if let Some(error) = first_error {
        return Err(error);
    }
    let whole = done.iter().all(Option::is_some);
    let done: Vec<Done> = done.into_iter().flatten().collect();
    if let (Some(path), true) = (results, whole) {
        rewrite(path, &done).map_err(|source| GridError::Results { path: path.into(), source })?;
    }
    Ok(done)
}

fn keep(append: Option<&mut File>, done: &Done, path: Option<&Path>) -> Result<(), GridError> {
    let (Some(file), Some(path)) = (append, path) else { return Ok(()) };
    let written = line(done).and_then(|line| file.write_all(line.as_bytes()));
    written.map_err(|source| GridError::Results { path: path.into(), source })
}

fn line(done: &Done) -> io::Result<String> {
    Ok(serde_json::to_string(done)? + "\n")
}

/// Reads results of earlier runs, by case. A line torn by a crash is skipped; the last line of a case counts.
fn read(path: &Path, cases: &[Case<Setup>], wishes: &[TraceWish]) -> io::Result<Vec<Option<Done>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
    let mut by_cell: BTreeMap<_, _> = lines.map(|done| (done.cell.clone(), done)).collect();
    let mut take = |case: &Case<Setup>| {
        by_cell.remove(&case.cell).filter(|done| done.setup == case.setup && done.wish == wishes[case.input])
    };
    Ok(cases.iter().map(&mut take).collect())
}

/// Opens the file at its end, and completes a torn line.
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

    fn cases() -> (Vec<Case<Setup>>, Vec<TraceWish>) {
        let text = r#"
            [[trace]]
            name = "a"
            path = "a"
            [axes]
            pair = ["ra", "amp", "sarc"]
            coordinator = ["none", "pfc"]
        "#;
        let plan = Plan::parse(text).unwrap();
        (plan.cases().unwrap(), plan.trace)
    }

    /// A model of a simulation: figures that depend on the case.
    fn figures(case: &Case<Setup>) -> Outcome {
        let mut report = Report { span_s: cell_text(&case.cell).len() as f64, ..Report::default() };
        report.reads.mean_ms = 1.0 / report.span_s;
        Outcome { report, samples: Vec::new() }
    }

    #[test]
    fn results_are_the_same_on_any_number_of_threads_and_survive_being_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let ((cases, wishes), never) = (cases(), AtomicBool::new(false));
        let texts = [1, 4].map(|threads| {
            let path = directory.path().join(threads.to_string());
            run(&cases, &wishes, Some(&path), threads, &never, |case| Ok(figures(case)), |_| ()).unwrap();
            fs::read_to_string(path).unwrap()
        });
        assert_eq!(texts[0], texts[1]);
        // Three and a half lines are left: three cases are not run again.
        let path = directory.path().join("torn");
        let third = texts[0].match_indices('\n').nth(2).unwrap().0;
        fs::write(&path, &texts[0][..third + 30]).unwrap();
        let ran = AtomicU32::new(0);
        let count = |case: &Case<Setup>| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(figures(case))
        };
        run(&cases, &wishes, Some(&path), 2, &never, count, |_| ()).unwrap();
        assert_eq!(ran.into_inner(), 3);
        assert_eq!(fs::read_to_string(&path).unwrap(), texts[0]);
    }

    #[test]
    fn a_changed_setup_is_run_again_and_a_stopped_grid_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results");
        let ((mut cases, mut wishes), stop) = (cases(), AtomicBool::new(false));
        let stopping = |case: &Case<Setup>| {
            stop.store(true, Ordering::Relaxed);
            Ok(figures(case))
        };
        assert_eq!(run(&cases, &wishes, Some(&path), 1, &stop, stopping, |_| ()).unwrap().len(), 1);
        cases[0].setup.alpha = "1ms".into();
        let mut progress = Vec::new();
        let never = AtomicBool::new(false);
        run(
            &cases,
            &wishes,
            Some(&path),
            1,
            &never,
            |case| Ok(figures(case)),
            |at| progress.push((at.done, at.resumed)),
        )
        .unwrap();
        assert_eq!(progress.first(), Some(&(0, 0)));
        assert_eq!(progress.last(), Some(&(6, 0)));
        for (seed, resumed) in [(0, 6), (7, 0)] {
            wishes[0].seed = seed;
            let first = |at: &Progress| assert!(at.resumed == resumed, "{at:?}");
            run(&cases, &wishes, Some(&path), 1, &never, |case| Ok(figures(case)), first).unwrap();
        }
    }

    #[test]
    fn a_case_that_fails_ends_the_grid_and_is_named() {
        let never = AtomicBool::new(false);
        let fail = |_: &Case<Setup>| Err(SimulateError::Trace("gone".into()));
        let (cases, wishes) = cases();
        let error = run(&cases, &wishes, None, 2, &never, fail, |_| ()).unwrap_err();
        assert!(matches!(error, GridError::Case { cell, .. } if cell.contains("pair=")));
    }
}
