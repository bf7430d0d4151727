//! Tables of the laboratory's figures, and a command's answer in the chosen format.

use crate::failure::Result;
use crate::shown;
use serde_json::Value;
pub use terminal::table::{Column, Output, column, csv, json, lines, text};

/// A command's answer in the chosen format.
pub enum Answer {
    /// Text for people, or CSV.
    Text(String),
    /// A value for programs.
    Json(Value),
}

impl Answer {
    /// Writes the answer to standard output.
    pub fn write(&self) -> Result<u8> {
        match self {
            Answer::Text(text) => shown::text(text)?,
            Answer::Json(json) => shown::json(json)?,
        }
        Ok(0)
    }
}

/// Formats rows as chosen; `text` and `json` are only computed if needed.
pub fn answer<R>(
    output: Output,
    columns: &[Column<'_, R>],
    rows: &[R],
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> Value,
) -> Answer {
    match output {
        Output::Text => Answer::Text(text()),
        Output::Csv => Answer::Text(csv(columns, rows)),
        Output::Json => Answer::Json(json()),
    }
}

/// Formats one row as text: a line for each column.
pub fn sheet<R>(columns: &[Column<'_, R>], row: &R) -> String {
    let line = |column| match &lines(std::slice::from_ref(column), std::slice::from_ref(row))[..] {
        [heading, cell] if !heading.is_empty() => format!("{:<34}{:>16}\n", heading.trim(), cell.trim()),
        _ => String::new(), // only programs get this column
    };
    columns.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_a_sheet() {
        let columns = [
            column("count", |row: &(u64, f64)| row.0).shown("count", 0),
            column("share", |row: &(u64, f64)| row.1).percent("share %", 1),
            column("hidden", |row: &(u64, f64)| row.0),
        ];
        let sheet = sheet(&columns, &(2, 0.25));
        assert_eq!(sheet.lines().map(str::len).collect::<Vec<_>>(), [50, 50]);
        assert!(sheet.ends_with("25.0\n"), "{sheet}");
    }
}
