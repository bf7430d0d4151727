//! A manifest: many files to be staged in, a line `URI PATH` each.
//!
//! `#` begins a comment line; URI and path are parted by tabs or spaces, and all that follows the gap is the path, so
//! it may have spaces in it. The whole manifest is checked before anything is changed.

use super::{BadLine, StageError, place};
use crate::source::check_uri;
use std::collections::BTreeMap;

/// Lines that a manifest may have.
const LINES_MAX: usize = 1_000_000;

/// One file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// The URI of the source.
    pub uri: String,
    /// Where to, relative to the mount's root.
    pub path: String,
}

/// Reads a manifest. What is wrong is said of all lines at once.
pub fn parse(text: &str) -> Result<Vec<Line>, StageError> {
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    let mut seen = BTreeMap::new();
    for (at, text) in text.split('\n').enumerate() {
        let number = at + 1;
        let text = text.strip_suffix('\r').unwrap_or(text).trim_matches([' ', '\t']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if lines.len() + bad.len() == LINES_MAX {
            let why = "a manifest has at most a million lines; cut it in parts".into();
            return Err(StageError::Manifest(vec![BadLine { line: number, why }]));
        }
        let parsed = parse_line(text).and_then(|(uri, path)| match seen.insert(path.clone(), number) {
            Some(earlier) => Err(format!("{path} is named in line {earlier} too")),
            None => Ok(Line { number, uri, path }),
        });
        match parsed {
            Ok(line) => lines.push(line),
            Err(why) => bad.push(BadLine { line: number, why }),
        }
    }
    if bad.is_empty() { Ok(lines) } else { Err(StageError::Manifest(bad)) }
}

/// URI and path of one line.
fn parse_line(text: &str) -> Result<(String, String), String> {
    let (uri, path) = text.split_once([' ', '\t']).ok_or("write URI and PATH on a line")?;
    let path = path.trim_start_matches([' ', '\t']);
    check_uri(uri).map_err(|e| e.to_string())?;
    if path.starts_with('/') {
        return Err("the path is absolute; write it from the mount's root, without the first /".into());
    }
    let names = place::names(path).map_err(|e| e.to_string())?;
    if names.is_empty() || path.ends_with('/') {
        return Err("the path must name a file".into());
    }
    Ok((uri.to_string(), names.join("/")))
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
                Err(StageError::Manifest(bad)) => {
                    assert_eq!(bad.iter().map(|b| b.line).collect::<Vec<_>>(), [line], "{text:?}");
                    assert!(!bad[0].why.contains("hush"), "{bad:?}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn all_bad_lines_are_named_at_once_but_no_more_than_can_be_read() {
        let Err(e) = parse("http://h/a\nhttp://h/b b\nhttp://h/c /c\nhttp://h/d b\n") else { panic!("accepted") };
        let said = e.to_string();
        for line in ["manifest line 1: ", "manifest line 3: ", "manifest line 4: b is named in line 2 too"] {
            assert!(said.contains(line), "{said}");
        }
        let said = parse(&"nonsense\n".repeat(1000)).expect_err("refused").to_string();
        assert!(said.lines().count() == 21 && said.ends_with("and 980 lines more"), "{said}");
    }
}
