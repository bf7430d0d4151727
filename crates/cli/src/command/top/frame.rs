//! Lines of text of one frame, for a screen or a file.

use super::board::{Board, View};
use super::moment::Moment;
use super::rows::{Column, Count, Row, rows};
use crate::shown::{count, end_of, moment_ms, padded, plain, span_s, width};
use terminal::screen::{Line, Size};

/// Lines that are no rows: three above, the heading, and the keys.
const OTHER_LINES: usize = 5;

/// Least width of the column of paths. A guess: most names of files fit.
const PATH_COLUMNS_MIN: usize = 16;

const KEYS: &str = "1 users  2 jobs  3 files  4 targets   s sort  r reverse  q quit";

/// Number of rows that fit on a screen.
pub fn rows_in(size: Size) -> usize {
    size.rows.saturating_sub(OTHER_LINES)
}

/// Formats the frame for a screen of that size.
pub fn lines(board: &Board, size: Size) -> Vec<Line> {
    let (heading, table) = table(board, Some(size.columns));
    let room = rows_in(size);
    let above = board.above.min(table.len().saturating_sub(room));
    let shown: Vec<_> = table.iter().skip(above).take(room).cloned().collect();
    let mut last = board.note.as_deref().map_or_else(|| KEYS.to_owned(), plain);
    if shown.len() < table.len() {
        last = format!("{}-{} of {}   {last}", above + 1, above + shown.len(), table.len());
    }
    let line = |text: String| Line { text, is_strong: false };
    let strong = |text: String| Line { text, is_strong: true };
    let mut all: Vec<_> = head(board).into_iter().map(line).collect();
    all.push(strong(heading));
    all.extend(shown.into_iter().map(line));
    all.resize(size.rows.saturating_sub(1).max(all.len()), line(String::new()));
    all.push(line(last));
    all
}

/// Formats the frame for a file.
pub fn text(board: &Board) -> String {
    let (heading, rows) = table(board, None);
    let lines = head(board).into_iter().chain([heading]).chain(rows);
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn head(board: &Board) -> Vec<String> {
    let (top, over) = (&board.now.top, board.over());
    let node = match top.nodes {
        0 | 1 => format!("on {}", plain(&top.host)),
        nodes => format!("as node {} sees it, 1 of {nodes} nodes", plain(&top.host)),
    };
    let up = span_s(top.uptime_ns / 1_000_000_000);
    let before = board.before.as_ref().map_or_else(Count::default, |before: &Moment| Count::from(&before.top.all));
    let all = Count::from(&top.all).since(before);
    let each = if over.0.is_some() { "/s" } else { "" };
    let span = match over.0 {
        Some(seconds) => format!("in the last {seconds:.1} s"),
        None if board.view == View::Files => "since they were opened".into(),
        None if board.view == View::Jobs => "so far".into(),
        None => "since the daemon started".into(),
    };
    let whose = if top.everybody || board.view == View::Targets { "" } else { " (yours only)" };
    let order = if board.is_reversed { ", reversed" } else { "" };
    let [read, written] = [all.read_bytes, all.written_bytes].map(|n| over.bytes(n));
    let (ops, latency, open) = (over.ops(all.ops), all.latency(), count(top.open_files, "file"));
    vec![
        format!("volume {} {node}, up {up}, {}", plain(&top.volume), moment_ms(top.at_ms)),
        format!("all users: {read}{each} read, {written}{each} written, {ops} ops{each} of {latency}; {open} open"),
        format!("{}{whose} {span}, by {}{order}", board.view.name(), board.sort.name()),
    ]
}

fn widths(columns: &[Column], rows: &[Row]) -> Vec<usize> {
    let cell_width = |at: usize, row: &Row| row.cells.get(at).map_or(0, |cell| width(cell));
    let widest = |at: usize| rows.iter().map(|row| cell_width(at, row)).max().unwrap_or(0);
    columns.iter().enumerate().map(|(at, (heading, _))| width(heading).max(widest(at))).collect()
}

/// Width that a screen leaves for the last column of a table.
fn room_for_last(screen: usize, columns: &[Column], rows: &[Row]) -> usize {
    let before: usize = widths(columns, rows).iter().rev().skip(1).map(|width| width + 2).sum();
    screen.saturating_sub(before)
}

/// Shortens paths to their ends for a screen of that width. If it is too narrow, the column of layouts is removed
/// first.
fn fit_paths(screen: usize, columns: &mut Vec<Column>, rows: &mut [Row]) {
    let room = room_for_last(screen, columns, rows);
    if room < PATH_COLUMNS_MIN && columns.len() > 2 {
        let layouts = columns.len() - 2;
        columns.remove(layouts);
        rows.iter_mut().for_each(|row| drop(row.cells.remove(layouts)));
    }
    let room = room_for_last(screen, columns, rows).max(PATH_COLUMNS_MIN);
    for path in rows.iter_mut().filter_map(|row| row.cells.last_mut()) {
        *path = end_of(path, room);
    }
}

/// Formats the heading and the rows, each column as wide as its widest cell. `screen` is the width of a screen; `None`
/// for a file.
fn table(board: &Board, screen: Option<usize>) -> (String, Vec<String>) {
    let (mut columns, mut rows) = rows(board);
    if let (View::Files, Some(screen)) = (board.view, screen) {
        fit_paths(screen, &mut columns, &mut rows);
    }
    let widths = widths(&columns, &rows);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(columns.iter().zip(&widths));
        let cells: Vec<_> = cells.map(|(cell, ((_, is_number), width))| padded(cell, *width, *is_number)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let heading = line(&mut columns.iter().map(|(heading, _)| heading.as_str()));
    (heading, rows.iter().map(|row| line(&mut row.cells.iter().map(String::as_str))).collect())
}
