//! Which files of a directory, a record or a manifest are meant, by patterns over their paths.
//!
//! `*` stands for characters without a slash, `?` for one of them, `**` for anything, `**/` for directories or none. A
//! pattern without a slash is about the last name, wherever it lies; one that ends in a slash is about all below. Each
//! character of a path is looked at once for each part of a pattern, whatever it is.

use serde::{Deserialize, Serialize};

/// Patterns: what none of `include` matches, where there are any, and what one of `exclude` matches is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chosen {
    /// What is meant; everything if there is none.
    pub include: Vec<String>,
    /// What is left out of that.
    pub exclude: Vec<String>,
}

impl Chosen {
    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether a file is meant. Its path is relative to the directory, the record or, of a list, the mount point.
    pub fn takes(&self, path: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

enum Part {
    Char(char),
    One,
    Some,
    Deep,
    Directories,
}

fn parts(pattern: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some(c) = rest.chars().next() {
        let (part, len) = match c {
            '*' if rest.starts_with("**/") => (Part::Directories, 3),
            '*' if rest.starts_with("**") => (Part::Deep, 2),
            '*' => (Part::Some, 1),
            '?' => (Part::One, 1),
            c => (Part::Char(c), c.len_utf8()),
        };
        parts.push(part);
        rest = &rest[len..];
    }
    if pattern.ends_with('/') && !pattern.ends_with("**/") {
        parts.push(Part::Deep);
    }
    parts
}

fn matches(pattern: &str, path: &str) -> bool {
    let path = if pattern.contains('/') { path } else { path.rsplit('/').next().unwrap_or(path) };
    let parts = parts(pattern.strip_prefix('/').unwrap_or(pattern));
    let (mut entered, mut stays) = (vec![false; parts.len() + 1], vec![false; parts.len() + 1]);
    entered[0] = true;
    pass(&parts, &mut entered, &stays);
    for c in path.chars() {
        let (mut enters, mut keeps) = (vec![false; entered.len()], vec![false; entered.len()]);
        for (n, part) in parts.iter().enumerate().filter(|(n, _)| entered[*n] || stays[*n]) {
            match part {
                Part::Char(own) => enters[n + 1] |= *own == c,
                Part::One => enters[n + 1] |= c != '/',
                Part::Some => keeps[n] = c != '/',
                Part::Deep => keeps[n] = true,
                Part::Directories => {
                    keeps[n] = true;
                    enters[n + 1] |= c == '/';
                }
            }
        }
        pass(&parts, &mut enters, &keeps);
        (entered, stays) = (enters, keeps);
    }
    entered[parts.len()]
}

/// What may stand for nothing, or for nothing more, is passed. Directories end with their slash, unless there are none.
fn pass(parts: &[Part], entered: &mut [bool], stays: &[bool]) {
    for (n, part) in parts.iter().enumerate() {
        entered[n + 1] |= match part {
            Part::Some | Part::Deep => entered[n] || stays[n],
            Part::Directories => entered[n],
            Part::Char(_) | Part::One => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*.h5", &["a.h5", "d/e/a.h5", ".h5"][..], &["a.h5x", "a.h5/b"][..]),
            ("tmp/**", &["tmp/a", "tmp/d/a"], &["x/tmp/a", "tmp", "tmpx/a"]),
            ("tmp/", &["tmp/a", "tmp/d/a"], &["x/tmp/a"]),
            ("**/tmp/**", &["tmp/a", "x/y/tmp/a"], &["xtmp/a", "x/atmp/a"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab"]),
            ("d/*.nc", &["d/a.nc"], &["d/e/a.nc", "a.nc"]),
            ("run?", &["run1", "x/run2"], &["run", "run12"]),
            ("/a", &["a"], &["d/a"]),
            ("a**", &["a", "abc"], &["ba"]),
            ("\u{e4}*", &["\u{e4}x"], &["a"]),
        ] {
            yes.iter().for_each(|path| assert!(matches(pattern, path), "{pattern} is {path}"));
            no.iter().for_each(|path| assert!(!matches(pattern, path), "{pattern} is not {path}"));
        }
        assert!(!matches(&"*a".repeat(2000), &"b".repeat(4000)), "and it ends soon");
    }

    /// [S-269]
    #[test]
    fn what_is_left_out_goes_over_what_is_meant() {
        let list = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        let chosen = Chosen { include: list(&["*.nc", "*.h5"]), exclude: list(&["tmp/**"]) };
        assert!(chosen.takes("d/a.nc") && !chosen.takes("tmp/a.nc") && !chosen.takes("a.txt"));
        assert!(Chosen::default().is_all() && Chosen::default().takes("x"));
    }
}
