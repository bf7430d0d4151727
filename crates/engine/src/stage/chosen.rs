//! Selection of files of a directory, a record or a manifest by patterns over their paths.

use policy::glob::Glob;
use serde::{Deserialize, Serialize};

/// Patterns: a file is selected if one of `include` matches (or there are none) and none of `exclude` does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chosen {
    /// Patterns of files to select; empty: all files.
    pub include: Vec<Pattern>,
    /// Patterns of files to leave out.
    pub exclude: Vec<Pattern>,
}

impl Chosen {
    /// Whether every file is selected.
    pub fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether a file is selected. The path is relative to the directory, to the record, or for a list to the mount
    /// point.
    pub fn takes(&self, path: &str) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.glob.matches(path));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// A pattern as users write it. Without a slash, it matches the last name at any depth; with a slash at its end,
/// everything below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    glob: Glob,
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let below = if text.ends_with('/') { "**" } else { "" };
        let whole = match text.contains('/') {
            true => format!("{}{below}", text.strip_prefix('/').unwrap_or(text)),
            // Wildcards within a name match no slash.
            false => format!("**/{}", text.split("**").collect::<Vec<_>>().join("*")),
        };
        Ok(Pattern { text: text.to_owned(), glob: whole.parse()? })
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Pattern, String> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(words: &[&str]) -> Vec<Pattern> {
        words.iter().map(|word| word.parse().expect("a pattern")).collect()
    }

    #[test]
    fn a_pattern_is_about_the_last_name_or_a_path() {
        for (pattern, yes, no) in [
            ("*.h5", &["a.h5", "d/e/a.h5", ".h5"][..], &["a.h5x", "a.h5/b"][..]),
            ("tmp/**", &["tmp/a", "tmp/d/a"], &["x/tmp/a", "tmp", "tmpx/a"]),
            ("tmp/", &["tmp/a", "tmp/d/a"], &["x/tmp/a"]),
            ("**/tmp/**", &["tmp/a", "x/y/tmp/a"], &["xtmp/a", "x/atmp/a"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab"]),
            ("d/*.nc", &["d/a.nc"], &["d/e/a.nc", "a.nc"]),
            ("run?", &["run1", "x/run2"], &["run", "run12"]),
            ("/a", &["a"], &["d/a"]),
            ("a**", &["a", "x/abc"], &["ba", "abc/x"]),
            ("**/", &["a", "d/a"], &[]),
            ("/", &["a", "d/a"], &[]),
            ("\u{e4}*", &["\u{e4}x"], &["a"]),
        ] {
            let chosen = Chosen { include: patterns(&[pattern]), exclude: Vec::new() };
            yes.iter().for_each(|path| assert!(chosen.takes(path), "{pattern} is {path}"));
            no.iter().for_each(|path| assert!(!chosen.takes(path), "{pattern} is not {path}"));
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_at_both_ends() {
        for wrong in ["", "a//b", "../a", "*.{nc,h5}"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
        let sent = serde_json::to_string(&Chosen { include: patterns(&["*.nc"]), exclude: patterns(&["tmp/"]) });
        let sent = sent.expect("json");
        assert_eq!(sent, r#"{"include":["*.nc"],"exclude":["tmp/"]}"#);
        assert!(serde_json::from_str::<Chosen>(&sent).is_ok());
        assert!(serde_json::from_str::<Chosen>(&sent.replace("*.nc", "[nc]")).is_err());
    }

    /// [S-269]
    #[test]
    fn what_is_left_out_goes_over_what_is_meant() {
        let chosen = Chosen { include: patterns(&["*.nc", "*.h5"]), exclude: patterns(&["tmp/**"]) };
        assert!(chosen.takes("d/a.nc") && !chosen.takes("tmp/a.nc") && !chosen.takes("a.txt"));
        assert!(Chosen::default().is_all() && Chosen::default().takes("x"));
    }
}
