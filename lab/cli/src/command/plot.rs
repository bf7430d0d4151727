//! `entrepot-lab plot`: a chart of a table in CSV.

use super::write_file;
use crate::chart::{Along, Chart, Series, Shape, number};
use crate::failure::{Failure, Result};
use crate::shown;
use clap::Args;
use node::control::Problem;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Characters of the longest bar in a terminal.
const BAR: f64 = 48.0;

/// Draw a column of a table, in the terminal or as an SVG file
///
/// The table has comma-separated values and a heading, as each simulator writes with `--output csv`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim burst --step 5s --output csv > burst.csv
  entrepot-lab plot burst.csv --across dwpp --of latency_s --by scheme,congestion
  entrepot-lab sim tier --generate zipf --output csv | entrepot-lab plot - --across scheme --of fast_hits --to tiers.svg")]
pub struct Plot {
    /// The table; `-` is standard input.
    #[arg(value_name = "FILE.csv")]
    table: PathBuf,
    /// Column of the horizontal axis; without it, the first one.
    #[arg(long, value_name = "COLUMN")]
    across: Option<String>,
    /// Column of the vertical axis: numbers.
    #[arg(long, value_name = "COLUMN")]
    of: String,
    /// Columns whose values tell the lines or bars apart, separated by commas.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    by: Vec<String>,
    /// Powers of ten on the horizontal axis.
    #[arg(long, requires = "to")]
    logarithmic: bool,
    /// Write an SVG file instead.
    #[arg(long, value_name = "FILE.svg")]
    to: Option<PathBuf>,
}

impl Plot {
    pub fn run(self) -> Result<u8> {
        if let Some(path) = &self.to {
            plottable(path)?;
        }
        let (places, series) = self.read()?;
        let Some(path) = &self.to else {
            shown::text(&bars(&self.of, &places, &series))?;
            return Ok(0);
        };
        let at: Option<Vec<f64>> = places.iter().map(|place| place.parse().ok()).collect();
        let shape = if at.is_some() && places.len() > 2 { Shape::Lines } else { Shape::Bars };
        let along = match &at {
            Some(at) if self.logarithmic && at.iter().all(|at| *at > 0.0) => Along::Logarithmic,
            _ if self.logarithmic => {
                return Err(wrong("--logarithmic needs numbers above 0 on the horizontal axis", "leave it out"));
            }
            _ => Along::Labels(places.clone()),
        };
        let place = |n: usize| at.as_ref().filter(|_| self.logarithmic).map_or(n as f64, |at| at[n]);
        let series = series.into_iter().map(|(label, points)| Series {
            label,
            points: points.into_iter().map(|(n, value)| (place(n), value)).collect(),
        });
        let x = self.across.as_deref().unwrap_or_default();
        let chart = Chart { title: &self.of, x, y: &self.of, along, shape, series: series.collect() };
        write_file(path, &chart.document())?;
        Ok(0)
    }

    /// Places on the horizontal axis, and the points of each series by its name.
    fn read(&self) -> Result<(Vec<String>, Vec<Named>)> {
        let (name, mut text) = (self.table.display().to_string(), String::new());
        match name.as_str() {
            "-" => std::io::stdin().read_to_string(&mut text).map(drop),
            _ => std::fs::read_to_string(&self.table).map(|read| text = read),
        }
        .map_err(|error| Failure::of_io(&name, &error))?;
        let mut rows = text.lines().filter(|line| !line.trim().is_empty()).map(fields);
        let heading = rows.next().ok_or_else(|| wrong(format!("{name} is empty"), "give a table with a heading"))?;
        let column = |wanted: &str| {
            let next = format!("choose from {}", heading.join(", "));
            heading.iter().position(|of| of == wanted).ok_or_else(|| wrong(format!("no column is `{wanted}`"), next))
        };
        let (across, of) = (self.across.as_deref().map_or(Ok(0), column)?, column(&self.of)?);
        let by = self.by.iter().map(|word| column(word)).collect::<Result<Vec<_>>>()?;
        let (mut places, mut series): (Vec<String>, Vec<Named>) = (Vec::new(), Vec::new());
        for (line, row) in rows.enumerate() {
            let cell = |at: usize| row.get(at).map_or("", String::as_str);
            let label = by.iter().map(|at| cell(*at)).collect::<Vec<_>>().join(" ");
            let place = position(&mut places, |place| place == cell(across), || cell(across).to_owned());
            let at = position(&mut series, |(known, _)| *known == label, || (label.clone(), Vec::new()));
            if cell(of).is_empty() {
                continue;
            }
            let value: f64 = cell(of).parse().map_err(|_| {
                wrong(format!("row {} of {name}: `{}` is no number", line + 1, cell(of)), "name a column of numbers")
            })?;
            if series[at].1.iter().any(|(known, _)| *known == place) {
                let cause = format!("row {} of {name}: {} has two values at `{}`", line + 1, self.of, cell(across));
                return Err(wrong(cause, format!("tell them apart with --by, some of {}", heading.join(", "))));
            }
            series[at].1.push((place, value));
        }
        Ok((places, series))
    }
}

