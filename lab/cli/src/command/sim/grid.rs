//! Grids and comparisons: traces opened, cases run side by side with a progress bar.

use super::{figures, grid_problem, setup_problem, simulate_problem};
use crate::failure::{Failure, Result};
use crate::shown;
use crate::table::Output;
use indicatif::{ProgressBar, ProgressStyle};
use node::control::{Problem, exit};
use serde_json::json;
use signal_hook::iterator::Signals;
use sim::grid::{Case, Done, Plan, Progress, TraceWish};
use sim::replay::{Cut, Survey};
use sim::setup::Setup;
use sim::simulate::{self, Opener};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Opens the trace of `wish`. Its path is relative to `beside`; blocks without a size have `block_bytes`.
pub(super) fn opener(wish: &TraceWish, beside: &Path, block_bytes: u32) -> Result<Box<dyn Opener>> {
    wish.opener(beside, block_bytes).map_err(|error| super::said(&error.to_string(), true).into())
}

/// Runs the grid in the file at `path`.
pub(super) fn run(path: &Path, results: Option<&Path>, threads: usize, output: Output) -> Result<u8> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::of_io(&path.display().to_string(), &error))?;
    let plan = Plan::parse(&text).map_err(|error| grid_problem(&error))?;
    let cases = plan.cases().map_err(|error| grid_problem(&error))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let openers = (0..plan.trace.len()).map(|number| {
        let cut = cut(&cases, number)?;
        opener(&plan.trace[number], beside, cut.block_bytes)
    });
    let openers = openers.collect::<Result<Vec<_>>>()?;
    let traces: Vec<&dyn Opener> = openers.iter().map(|opener| &**opener).collect();
    let surveys = surveys(&plan, &traces)?;
    // Results are not stored beside the grid: its directory may be read-only.
    let kept = PathBuf::from(path.file_name().unwrap_or_default()).with_extension("results.jsonl");
    let results = results.unwrap_or(&kept);
    let bar = bar(cases.len());
    let stop = interrupted(&bar)?;
    eprintln!("cases      {}, {threads} at a time; the first interrupt lets those under way end", cases.len());
    let one = |case: &Case<Setup>| simulate::run(&case.setup, &surveys[case.input], &traces[case.input..=case.input]);
    let said = Cell::new(false);
    let done = sim::grid::run(&cases, &plan.trace, Some(results), threads, &stop, one, |at| advance(&bar, at, &said));
    bar.finish_and_clear();
    let done = done.map_err(|error| grid_problem(&error))?;
    if done.len() < cases.len() {
        eprintln!("interrupted: {} of {} cases are done and kept in {}", done.len(), cases.len(), results.display());
        eprintln!("the same command goes on from there");
        return Err(Failure::Said(exit::INTERRUPTED));
    }
    let summary = sim::grid::summarise(&plan, &done);
    match output {
        Output::Csv => shown::text(&figures::csv(&done))?,
        Output::Json => shown::json(&json!({ "cases": done }))?,
        Output::Text => {
            shown::text(&figures::cases(&done))?;
            if let Some(summary) = summary {
                shown::text(&format!("\n{summary}"))?;
            }
            shown::text(&format!("\nresults kept in {}\n", results.display()))?;
        }
    }
    Ok(0)
}

/// Runs the cases of a comparison on the traces of one world.
pub(super) fn side_by_side(
    cases: &[Case<Setup>],
    traces: &[&dyn Opener],
    survey: &Survey,
    threads: usize,
) -> Result<Vec<Done>> {
    let bar = bar(cases.len());
    let stop = interrupted(&bar)?;
    let one = |case: &Case<Setup>| simulate::run(&case.setup, survey, traces);
    let said = Cell::new(false);
    let done = sim::grid::run(cases, &[TraceWish::default()], None, threads, &stop, one, |at| advance(&bar, at, &said));
    bar.finish_and_clear();
    let done = done.map_err(|error| grid_problem(&error))?;
    if done.len() < cases.len() { Err(Failure::Said(exit::INTERRUPTED)) } else { Ok(done) }
}

