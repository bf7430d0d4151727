//! How numbers, times and answers are shown.

use clap::ValueEnum;
use serde_json::Value;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

pub use policy::units::{show_bytes as bytes, show_span_s as span_s};

const DAY_S: u64 = 86_400;

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Writes a value as indented JSON.
pub fn json(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}

/// Writes text, which ends with its own line end.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        writeln!(out)?;
    }
    out.flush()
}

/// So many of something: `1 file`, `2 files`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A text from users on one line: what would move the cursor, or turn what stands beside it around, is shown as it is written in
/// source code.
pub fn plain(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().flat_map(|c| if steers(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

/// How long one of several operations took, from what all took; a dash where there was none.
pub fn mean_span(total_ns: u64, count: u64) -> String {
    match total_ns.checked_div(count) {
        None => "-".into(),
        Some(ns @ 0..1_000_000) => format!("{} us", ns / 1000),
        Some(ns @ 1_000_000..10_000_000_000) => format!("{} ms", ns / 1_000_000),
        Some(ns) => format!("{} s", ns / 1_000_000_000),
    }
}

/// A moment in milliseconds since 1970, in UTC.
pub fn moment_ms(ms: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
    humantime::format_rfc3339_seconds(at).to_string()
}

/// The number of a day since 1970, in UTC, that is written as `2026-11-01`.
pub fn day(text: &str) -> Option<u64> {
    let at = humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).ok()?;
    at.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs() / DAY_S)
}

/// The same the other way.
pub fn of_day(day: u64) -> String {
    moment_ms(day.saturating_mul(DAY_S * 1000)).chars().take(10).collect()
}

/// A number of an answer; 0 where there is none.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().or_else(|| value[key].as_f64().map(|f| f as u64)).unwrap_or(0)
}

/// A text of an answer; empty where there is none.
pub fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A list of an answer; empty where there is none.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A cell of a column that is so wide, as a terminal shows it.
pub fn padded(cell: &str, width: usize, to_the_right: bool) -> String {
    let room = " ".repeat(width.saturating_sub(cell.width()));
    if to_the_right { room + cell } else { cell.to_owned() + &room }
}

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Columns without borders, each as wide as its widest cell.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    let heading = heading.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["long name".to_string(), "x".into()], vec!["é".into(), String::new()]];
        assert_eq!(table(&["a", "b"], rows), "a          b\nlong name  x\né\n");
    }

    #[test]
    fn a_name_does_not_move_the_cursor_and_stays_readable() {
        assert_eq!(plain("a\u{1b}[2J\nb\u{202e}c\u{9b}1m"), "a\\u{1b}[2J\\nb\\u{202e}c\\u{9b}1m");
        assert_eq!(plain("déjà 数据 👍"), "déjà 数据 👍");
    }

    #[test]
    fn spans_have_a_unit_that_fits() {
        let shown = [(0, 0), (9_999, 10), (3_000_000, 2), (60_000_000_000, 2)].map(|(ns, n)| mean_span(ns, n));
        assert_eq!(shown, ["-", "0 us", "1 ms", "30 s"]);
    }

    #[test]
    fn a_day_is_a_number_and_back() {
        assert_eq!((day("1970-01-02"), day("2026-11-01")), (Some(1), Some(20_758)));
        assert_eq!(of_day(20_758), "2026-11-01");
        for text in ["yesterday", "2026-13-01", "2026-11-1", "1969-12-31", ""] {
            assert_eq!(day(text), None, "{text}");
        }
    }

    #[test]
    fn one_is_one_of_something() {
        assert_eq!([0, 1, 2].map(|n| count(n, "file")), ["0 files", "1 file", "2 files"]);
    }
}
