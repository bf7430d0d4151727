//! Manifest: many files to be staged in, one per line.
//!
//! A list has lines `URI PATH`, optionally after checksums (`sha256:HEX`). Tabs or spaces separate URI and path; the
//! path is the rest of the line and may contain spaces. A checksum manifest, as published by data portals, names files
//! below one directory ([`sums`]). `#` begins a comment line in both. The whole manifest is checked before anything is
//! changed.

mod sums;

use super::{Algorithm, BadLine, Checksum, Result, StageError, StageIn, place};
use crate::source::{Deposited, check_uri, encoded};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A request to stage in the files of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ManifestIn {
    /// Name of the manifest, or its URI if there is no text.
    pub name: String,
    /// Text of the manifest; `None`: the daemon reads it from its URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Source directory of the files of a checksum manifest. `None` for a list, whose lines have URIs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Destination directory, relative to the mount's root.
    #[serde(default)]
    pub path: String,
    /// Same meaning as [`super::StageIn::replace`].
    #[serde(default)]
    pub replace: bool,
    /// Same meaning as [`super::StageIn::keep`].
    #[serde(default)]
    pub keep: bool,
}

/// Maximum number of lines.
const LINES_MAX: usize = 1_000_000;

/// One file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number, from 1.
    pub number: usize,
    /// URI of the source.
    pub uri: String,
    /// Destination, relative to the mount's root.
    pub path: String,
    /// Expected checksums of the file.
    pub checksums: Vec<Checksum>,
    /// Size in bytes, where the source reports it.
    pub bytes: Option<u64>,
}

/// Parses a manifest. The error lists all bad lines.
pub fn parse(what: &ManifestIn, text: &str) -> Result<Vec<Line>> {
    let (mut lines, mut bad): (Vec<Line>, Vec<_>) = (Vec::new(), Vec::new());
    let mut seen = BTreeMap::new();
    let root = place::names(&what.path)?.join("/");
    let name = what.name.rsplit('/').next().unwrap_or_default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (at, text) in text.split('\n').enumerate() {
        let number = at + 1;
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.trim_matches([' ', '\t']).is_empty() || text.starts_with('#') {
            continue;
        }
        if lines.len() + bad.len() == LINES_MAX {
            let why = "a manifest has at most a million lines; cut it in parts".into();
            return Err(StageError::Manifest(vec![BadLine { line: number, why }]));
        }
        let parsed = match &what.from {
            None => parse_line(text.trim_matches([' ', '\t'])),
            Some(from) => sums::parse_line(text, name).and_then(|(file, sum)| below(from, &root, &file, sum)),
        };
        match parsed.map(|parts| (seen.entry(parts.1.clone()), parts)) {
            Ok((Entry::Vacant(first), (uri, path, checksums))) => {
                first.insert((number, lines.len()));
                lines.push(Line { number, uri, path, checksums, bytes: None });
            }
            Ok((Entry::Occupied(first), (_, path, checksums))) => {
                let (earlier, at) = *first.get();
                match lines[at].also(&checksums) {
                    true if what.from.is_some() => lines[at].checksums.extend(checksums),
                    _ => bad.push(BadLine { line: number, why: format!("{path} is named in line {earlier} too") }),
                }
            }
            Err(why) => bad.push(BadLine { line: number, why }),
        }
    }
    if lines.is_empty() && bad.is_empty() && what.from.is_some() {
        bad.push(BadLine { line: 1, why: "no line of it names a file".into() });
    }
    if bad.is_empty() { Ok(lines) } else { Err(StageError::Manifest(bad)) }
}

impl Line {
    /// Converts the line to a request for one file.
    pub(super) fn into_file(self, replace: bool, keep: bool) -> StageIn {
        StageIn { uris: vec![self.uri], path: self.path, replace, keep, checksums: self.checksums }
    }

    /// Whether other checksums of the same file are of other algorithms and so can be merged.
    fn also(&self, others: &[Checksum]) -> bool {
        others.iter().all(|other| self.checksums.iter().all(|own| own.algorithm != other.algorithm))
    }
}

/// URI, path and checksums of a line.
type LineParts = (String, String, Vec<Checksum>);