/// Limits of trace number `trace`, equal in all of its cases.
fn cut(cases: &[Case<Setup>], trace: usize) -> Result<Cut> {
    let mut cuts = cases.iter().filter(|case| case.input == trace).map(|case| case.setup.cut());
    let first = cuts.next().transpose().map_err(|error| setup_problem(&error))?;
    if cuts.any(|cut| cut.ok() != first) {
        let problem = Problem::wrong("a grid cannot vary `block` or `limit_requests`: a trace is surveyed once");
        return Err(problem.try_this("write one grid for each").into());
    }
    Ok(first.unwrap_or_default())
}

/// Surveys each trace and prints its census.
fn surveys(plan: &Plan, traces: &[&dyn Opener]) -> Result<Vec<Survey>> {
    let mut surveys = Vec::new();
    for (wish, trace) in plan.trace.iter().zip(traces) {
        let setup = sim::grid::trace_setup(&plan.base, wish);
        let survey = simulate::survey(&setup, &[*trace]).map_err(|error| simulate_problem(&error))?;
        eprintln!("trace      {}\n{}\n", wish.name, survey.traces()[0]);
        surveys.push(survey);
    }
    Ok(surveys)
}

fn bar(cases: usize) -> ProgressBar {
    let bar = ProgressBar::new(cases as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cases  {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// Shows the progress, and prints the expected duration once if it is long.
fn advance(bar: &ProgressBar, at: &Progress, said: &Cell<bool>) {
    if at.last.is_empty() {
        if at.resumed > 0 {
            bar.suspend(|| eprintln!("{} of {} cases were done before", at.resumed, at.cases));
        }
        bar.reset_elapsed();
    }
    bar.set_position(at.done as u64);
    let left = left(bar.elapsed(), at);
    let shown = left.map_or("time left is known after the first cases".to_owned(), |left| {
        format!("{} left", shown::span_s(left.as_secs()))
    });
    bar.set_message(format!("{shown}  {}", at.last));
    // The first cases may not be typical.
    let some = at.done - at.resumed >= SOME;
    if let Some(left) = left.filter(|left| some && *left > LONG && !said.replace(true)) {
        let cases = at.cases - at.done;
        bar.suspend(|| eprintln!("{cases} cases are left, which will take about {}", shown::span_s(left.as_secs())));
    }
}

/// Number of cases before the duration is estimated, and the least duration that is printed.
const SOME: usize = 4;
const LONG: Duration = Duration::from_secs(60);

/// Estimated time for the remaining cases, from the time of the finished ones.
fn left(passed: Duration, at: &Progress) -> Option<Duration> {
    let done = at.done - at.resumed;
    (done > 0).then(|| passed.mul_f64((at.cases - at.done) as f64 / done as f64))
}

/// Returns a flag that an interrupt sets, with a message: cases under way are finished and stored.
fn interrupted(bar: &ProgressBar) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // A second interrupt ends the command at once.
    signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGINT,
        exit::INTERRUPTED.into(),
        Arc::clone(&stop),
    )?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    stop.store(false, Ordering::Relaxed);
    let (mut signals, bar) = (Signals::new([signal_hook::consts::SIGINT])?, bar.clone());
    std::thread::Builder::new().name("interrupts".into()).spawn(move || {
        for _ in signals.forever() {
            bar.suspend(|| {
                eprintln!("interrupted: the cases under way are finished first; a second interrupt ends it at once")
            });
        }
    })?;
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_not_known_before_the_first_case_and_counts_no_earlier_run() {
        let at = |done| Progress { done, cases: 100, resumed: 40, last: String::new() };
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, &at(40)), None);
        assert_eq!(left(minute, &at(50)), Some(5 * minute));
        assert_eq!(left(minute, &at(100)), Some(Duration::ZERO));
    }
}
