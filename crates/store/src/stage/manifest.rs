//! A manifest: many files to be staged in, a line `URI PATH` each.
//!
//! `#` begins a comment line; URI and path are parted by tabs or spaces, and all that follows the gap is the path, so
//! it may have spaces in it. The whole manifest is checked before anything is changed.

use super::{StageError, place};
use crate::origin::check_uri;
use std::collections::BTreeMap;

/// Lines that a manifest may have.
const LINES_MAX: usize = 1_000_000;

/// One file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// Where from.
    pub uri: String,
    /// Where to, relative to the mount's root.
    pub path: String,
}

/// Reads a manifest.
pub fn parse(text: &str) -> Result<Vec<Line>, StageError> {
    let mut lines = Vec::new();
    let mut seen = BTreeMap::new();
    for (at, text) in text.split('\n').enumerate() {
        let number = at + 1;
        let bad = |why: String| StageError::Manifest { line: number, why };
        let text = text.strip_suffix('\r').unwrap_or(text).trim_matches([' ', '\t']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (uri, path) = text.split_once([' ', '\t']).ok_or_else(|| bad("write URI and PATH on a line".into()))?;
        let path = path.trim_start_matches([' ', '\t']);
        check_uri(uri).map_err(|e| bad(e.to_string()))?;
        if path.starts_with('/') {
            return Err(bad("the path is absolute; write it from the mount's root, without the first /".into()));
        }
        let names = place::names(path).map_err(|e| bad(e.to_string()))?;
        if names.is_empty() || path.ends_with('/') {
            return Err(bad("the path must name a file".into()));
        }
        let path = names.join("/");
        if let Some(earlier) = seen.insert(path.clone(), number) {
            return Err(bad(format!("{path} is named in line {earlier} too")));
        }
        lines.push(Line { number, uri: uri.to_string(), path });
        if lines.len() > LINES_MAX {
            return Err(bad("a manifest has at most a million lines; cut it in parts".into()));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_comments_and_spaces() {
        let lines = parse("# files\n\nhttp://h/a\tdir/a\r\n  file:///x  a name  \n").expect("good");
        let found: Vec<_> = lines.iter().map(|l| (l.number, l.uri.as_str(), l.path.as_str())).collect();
        assert_eq!(found, [(3, "http://h/a", "dir/a"), (4, "file:///x", "a name")]);
    }

    /// [S-052]
    #[test]
    fn hostile_and_bad_lines_are_named() {
        for (text, line) in [
            ("http://h/a a\nhttp://h/b ../b\n", 2),
            ("http://h/a /etc/passwd", 1),
            ("http://h/a a/../../b", 1),
            ("http://h/a a\0b", 1),
            ("http://h/a", 1),
            ("nonsense a", 1),
            ("http://u:hush@h/a a", 1),
            ("http://h/a a\nhttp://h/b a", 2),
            ("http://h/a dir/", 1),
        ] {
            match parse(text) {
                Err(StageError::Manifest { line: found, why }) => {
                    assert_eq!(found, line, "{text:?}");
                    assert!(!why.contains("hush"), "{why}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }
}
