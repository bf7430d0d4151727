//! Tables of figures: a column is defined once, with its name, heading, digits and value; text, CSV and JSON are
//! derived from it.

use crate::shown;
use clap::ValueEnum;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Format of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
    /// CSV for spreadsheets.
    Csv,
}

/// Value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, aligned to the left.
    Word(String),
    /// Text chosen by a user: escaped so that no spreadsheet takes it for a formula.
    Name(String),
    /// A whole number.
    Count(u64),
    /// A number with the digits of its column.
    Number(f64),
    /// No value: `-` in text, empty in CSV.
    Nothing,
}

/// A column for rows of one kind.
pub struct Column<'a, R> {
    name: Cow<'a, str>,
    digits: Option<usize>,
    shown: Option<Shown<'a>>,
    value: Box<dyn Fn(&R) -> Cell + 'a>,
}

struct Shown<'a> {
    heading: Cow<'a, str>,
    digits: usize,
    factor: f64,
}

/// Creates a column that CSV and JSON call `name`. A column with an empty name appears only in text.
pub fn column<'a, R, C: Into<Cell>>(name: impl Into<Cow<'a, str>>, value: impl Fn(&R) -> C + 'a) -> Column<'a, R> {
    Column { name: name.into(), digits: None, shown: None, value: Box::new(move |row| value(row).into()) }
}

impl<'a, R> Column<'a, R> {
    /// Sets the digits after the point in CSV; the default is as many as the number needs.
    pub fn digits(self, digits: usize) -> Self {
        Self { digits: Some(digits), ..self }
    }

    /// Adds the column to the text format, with this heading and number of digits.
    pub fn shown(self, heading: impl Into<Cow<'a, str>>, digits: usize) -> Self {
        self.scaled(heading, digits, 1.0)
    }

    /// Adds the column to the text format in percent.
    pub fn percent(self, heading: impl Into<Cow<'a, str>>, digits: usize) -> Self {
        self.scaled(heading, digits, 100.0)
    }

    fn scaled(self, heading: impl Into<Cow<'a, str>>, digits: usize, factor: f64) -> Self {
        Self { shown: Some(Shown { heading: heading.into(), digits, factor }), ..self }
    }

    /// Returns the heading and the text of each row; `None` if the column is not in the text format.
    fn for_people(&self, rows: &[R]) -> Option<(&str, Vec<(String, bool)>)> {
        let Shown { heading, digits, factor } = self.shown.as_ref()?;
        let cell = |row| match (self.value)(row) {
            Cell::Word(word) => (word, true),
            Cell::Name(name) => (shown::plain(&name), true),
            Cell::Count(count) => (count.to_string(), false),
            Cell::Number(number) if number.is_finite() => (format!("{:.digits$}", number * factor), false),
            Cell::Number(_) | Cell::Nothing => ("-".to_owned(), false),
        };
        Some((heading, rows.iter().map(cell).collect()))
    }

    fn for_spreadsheets(&self, row: &R) -> String {
        match (self.value)(row) {
            Cell::Word(word) => quoted(&word).into_owned(),
            Cell::Name(name) => quoted(&no_formula(&name)).into_owned(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number) => {
                self.digits.map_or_else(|| number.to_string(), |digits| format!("{number:.digits$}"))
            }
            Cell::Nothing => String::new(),
        }
    }
}

