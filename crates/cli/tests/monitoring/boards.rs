//! The boards of Grafana that operators load, as these tests read them.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of rules and boards.
pub fn monitoring() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring")
}

/// Each board with the name of its file.
pub fn boards() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(monitoring().join("boards")).expect("boards").flatten();
    let mut boards: Vec<(String, Value)> = files
        .map(|file| {
            let text = std::fs::read_to_string(file.path()).expect("a board");
            (file.file_name().to_string_lossy().into_owned(), serde_json::from_str(&text).expect("JSON"))
        })
        .collect();
    boards.sort_by(|a, b| a.0.cmp(&b.0));
    boards
}

/// The items of a list in a board.
pub fn items<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().unwrap_or_else(|| panic!("no list {name} in {of}")).iter()
}

/// Each query of a board, with the title of its panel.
pub fn queries(board: &Value) -> Vec<(&str, &str)> {
    let of = |panel| items(panel, "targets").map(move |target| (text(panel, "title"), text(target, "expr")));
    items(board, "panels").flat_map(of).collect()
}

/// A text in a board.
pub fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("no text {name} in {of}"))
}

/// A query as Grafana asks it when all volumes, nodes and targets are chosen.
pub fn filled_in(query: &str) -> String {
    let variables = ["$volume", "$node", "$target"];
    let query = query.replace("$__rate_interval", "1m");
    variables.iter().fold(query, |query, variable| query.replace(variable, ".*"))
}