/// Converts the files of a record to lines of a manifest.
pub(super) fn deposited(files: Vec<Deposited>, path: &str) -> Result<Vec<Line>, String> {
    let root = place::names(path).map_err(|e| e.to_string())?.join("/");
    let line = |(at, file): (usize, Deposited)| {
        let name = self::file(&file.path).map_err(|why| format!("its file {:?}: {why}", file.path))?;
        let sums = file.checksum.iter().map(|text| {
            let (algorithm, hex) = text.split_once(':').unwrap_or(("", text));
            let checksum = Checksum { algorithm: Algorithm::named(algorithm)?, hex: hex.to_string() };
            checksum.check().map(|()| checksum).map_err(|e| e.to_string())
        });
        let checksums = sums.collect::<Result<_, String>>().map_err(|why| format!("its file {name}: {why}"))?;
        let path = if root.is_empty() { name } else { format!("{root}/{name}") };
        Ok(Line { number: at + 1, uri: file.uri, path, checksums, bytes: Some(file.size) })
    };
    files.into_iter().enumerate().map(line).collect()
}

/// Parses one line of a list.
fn parse_line(text: &str) -> Result<LineParts, String> {
    if sums::looks_like_one(text) {
        return Err(
            "a checksum manifest needs URI and PATH of the directory beside it: --manifest FILE URI PATH".into()
        );
    }
    let (mut rest, mut checksums) = (text, Vec::new());
    while let Some((algorithm, tail)) = rest.split_once(':').filter(|(word, _)| Algorithm::named(word).is_ok()) {
        let (hex, tail) = tail.split_once([' ', '\t']).ok_or("write URI and PATH behind the checksum")?;
        let checksum = Checksum { algorithm: Algorithm::named(algorithm)?, hex: hex.to_string() };
        checksum.check().map_err(|e| e.to_string())?;
        checksums.push(checksum);
        rest = tail.trim_start_matches([' ', '\t']);
    }
    let (uri, path) = rest.split_once([' ', '\t']).ok_or("write URI and PATH on a line")?;
    let path = path.trim_start_matches([' ', '\t']);
    check_uri(uri).map_err(|e| e.to_string())?;
    Ok((uri.to_string(), file(path)?, checksums))
}

/// Checks a path of a file below the mount's root or a directory.
fn file(path: &str) -> Result<String, String> {
    if path.starts_with('/') {
        return Err("the path is absolute; write it from the mount's root, without the first /".into());
    }
    let names = place::names(path).map_err(|e| e.to_string())?;
    if names.is_empty() || path.ends_with('/') {
        return Err("the path must name a file".into());
    }
    Ok(names.join("/"))
}

/// Parses one file of a checksum manifest.
fn below(from: &str, root: &str, name: &str, checksum: Checksum) -> Result<LineParts, String> {
    let name = match name.strip_prefix('/') {
        Some(_) => return Err("the name is absolute; names below the directory are expected".into()),
        None => file(name)?,
    };
    let uri = format!("{}/{}", from.trim_end_matches('/'), encoded(&name));
    check_uri(&uri).map_err(|e| e.to_string())?;
    let path = if root.is_empty() { name } else { format!("{root}/{name}") };
    Ok((uri, path, vec![checksum]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Line>> {
        super::parse(&ManifestIn::default(), text)
    }

    /// Parses a checksum manifest of `http://h/set/`.
    fn sums(text: &str) -> Result<Vec<Line>> {
        let from = Some("http://h/set/".to_string());
        super::parse(&ManifestIn { from, path: "in/".into(), name: "SUMS".into(), ..ManifestIn::default() }, text)
    }

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";

    /// [S-265]
    #[test]
    fn files_of_a_checksum_manifest_are_below_its_directory() {
        let text = format!("\u{feff}{MD5}  ./a b\r\n\n# more\nSHA1 (d/c) = {SHA1}\n{SHA1}  a b\n");
        let lines = sums(&text).expect("good");
        let found: Vec<_> = lines.iter().map(|l| (l.uri.as_str(), l.path.as_str(), l.checksums.len())).collect();
        assert_eq!(found, [("http://h/set/a%20b", "in/a b", 2), ("http://h/set/d/c", "in/d/c", 1)]);
        let Err(StageError::Manifest(bad)) =
            sums(&format!("{MD5}  ../a\n{MD5}  /a\n{MD5}  b\nnonsense\n{SHA1}0  c\n{MD5}  b\n"))
        else {
            panic!("accepted")
        };
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
        assert!(sums("# nothing\n").is_err() && parse(&format!("{MD5}  a\n")).is_err());
    }

    #[test]
    fn a_list_may_have_checksums() {
        let lines = parse(&format!("md5:{MD5} sha1:{SHA1}  http://h/a  a b\n")).expect("good");
        assert_eq!((lines[0].path.as_str(), lines[0].checksums.len()), ("a b", 2));
        for bad in ["md5:abc http://h/a a", &format!("md5:{MD5}"), &format!("md5:{MD5} http://h/a")] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

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
