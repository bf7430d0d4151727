//! Grids and comparisons: traces opened, cases run side by side with a progress bar.

use super::cache::Output;
use super::{grid_problem, setup_problem, simulate_problem};
use crate::failure::{Failure, Result};
use crate::shown;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sim::grid::{Case, Done, Plan, Progress, TraceWish};
use sim::replay::{Cut, Survey};
use sim::simulate::{self, Opener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::control::{Problem, exit};

/// Opens the trace that `wish` asks for; its path counts from `beside`.
pub(super) fn opener(wish: &TraceWish, beside: &Path, block_bytes: u32) -> Result<Box<dyn Opener>> {
    wish.opener(beside, block_bytes).map_err(|error| super::said(&error.to_string(), true).into())
}

/// Run the grid in the file at `path`.
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
    let kept = path.with_extension("results.jsonl");
    let results = results.unwrap_or(&kept);
    let bar = bar(cases.len());
    let stop = interrupted()?;
    let one = |case: &Case| simulate::run(&case.setup, &surveys[case.trace], &traces[case.trace..=case.trace]);
    let done = sim::grid::run(&cases, Some(results), threads, &stop, one, |at| advance(&bar, at));
    bar.finish_and_clear();
    let done = done.map_err(|error| grid_problem(&error))?;
    if done.len() < cases.len() {
        eprintln!("interrupted: {} of {} cases are done and kept in {}", done.len(), cases.len(), results.display());
        eprintln!("the same command goes on from there");
        return Err(Failure::Said(exit::INTERRUPTED));
    }
    let summary = sim::grid::summarise(&plan, &done);
    match output {
        Output::Csv => shown::text(&sim::grid::csv(&done))?,
        Output::Json => shown::json(&json!({ "cases": done }))?,
        Output::Text => {
            shown::text(&super::figures::cases(&done))?;
            if let Some(summary) = summary {
                shown::text(&format!("\n{summary}"))?;
            }
            shown::text(&format!("\nresults kept in {}\n", results.display()))?;
        }
    }
    Ok(0)
}

/// Run the cases of a comparison on one world's traces.
pub(super) fn side_by_side(
    cases: &[Case],
    traces: &[&dyn Opener],
    survey: &Survey,
    threads: usize,
) -> Result<Vec<Done>> {
    let bar = bar(cases.len());
    let stop = interrupted()?;
    let one = |case: &Case| simulate::run(&case.setup, survey, traces);
    let done = sim::grid::run(cases, None, threads, &stop, one, |at| advance(&bar, at));
    bar.finish_and_clear();
    let done = done.map_err(|error| grid_problem(&error))?;
    if done.len() < cases.len() { Err(Failure::Said(exit::INTERRUPTED)) } else { Ok(done) }
}

/// How trace number `trace` is cut in all of its cases.
fn cut(cases: &[Case], trace: usize) -> Result<Cut> {
    let mut cuts = cases.iter().filter(|case| case.trace == trace).map(|case| case.setup.cut());
    let first = cuts.next().transpose().map_err(|error| setup_problem(&error))?;
    if cuts.any(|cut| cut.ok() != first) {
        let problem = Problem::wrong("a grid cannot vary `block` or `limit_requests`: a trace is surveyed once");
        return Err(problem.try_this("write one grid for each").into());
    }
    Ok(first.unwrap_or_default())
}

/// One survey per trace, and its census on the screen.
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
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cases, {eta} left  {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

fn advance(bar: &ProgressBar, at: &Progress) {
    if at.last.is_empty() && at.resumed > 0 {
        bar.println(format!("{} of {} cases were done before", at.resumed, at.cases));
        bar.reset_eta();
    }
    bar.set_position(at.done as u64);
    bar.set_message(at.last.clone());
}

/// Becomes true when the user interrupts: cases under way are finished and kept.
fn interrupted() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // A second interrupt ends the command at once.
    signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGINT,
        exit::INTERRUPTED.into(),
        Arc::clone(&stop),
    )?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    stop.store(false, Ordering::Relaxed);
    Ok(stop)
}
