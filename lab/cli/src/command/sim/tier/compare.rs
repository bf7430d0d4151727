//! `entrepot-lab sim tier --grid`: many loads, and the speed-up of each scheme against the plain hybrid, as a table for
//! documents.
//!
//! A grid names the schemes and, for each load, its trace and the room on the fast tier. All other options come from
//! the command line. The plain hybrid (`round-robin`) is always run. With several seeds a cell is the mean of the
//! speed-ups and their range; traces have no seed and are run once.

use super::{Case, SCHEMES, Tier, known};
use crate::failure::Result;
use crate::shown;
use crate::table::{self, Output, column};
use node::control::Problem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim::grid::{TraceWish, side_by_side};
use std::fmt::Write as _;
use std::path::Path;

/// The scheme that all are compared with.
const PLAIN: &str = "round-robin";
/// The scheme that is compared with all others.
const OURS: &str = "tuned";
const OTHERS: [&str; 3] = ["lru", "lfu", "ws-ros"];
const LIMIT: &str = "optimum";

/// A file of loads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grid {
    /// Title of the grid.
    name: String,
    schemes: Vec<String>,
    #[serde(rename = "load")]
    loads: Vec<Load>,
}

/// A load, with its differences from the command line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    fast_size: String,
    window: Option<String>,
    warm_up: Option<f64>,
    trace: TraceWish,
}

/// Results of one load.
#[derive(Debug, Serialize)]
struct Row {
    load: String,
    fast_size: String,
    seeds: Vec<u64>,
    /// Speed-ups of each scheme, for each seed, against the plain hybrid.
    speed_ups: Vec<Vec<f64>>,
}

impl Tier {
    /// Runs all loads of the grid in the file at `path`.
    pub(super) fn compare(&self, path: &Path, block_bytes: u64) -> Result<u8> {
        let wrong = |cause: String| Problem::wrong(format!("{}: {cause}", path.display())).so("nothing was simulated");
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let grid: Grid = toml::from_str(&text).map_err(|error| {
            wrong(error.to_string())
                .try_this("a grid has `name`, `schemes` and [[load]] with `fast_size` and [load.trace]")
        })?;
        if let Some(unknown) = grid.schemes.iter().find(|name| !SCHEMES.contains(&name.as_str())) {
            let problem = wrong(format!("there is no scheme `{unknown}`"));
            return Err(problem.try_this(format!("choose from {}", SCHEMES.join(", "))).into());
        }
        // Options are checked before long traces are read.
        for load in &grid.loads {
            let known = super::TraceProperties { footprint: 1 << 30, requests: 1000, working_set: 1 << 20 };
            for case in self.cases_of(load, &grid.schemes) {
                self.world(&case, &known, block_bytes)?;
            }
        }
        let beside = path.parent().unwrap_or(Path::new(""));
        let rows = grid.loads.iter().map(|load| self.row(load, &grid.schemes, beside, block_bytes));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        match self.output {
            Output::Text => shown::text(&markdown(&grid, &rows))?,
            Output::Csv => shown::text(&csv(&grid, &rows))?,
            Output::Json => shown::json(&json!({ "name": grid.name, "schemes": grid.schemes, "loads": rows }))?,
        }
        Ok(0)
    }

    /// One load under all schemes, for each seed.
    fn row(&self, load: &Load, schemes: &[String], beside: &Path, block_bytes: u64) -> Result<Row> {
        let seeds = match (&load.trace.generate, self.seeds.as_slice()) {
            (None, _) | (_, []) => vec![self.traces.seed],
            (Some(_), seeds) => seeds.to_vec(),
        };
        let cases = self.cases_of(load, schemes);
        let mut speed_ups = vec![Vec::new(); schemes.len()];
        for &seed in &seeds {
            let wish = TraceWish { seed, ..load.trace.clone() };
            let limit = load.trace.limit_requests;
            let (requests, footprint) = self.read(&[wish], beside, limit, block_bytes)?;
            let (known, _) = known(&requests, footprint, &cases[0].reorganisation.window, block_bytes)?;
            let worlds = cases.iter().map(|case| self.world(case, &known, block_bytes)).collect::<Result<Vec<_>>>()?;
            let figures =
                side_by_side(&worlds, self.threads, |(setup, scheme)| sim::tier::run(setup, scheme, &requests));
            let times: Vec<f64> = figures.iter().map(|of| if self.open { of.mean_ms } else { of.span_s }).collect();
            for (of, time) in speed_ups.iter_mut().zip(&times[1..]) {
                of.push(times[0] / time.max(1e-12));
            }
        }
        Ok(Row { load: load.trace.name.clone(), fast_size: load.fast_size.clone(), seeds, speed_ups })
    }

