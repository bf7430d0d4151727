//! Summary of a grid: for each value of the compared axis, how often and by how much it beats the baseline.

use super::axes::Cell;
use super::plan::{Done, Plan};
use std::collections::BTreeMap;
use std::fmt;

/// A case and its baseline, which differ only in the compared axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Values of the other axes.
    pub cell: Cell,
    /// Relative reduction of the mean response time: 0.2 is a fifth.
    pub improvement: f64,
    /// Mean response times: baseline, this case.
    pub mean_ms: [f64; 2],
    /// Blocks prefetched at the last level: baseline, this case.
    pub prefetched: [u64; 2],
    /// Unused prefetched blocks at that level: baseline, this case.
    pub unused: [u64; 2],
    /// Hit ratio at that level: baseline, this case.
    pub hit_ratio: [f64; 2],
}

/// All comparisons of a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Name of the grid.
    pub name: String,
    /// Value that all others are compared with.
    pub baseline: String,
    /// Comparisons by value of the compared axis.
    pub values: BTreeMap<String, Vec<Comparison>>,
    /// Results published by others.
    pub published: BTreeMap<String, String>,
}

/// Computes the comparison that a grid requests; `None` if it has none.
pub fn summarise(plan: &Plan, done: &[Done]) -> Option<Summary> {
    let compare = plan.compare.as_ref()?;
    let rest = |cell: &Cell| -> Cell {
        cell.iter().filter(|(axis, _)| **axis != compare.axis).map(|(a, v)| (a.clone(), v.clone())).collect()
    };
    let value = |done: &Done| done.cell.get(&compare.axis).cloned().unwrap_or_default();
    let baselines: BTreeMap<Cell, &Done> =
        done.iter().filter(|one| value(one) == compare.baseline).map(|one| (rest(&one.cell), one)).collect();
    let mut summary = Summary {
        name: plan.name.clone(),
        baseline: compare.baseline.clone(),
        published: plan.published.clone(),
        ..Summary::default()
    };
    for one in done.iter().filter(|one| value(one) != compare.baseline) {
        let cell = rest(&one.cell);
        if let Some(baseline) = baselines.get(&cell) {
            summary.values.entry(value(one)).or_default().push(comparison(cell, baseline, one));
        }
    }
    Some(summary)
}

fn comparison(cell: Cell, baseline: &Done, one: &Done) -> Comparison {
    let both = [&baseline.report, &one.report];
    let mean_ms = both.map(|report| report.reads.mean_ms);
    let last = both.map(|report| report.levels.last());
    Comparison {
        cell,
        improvement: if mean_ms[0] > 0.0 { 1.0 - mean_ms[1] / mean_ms[0] } else { 0.0 },
        mean_ms,
        prefetched: last.map(|level| level.map_or(0, |level| level.prefetched)),
        unused: last.map(|level| level.map_or(0, |level| level.prefetch_unused)),
        hit_ratio: last.map(|level| level.map_or(0.0, |level| level.hit_ratio)),
    }
}

impl Summary {
    /// Returns the numbers of cases in which `one` has a lower mean response time than `other`, and in which it has
    /// not.
    pub fn beats(&self, one: &str, other: &str) -> Option<(usize, usize)> {
        let (one, other) = (self.values.get(one)?, self.values.get(other)?);
        let others: BTreeMap<_, _> = other.iter().map(|case| (&case.cell, case.mean_ms[1])).collect();
        let pairs = one.iter().filter_map(|case| Some(case.mean_ms[1] < *others.get(&case.cell)?));
        Some(pairs.fold((0, 0), |(won, lost), wins| if wins { (won + 1, lost) } else { (won, lost + 1) }))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: mean response time against {}", self.name, self.baseline)?;
        for (value, cases) in &self.values {
            let improved = cases.iter().filter(|case| case.improvement > 0.0).count();
            let percent = |share: f64| share * 100.0;
            let mean = cases.iter().map(|case| case.improvement).sum::<f64>() / cases.len().max(1) as f64;
            let best = cases.iter().map(|case| case.improvement).fold(f64::MIN, f64::max);
            let worst = cases.iter().map(|case| case.improvement).fold(f64::MAX, f64::min);
            let faster = cases.iter().filter(|case| case.prefetched[1] > case.prefetched[0]).count();
            let slower = cases.iter().filter(|case| case.prefetched[1] < case.prefetched[0]).count();
            writeln!(f, "  {value}")?;
            writeln!(f, "    improved       {improved} of {} cases", cases.len())?;
            let (mean, best, worst) = (percent(mean), percent(best), percent(worst));
            writeln!(f, "    improvement    mean {mean:.1} %, best {best:.1} %, worst {worst:.1} %")?;
            writeln!(f, "    prefetching of the last level  sped up in {faster}, slowed in {slower}")?;
            for other in self.values.keys().filter(|other| *other != value) {
                if let Some((won, lost)) = self.beats(value, other) {
                    let share = percent(won as f64 / (won + lost).max(1) as f64);
                    writeln!(f, "    beats {other:<8} in {won} of {} cases ({share:.0} %)", won + lost)?;
                }
            }
            if let Some(published) = self.published.get(value) {
                writeln!(f, "    published      {published}")?;
            }
        }
        Ok(())
    }
}
