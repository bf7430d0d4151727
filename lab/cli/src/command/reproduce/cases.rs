//! The cases as comma-separated values: a row for each case and number that a figure reads.

use super::description::{Descriptions, Experiment};
use super::formula::{Cell, Formula, at};
use super::verdict::Answers;
use crate::table::{self, column};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A case with the paths of the numbers that figures read.
type Wanted = BTreeMap<(String, Cell), (Vec<String>, BTreeSet<Vec<String>>)>;

/// A row: run, axes, number's path, number, command.
type Row = (String, String, String, Option<f64>, String);

pub(super) fn csv(
    all: &Descriptions,
    chosen: &[&Experiment],
    answers: &Answers,
    data: &Path,
    quick: bool,
) -> Result<String, String> {
    let mut wanted = Wanted::new();
    for figure in chosen.iter().flat_map(|of| &of.figures).filter(|figure| !quick || !figure.full_only) {
        let paths = Formula::parse(&figure.value)?.paths();
        for case in all.runs[&figure.run].cases(&figure.run, data, quick)? {
            if figure.covers(&case.cell) {
                let of = wanted.entry((case.run, case.cell)).or_insert((case.words, BTreeSet::new()));
                of.1.extend(paths.iter().cloned());
            }
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for ((run, cell), (words, paths)) in wanted {
        let axes: Vec<_> = cell.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let answer = answers.get(&words).and_then(|of| of.as_ref().ok());
        let row = |path: Vec<String>| {
            let number = answer.and_then(|answer| at(answer, &path));
            (run.clone(), axes.join(" "), path.join("."), number, words.join(" "))
        };
        rows.extend(paths.into_iter().map(row));
    }
    let columns = [
        column("run", |row: &Row| row.0.clone()),
        column("case", |row: &Row| row.1.clone()),
        column("figure", |row: &Row| row.2.clone()),
        column("value", |row: &Row| row.3),
        column("command", |row: &Row| row.4.clone()),
    ];
    Ok(table::csv(&columns, &rows))
}