    /// The plain hybrid, and then the schemes of the grid.
    fn cases_of(&self, load: &Load, schemes: &[String]) -> Vec<Case> {
        let case = |name: &str| {
            let mut case = self.case(name);
            load.window.iter().for_each(|window| window.clone_into(&mut case.reorganisation.window));
            Case { fast_size: load.fast_size.clone(), warm_up: load.warm_up.unwrap_or(self.warm_up), ..case }
        };
        [PLAIN].into_iter().chain(schemes.iter().map(String::as_str)).map(case).collect()
    }
}

impl Row {
    /// The mean of a scheme's speed-ups, and the range if there are several.
    fn cell(&self, scheme: usize) -> String {
        let all = &self.speed_ups[scheme];
        let (least, most) = all.iter().fold((f64::MAX, f64::MIN), |(least, most), &of| (least.min(of), most.max(of)));
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        if all.len() == 1 { format!("{mean:.2}") } else { format!("{mean:.2} ({least:.2} to {most:.2})") }
    }

    /// In how many of its runs `ours` is at least as good as each of `others`, as far as two decimals show.
    fn won(&self, ours: usize, others: &[usize]) -> usize {
        let shown = |scheme: usize, run: usize| (self.speed_ups[scheme][run] * 100.0).round();
        (0..self.seeds.len()).filter(|&run| others.iter().all(|&other| shown(ours, run) >= shown(other, run))).count()
    }
}

fn markdown(grid: &Grid, rows: &[Row]) -> String {
    let at = |name: &str| grid.schemes.iter().position(|scheme| scheme == name);
    let (ours, limit) = (at(OURS), at(LIMIT));
    let mut text = format!("{}: speed-up against {PLAIN}\n\n| load | fast tier |", grid.name);
    grid.schemes.iter().for_each(|scheme| text.push_str(&format!(" {scheme} |")));
    let distance = ours.zip(limit);
    if distance.is_some() {
        let _ = write!(text, " {OURS} / {LIMIT}, time |");
    }
    let columns = 2 + grid.schemes.len() + usize::from(distance.is_some());
    let _ = writeln!(text, "\n|{}", "---|".repeat(columns));
    for row in rows {
        let _ = write!(text, "| {} | {} |", row.load, row.fast_size);
        (0..grid.schemes.len()).for_each(|scheme| text.push_str(&format!(" {} |", row.cell(scheme))));
        if let Some((ours, limit)) = distance {
            let times = row.speed_ups[limit].iter().zip(&row.speed_ups[ours]).map(|(limit, ours)| limit / ours);
            let _ = write!(text, " {:.2} |", times.sum::<f64>() / row.seeds.len() as f64);
        }
        text.push('\n');
    }
    let others: Vec<usize> = OTHERS.iter().filter_map(|name| at(name)).collect();
    if let Some(ours) = ours.filter(|_| !others.is_empty()) {
        let runs: usize = rows.iter().map(|row| row.seeds.len()).sum();
        let won: usize = rows.iter().map(|row| row.won(ours, &others)).sum();
        let names: Vec<&str> = others.iter().map(|&other| grid.schemes[other].as_str()).collect();
        let _ = writeln!(text, "\n{OURS} is at least as good as {} in {won} of {runs} runs", names.join(", "));
        for row in rows.iter().filter(|row| row.won(ours, &others) < row.seeds.len()) {
            let _ = writeln!(text, "behind on {}", row.load);
        }
    }
    text
}

fn csv(grid: &Grid, rows: &[Row]) -> String {
    type Run<'a> = (&'a Row, usize, &'a str, usize);
    let mut runs: Vec<Run<'_>> = Vec::new();
    for row in rows {
        for (at, scheme) in grid.schemes.iter().enumerate() {
            runs.extend((0..row.seeds.len()).map(|run| (row, at, scheme.as_str(), run)));
        }
    }
    let columns = [
        column("load", |(row, ..): &Run<'_>| row.load.clone()),
        column("fast_size", |(row, ..): &Run<'_>| row.fast_size.clone()),
        column("seed", |(row, _, _, run): &Run<'_>| row.seeds[*run]),
        column("scheme", |(_, _, scheme, _): &Run<'_>| scheme.to_string()),
        column("speed_up", |(row, at, _, run): &Run<'_>| row.speed_ups[*at][*run]).digits(6),
    ];
    table::csv(&columns, &runs)
}