/// A series: its name, and points by the number of their place.
type Named = (String, Vec<(usize, f64)>);

/// Position of an item, which is added if it is not there.
fn position<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    items.iter().position(is_it).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}

/// Bars of characters, a line for each point.
fn bars(of: &str, places: &[String], series: &[Named]) -> String {
    let values = || series.iter().flat_map(|(_, points)| points).map(|(_, value)| *value);
    let most = values().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let wide = places.iter().map(|place| place.chars().count()).max().unwrap_or(0);
    let mut text = format!("{of}\n");
    for (label, points) in series {
        if !label.is_empty() {
            text += &format!("\n{label}\n");
        }
        for (place, value) in points {
            let bar = if most > 0.0 { (value.max(0.0) / most * BAR).round() as usize } else { 0 };
            let line = format!("{:<wide$}  {} {}", places[*place], "#".repeat(bar), number(*value));
            text += &format!("{}\n", shown::plain(&line));
        }
    }
    text
}

/// Fields of a line; quotes as in RFC 4180.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let field = fields.last_mut().expect("the first field was pushed");
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => field.push(character),
        }
    }
    fields
}

/// Refuses a chart that could not be written, before anything is simulated.
pub(super) fn plottable(path: &Path) -> Result<()> {
    if path.extension().is_none_or(|extension| extension != "svg") {
        return Err(wrong(format!("{} is no SVG file", path.display()), "give it a name that ends in .svg"));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(".".as_ref());
    std::fs::metadata(directory).map_err(|error| Failure::of_io(&directory.display().to_string(), &error))?;
    Ok(())
}

fn wrong(cause: impl Into<String>, next: impl Into<String>) -> Failure {
    Problem::wrong(cause.into()).so("nothing was drawn").try_this(next.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(table: &str, by: &str) -> std::result::Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, table).unwrap();
        let by = by.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let plot = Plot { table: path, across: None, of: "ms".into(), by, logarithmic: false, to: None };
        let (places, series) = plot.read().map_err(|failure| match failure {
            Failure::Problem(problem) => problem.cause,
            other => format!("{other:?}"),
        })?;
        Ok(bars("ms", &places, &series))
    }

    #[test]
    fn a_table_becomes_bars_by_series() {
        let table = "size,scheme,ms\n1,\"a, b\",10\n2,\"a, b\",5\n1,c,\n2,c,0.5\n";
        let text = drawn(table, "scheme").unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "a, b");
        assert_eq!(lines[3], format!("1  {} 10", "#".repeat(48)));
        assert_eq!(lines[7], format!("2  {} 0.500", "#".repeat(2)));
    }

    #[test]
    fn what_cannot_be_drawn_is_named() {
        assert!(drawn("size,scheme,ms\n1,a,10\n1,b,5\n", "").unwrap_err().contains("two values at `1`"));
        assert!(drawn("size,ms\n1,x\n", "").unwrap_err().contains("`x` is no number"));
        assert!(drawn("size,s\n1,2\n", "").unwrap_err().contains("no column is `ms`"));
        assert!(drawn("size,ms\n1,2\n", "scheme").unwrap_err().contains("no column is `scheme`"));
        assert_eq!(fields("a,\"b\"\"c\",,d"), ["a", "b\"c", "", "d"]);
    }
}
