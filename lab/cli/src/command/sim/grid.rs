//! Grids and comparisons: traces opened and surveyed once, cases run by the executor.

use super::{figures, grid_problem, said, setup_problem, simulate_problem};
use crate::command::executor::{self, Executor};
use crate::failure::{Failure, Result};
use crate::shown;
use crate::table::Output;
use node::control::Problem;
use serde_json::json;
use sim::grid::{Case, Done, Plan, TraceWish, cell_text};
use sim::replay::{Cut, Survey};
use sim::setup::Setup;
use sim::simulate::{self, Opener, Outcome, SimulateError};
use std::path::{Path, PathBuf};

/// Opens the trace of `wish`. Its path is relative to `beside`; blocks without a size have `block_bytes`.
pub(super) fn opener(wish: &TraceWish, beside: &Path, block_bytes: u32) -> Result<Box<dyn Opener>> {
    wish.opener(beside, block_bytes).map_err(|error| said(&error.to_string(), true).into())
}

/// Runs the grid in the file at `path`.
pub(super) fn run(path: &Path, results: Option<&Path>, threads: Option<usize>, output: Output) -> Result<u8> {
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
    let executor = Executor::new(executor::version()?, Some(results.into()), threads);
    let one = |case: &Case<Setup>| simulate::run(&case.setup, &surveys[case.input], &traces[case.input..=case.input]);
    let done = execute(&executor, &cases, &plan.trace, beside, one)?;
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
    threads: Option<usize>,
) -> Result<Vec<Done>> {
    let executor = Executor::new(String::new(), None, threads);
    execute(&executor, cases, &[TraceWish::default()], "".as_ref(), |case| simulate::run(&case.setup, survey, traces))
}

/// Runs the cases on the traces `wishes`; the first one that fails is named once all others have ended.
fn execute(
    executor: &Executor,
    cases: &[Case<Setup>],
    wishes: &[TraceWish],
    beside: &Path,
    simulate: impl Fn(&Case<Setup>) -> std::result::Result<Outcome, SimulateError> + Sync,
) -> Result<Vec<Done>> {
    let case = |case: &Case<Setup>| {
        let (cell, wish) = (case.cell.clone(), &wishes[case.input]);
        let file = wish.file(beside).map_err(|error| grid_problem(&error))?;
        let inputs: Vec<String> = file.iter().map(|path| path.display().to_string()).collect();
        let mut words = inputs.clone();
        words.push(json!([cell, wish, case.setup]).to_string());
        Ok(executor::Case { run: wish.name.clone(), cell, words, inputs })
    };
    let of = cases.iter().map(case).collect::<Result<Vec<_>>>()?;
    let done = executor.run(&of, |at, _| {
        let Case { cell, input, setup } = cases[at].clone();
        let report = simulate(&cases[at]).map_err(|error| error.to_string())?.report;
        Ok(Done { cell, wish: wishes[input].clone(), setup, report })
    })?;
    let named = |(case, done): (&Case<Setup>, executor::Answer<Done>)| {
        let text = |why| format!("case {}: {why}; the cases done so far are kept", cell_text(&case.cell));
        done.map_err(|why| said(&text(why), false).into())
    };
    cases.iter().zip(done).map(named).collect()
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
