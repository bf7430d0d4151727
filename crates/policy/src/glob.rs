//! Patterns over paths, with the syntax of shells and `.gitignore`.
//!
//! ```text
//!   tmp/**         all below tmp                 tmp/*.log      tmp/a.log, not tmp/run/a.log
//!   **/core        core in any directory         run/**/x?.dat  run/x1.dat, run/a/b/x1.dat
//! ```
//! `*` matches any characters but slashes, `?` one of these, `**` anything, and `**/` any directories, or none. A
//! pattern is anchored at the start of the path. Matching takes time proportional to both lengths, whatever names users
//! choose.

use std::fmt;

/// Parsed pattern over paths.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
    /// Length of the literal prefix, in bytes.
    plain_len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Char(char),
    /// `?`
    One,
    /// `*`
    Some,
    /// `**`
    All,
    /// `**/`: empty, or any path that ends with a slash.
    Directories,
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl std::str::FromStr for Glob {
    type Err = String;

    /// # Errors
    /// The cause, as an instruction.
    fn from_str(text: &str) -> Result<Glob, String> {
        let example = "Give a pattern such as \"tmp/**\"";
        if text.starts_with('/') || text.ends_with('/') {
            return Err(format!("{example}, without a slash at either end"));
        }
        if text.is_empty() || text.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(format!("{example}, without empty names, `.` and `..`"));
        }
        if text.contains(['[', ']', '{', '}', '\\']) {
            return Err(format!("{example}; only *, ** and ? stand for something else, and ? also for brackets"));
        }
        let (mut parts, mut rest, mut begins) = (Vec::new(), text, true);
        while let Some(c) = rest.chars().next() {
            let (part, len) = match c {
                '*' if rest.starts_with("**/") && begins => (Part::Directories, 3),
                '*' if rest.starts_with("**") => (Part::All, 2),
                '*' => (Part::Some, 1),
                '?' => (Part::One, 1),
                c => (Part::Char(c), c.len_utf8()),
            };
            begins = matches!(part, Part::Char('/') | Part::Directories);
            parts.push(part);
            rest = &rest[len..];
        }
        let plain_len = text.find(['*', '?']).unwrap_or(text.len());
        Ok(Glob { text: text.to_owned(), parts, plain_len })
    }
}

impl Glob {
    /// Whether the pattern matches this path.
    pub fn matches(&self, path: &str) -> bool {
        self.run(path).0
    }

    /// Whether the pattern matches this path or a directory above it.
    pub fn covers(&self, path: &str) -> bool {
        let (whole, above) = self.run(path);
        whole || above
    }

    /// Returns whether the pattern matches the path, and whether it matches a directory above.
    fn run(&self, path: &str) -> (bool, bool) {
        if !path.starts_with(&self.text[..self.plain_len]) {
            return (false, false);
        }
        let end = self.parts.len();
        // Possible positions in the pattern after the characters read so far.
        let (mut at, mut next) = (vec![false; end + 1], vec![false; end + 1]);
        at[0] = true;
        self.skip(&mut at, true);
        let mut above = false;
        for c in path.chars() {
            above |= c == '/' && at[end];
            next.fill(false);
            for (i, part) in self.parts.iter().enumerate().filter(|(i, _)| at[*i]) {
                match part {
                    Part::Char(char) => next[i + 1] |= *char == c,
                    Part::One => next[i + 1] |= c != '/',
                    Part::Some => next[i] |= c != '/',
                    Part::All | Part::Directories => next[i] = true,
                }
            }
            std::mem::swap(&mut at, &mut next);
            self.skip(&mut at, c == '/');
        }
        (at[end], above)
    }

    /// Adds positions after parts that may match nothing; `between`: at the start, or after a slash.
    fn skip(&self, at: &mut [bool], between: bool) {
        for (i, part) in self.parts.iter().enumerate() {
            let ends = match part {
                Part::Some | Part::All => true,
                Part::Directories => between,
                _ => false,
            };
            at[i + 1] |= at[i] && ends;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(text: &str) -> Glob {
        text.parse().unwrap()
    }

    #[test]
    fn it_stands_for_what_shells_and_gitignore_let_it() {
        for (pattern, path, is) in [
            ("tmp/**", "tmp/a", true),
            ("tmp/**", "tmp/a/b", true),
            ("tmp/**", "tmp", false),
            ("tmp/**", "tmpx/a", false),
            ("tmp/*.log", "tmp/a.log", true),
            ("tmp/*.log", "tmp/.log", true),
            ("tmp/*.log", "tmp/run/a.log", false),
            ("**/core", "core", true),
            ("**/core", "a/b/core", true),
            ("**/core", "a/score", false),
            ("run/**/x?.dat", "run/x1.dat", true),
            ("run/**/x?.dat", "run/a/b/x1.dat", true),
            ("run/**/x?.dat", "run/a/x.dat", false),
            ("a**z", "a/b/z", true),
            ("**", "any/thing", true),
            ("*", "a/b", false),
            ("é?", "éa", true),
            ("tmp", "tmp/a", false),
        ] {
            assert_eq!(glob(pattern).matches(path), is, "{pattern} {path}");
        }
    }

    #[test]
    fn it_covers_what_is_below_what_it_stands_for() {
        for (pattern, path, is) in [
            ("tmp", "tmp/a/b", true),
            ("tmp", "tmpx/a", false),
            ("*/keep", "a/keep/x", true),
            ("*.d", "a/b.d/x", false),
        ] {
            assert_eq!(glob(pattern).covers(path), is, "{pattern} {path}");
        }
    }

    #[test]
    fn a_long_pattern_ends_soon() {
        assert!(!glob(&"*a".repeat(2000)).matches(&"b".repeat(4000)));
    }

    #[test]
    fn what_it_does_not_understand_it_says() {
        for wrong in ["", "/tmp/**", "tmp/", "a//b", "../x", "./x", "[ab]", "{a,b}", "a\\*"] {
            assert!(wrong.parse::<Glob>().unwrap_err().contains("such as"), "{wrong}");
        }
    }

    /// Tries every way of matching.
    fn slow(parts: &[Part], path: &[char], between: bool) -> bool {
        let Some((first, rest)) = parts.split_first() else { return path.is_empty() };
        let tail = path.get(1..).unwrap_or_default();
        let next = path.first().copied();
        let slash = next == Some('/');
        match first {
            Part::Char(c) => next == Some(*c) && slow(rest, tail, slash),
            Part::One => next.is_some() && !slash && slow(rest, tail, false),
            Part::Some => slow(rest, path, between) || (next.is_some() && !slash && slow(parts, tail, false)),
            Part::All => slow(rest, path, between) || (next.is_some() && slow(parts, tail, slash)),
            Part::Directories => (between && slow(rest, path, between)) || (next.is_some() && slow(parts, tail, slash)),
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_trying_every_way_finds(pattern in "[ab*?/]{1,8}", path in "[ab/]{0,10}") {
            if let Ok(glob) = pattern.parse::<Glob>() {
                let path_chars: Vec<char> = path.chars().collect();
                prop_assert_eq!(glob.matches(&path), slow(&glob.parts, &path_chars, true));
            }
        }
    }
}