/// Formats the text lines: the headings, then each row.
pub fn lines<R>(columns: &[Column<'_, R>], rows: &[R]) -> Vec<String> {
    let mut lines = vec![String::new(); rows.len() + 1];
    for (heading, cells) in columns.iter().filter_map(|column| column.for_people(rows)) {
        let left = !cells.is_empty() && cells.iter().all(|(_, word)| *word);
        let width = |text: &str| text.chars().count();
        let widest = cells.iter().map(|(text, _)| width(text)).max().unwrap_or(0).max(width(heading));
        let all = std::iter::once(heading).chain(cells.iter().map(|(text, _)| text.as_str()));
        for (line, text) in lines.iter_mut().zip(all) {
            let gap = if line.is_empty() { "" } else { "  " };
            *line += &if left { format!("{gap}{text:<widest$}") } else { format!("{gap}{text:>widest$}") };
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Formats all rows as text.
pub fn text<R>(columns: &[Column<'_, R>], rows: &[R]) -> String {
    lines(columns, rows).join("\n") + "\n"
}

/// Formats all rows as CSV.
pub fn csv<R>(columns: &[Column<'_, R>], rows: &[R]) -> String {
    let named: Vec<_> = columns.iter().filter(|column| !column.name.is_empty()).collect();
    let head = named.iter().map(|column| quoted(&column.name).into_owned()).collect::<Vec<_>>();
    let rows = rows.iter().map(|row| named.iter().map(|column| column.for_spreadsheets(row)).collect::<Vec<_>>());
    std::iter::once(head).chain(rows).map(|line| line.join(",") + "\n").collect()
}

/// Returns all rows as JSON. Infinity becomes null.
pub fn json<R>(columns: &[Column<'_, R>], rows: &[R]) -> Value {
    let cell = |column: &Column<'_, R>, row: &R| match (column.value)(row) {
        Cell::Word(word) | Cell::Name(word) => word.into(),
        Cell::Count(count) => count.into(),
        Cell::Number(number) => number.into(),
        Cell::Nothing => Value::Null,
    };
    let named = || columns.iter().filter(|column| !column.name.is_empty());
    let row = |row| named().map(|column| (column.name.to_string(), cell(column, row))).collect::<Map<_, _>>();
    rows.iter().map(row).collect()
}

/// Prefixes an apostrophe to text that spreadsheets would calculate (OWASP, CSV injection).
fn no_formula(name: &str) -> Cow<'_, str> {
    if name.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{name}").into() } else { name.into() }
}

/// Quotes a field as RFC 4180 requires.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

impl From<&str> for Cell {
    fn from(word: &str) -> Cell {
        Cell::Word(word.to_owned())
    }
}

impl From<String> for Cell {
    fn from(word: String) -> Cell {
        Cell::Word(word)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Cell {
        Cell::Count(count.into())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        Cell::Count(count as u64)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl<C: Into<Cell>> From<Option<C>> for Cell {
    fn from(some: Option<C>) -> Cell {
        some.map_or(Cell::Nothing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, u64, f64, Option<f64>);

    fn columns() -> Vec<Column<'static, Row>> {
        vec![
            column("name", |row: &Row| row.0).shown("who", 0),
            column("count", |row: &Row| row.1).shown("count", 0),
            column("share", |row: &Row| row.2).digits(3).percent("share %", 1),
            column("hidden", |row: &Row| row.3),
            column("", |row: &Row| "#".repeat(row.1 as usize)).shown("bar", 0),
        ]
    }

    const ROWS: [Row; 2] = [("a,b", 2, 0.25, None), ("c", 10, f64::INFINITY, Some(0.1))];

    #[test]
    fn a_column_is_in_text_csv_and_json_as_it_is_said_once() {
        let text = text(&columns(), &ROWS);
        assert_eq!(text, "who  count  share %  bar\na,b      2     25.0  ##\nc       10        -  ##########\n");
        let csv = csv(&columns(), &ROWS);
        assert_eq!(csv, "name,count,share,hidden\n\"a,b\",2,0.250,\nc,10,inf,0.1\n");
        let json = json(&columns(), &ROWS);
        assert_eq!(json[0], serde_json::json!({ "name": "a,b", "count": 2, "share": 0.25, "hidden": null }));
        assert_eq!(json[1]["share"], Value::Null);
    }

    #[test]
    fn a_name_that_a_user_chose_is_no_formula_and_no_line() {
        let names = ["=1+1", "a\nb", "-x,\"y\"", "plain"];
        let columns = [column("name", |name: &&str| Cell::Name((*name).to_owned())).shown("name", 0)];
        assert_eq!(csv(&columns, &names), "name\n'=1+1\n\"a\nb\"\n\"'-x,\"\"y\"\"\"\nplain\n");
        assert_eq!(text(&columns, &names), "name\n=1+1\na\\nb\n-x,\"y\"\nplain\n");
        assert_eq!(json(&columns, &names)[0]["name"], "=1+1", "programs get it as it is");
    }
}
