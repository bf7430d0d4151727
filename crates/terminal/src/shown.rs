//! Formats of numbers, times and answers.

use clap::ValueEnum;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use policy::units::{show_bytes as bytes, show_count as count, show_span_s as span_s};

const DAY_S: u64 = 86_400;

/// Width that the last column of a table needs to be wrapped. A guess: narrower, it is harder to read than a long line.
const WRAPPED_COLUMNS_MIN: usize = 20;

/// Format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

/// Writes a value as JSON, or as the text that `render` makes of it.
pub fn value<T: Serialize>(output: Output, value: &T, render: impl FnOnce(&T) -> String) -> io::Result<()> {
    match output {
        Output::Json => json(value),
        Output::Text => text(&render(value)),
    }
}

/// Writes a value as indented JSON, with its keys in order.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(&serde_json::to_value(value)?)?;
    writeln!(io::stdout().lock(), "{}", inert_json(&text))
}

/// Writes a value as one line of JSON.
pub fn json_line(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_value(value)?.to_string();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", inert_json(&text))?;
    out.flush()
}

/// Equivalent JSON without control characters for a terminal, which occur only in its strings.
pub fn inert_json(json: &str) -> String {
    let inert = |c: char| if c != '\n' && steers(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    if json.chars().any(steers) { json.chars().map(inert).collect() } else { json.to_owned() }
}

/// Clears the terminal and writes text there.
pub fn on_a_clear_screen(text_there: &str) -> io::Result<()> {
    io::stdout().lock().write_all(b"\x1b[H\x1b[2J")?;
    text(text_there)
}

/// Writes text, which ends with its own line end. Programs get its bytes; a terminal gets [`inert`] text.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(inert(text).as_bytes())?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    if !text.ends_with('\n') && !text.is_empty() {
        writeln!(out)?;
    }
    out.flush()
}

/// A text from users on one line: characters that move the cursor or change the text direction are escaped.
pub fn plain(text: &str) -> String {
    escaped(text, steers)
}

/// [`plain`] for a text of several lines: line ends and tabs stay.
pub fn inert(text: &str) -> String {
    escaped(text, |c| steers(c) && c != '\n' && c != '\t')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    text.chars().flat_map(|c| if is_escaped(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Mean duration of `count` operations; a dash for none.
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

/// Parses a date such as `2026-11-01` to the number of the day since 1970, in UTC.
pub fn day(text: &str) -> Option<u64> {
    let at = humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).ok()?;
    at.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs() / DAY_S)
}

/// Formats such a day; the inverse of [`day`].
pub fn of_day(day: u64) -> String {
    moment_ms(day.saturating_mul(DAY_S * 1000)).chars().take(10).collect()
}

/// Pads a cell to the width of its column on a terminal.
pub fn padded(cell: &str, width: usize, to_the_right: bool) -> String {
    let room = " ".repeat(width.saturating_sub(cell.width()));
    if to_the_right { room + cell } else { cell.to_owned() + &room }
}

/// Columns of a terminal that a text occupies.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The end of a text, after an ellipsis if the whole text is wider than `columns`.
pub fn end_of(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut at, mut left) = (text.len(), columns.saturating_sub(1));
    for (start, c) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        (at, left) = (start, rest);
    }
    format!("…{}", &text[at..])
}

/// Breaks a text into lines of at most `columns`, at spaces where possible.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        let gap = if line.is_empty() { "" } else { " " };
        if line.width() + gap.len() + word.width() <= columns {
            *line += gap;
            *line += word;
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for c in word.chars() {
            let line = lines.last_mut().expect("never empty");
            if line.width() + c.width().unwrap_or(0) > columns {
                lines.push(c.into());
            } else {
                line.push(c);
            }
        }
    }
    lines
}

/// Width of the terminal that standard output is, if it is one.
fn terminal_columns() -> Option<usize> {
    let out = io::stdout();
    let size = rustix::termios::tcgetwinsize(&out).ok().filter(|_| out.is_terminal())?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

/// Columns without borders, each as wide as its widest cell. On a terminal the last one wraps at the terminal's width.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    table_within(terminal_columns(), heading, rows)
}

fn table_within(terminal: Option<usize>, heading: &[&str], rows: Vec<Vec<String>>) -> String {
    let heading = heading.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
    let room = terminal.and_then(|all| all.checked_sub(before)).filter(|room| *room >= WRAPPED_COLUMNS_MIN);
    let line = |row: &Vec<String>| {
        let mut more = Vec::new();
        let cell = |(at, (cell, width)): (usize, (&String, &usize))| match room.filter(|_| at + 1 == columns) {
            None => format!("{cell:width$}"),
            Some(room) => {
                let mut lines = wrapped(cell, room).into_iter();
                let first = lines.next().unwrap_or_default();
                more.extend(lines.map(|line| " ".repeat(before) + &line + "\n"));
                first
            }
        };
        let cells: Vec<_> = row.iter().zip(&widths).enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_string() + "\n" + &more.concat()
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

    /// [S-423]
    #[test]
    fn the_last_column_wraps_at_the_width_of_a_terminal_and_nowhere_else() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = vec![row(["1", "its data came too late, for the queue was short"]), row(["2", &"x".repeat(25)])];
        let shown = table_within(Some(25), &["job", "detail"], rows.clone());
        let x = "x".repeat(20);
        let lines = ["job  detail", "1    its data came too", "     late, for the queue", "     was short"];
        assert_eq!(shown, lines.join("\n") + &format!("\n2    {x}\n     xxxxx\n"));
        assert_eq!(table_within(Some(24), &["job", "detail"], rows.clone()).lines().count(), 3, "too narrow");
        assert_eq!(table_within(None, &["job", "detail"], rows.clone()).lines().count(), 3, "no terminal");
        assert_eq!(
            table_within(Some(80), &["job", "detail"], rows.clone()),
            table_within(None, &["job", "detail"], rows)
        );
    }

    #[test]
    fn the_end_of_a_text_is_kept() {
        assert_eq!([end_of("/a/b/c", 6), end_of("/a/b/c", 4), end_of("数据/x", 4)], ["/a/b/c", "…b/c", "…/x"]);
        assert_eq!(end_of("/a/b/c", 0), "…");
    }

    #[test]
    fn a_name_does_not_move_the_cursor_and_stays_readable() {
        assert_eq!(plain("a\u{1b}[2J\nb\u{202e}c\u{9b}1m"), "a\\u{1b}[2J\\nb\\u{202e}c\\u{9b}1m");
        assert_eq!(plain("déjà 数据 👍"), "déjà 数据 👍");
        assert_eq!(inert("a\u{1b}c\n\tb\u{202e}\r"), "a\\u{1b}c\n\tb\\u{202e}\\r");
    }

    #[test]
    fn json_stays_the_same_value_and_does_not_steer() {
        let value = serde_json::json!({"a\u{202e}": "\u{1b}[2J\u{9b}\u{7f}\u{feff} é 👍"});
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("text")] {
            let inert = inert_json(&text);
            assert!(!inert.chars().any(|c| c != '\n' && steers(c)), "{inert}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&inert).expect("JSON"), value);
        }
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
