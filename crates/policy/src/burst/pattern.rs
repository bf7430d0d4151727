//! Recognition of checkpoints: patterns over paths yield the application and the version.
//!
//! ```text
//!   ckpt/{app}/step-{version}/**     ckpt/wave/step-0012/rank-3.h5   ->  wave, 0012
//!   {app}.chk{version}               wave.chk7                       ->  wave, 7
//! ```
//! `{app}`, `{version}` and `*` match one character or more, without slashes; `**` matches anything. Matches are as
//! short as possible, from the left. Without `{version}` a file is overwritten in place, and each time is another
//! version. A pattern may belong to one application, and then has no `{app}`.

use std::fmt;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
    /// The application of all matches, if the path does not contain it.
    app: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    App,
    Version,
    Any,
    Deep,
}

/// Parts of a checkpoint's path.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Recognised {
    /// Name of the application.
    pub app: String,
    /// Name of the version; empty if the pattern has none.
    pub version: String,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Pattern {
    type Err = String;

    /// # Errors
    /// The mistake, as an instruction.
    fn from_str(text: &str) -> Result<Pattern, String> {
        let parts = read(text)?;
        if count(&parts, &Part::App) != 1 || count(&parts, &Part::Version) > 1 {
            return Err("Use {app} once and {version} at most once".into());
        }
        Ok(Pattern { text: text.to_owned(), parts, app: None })
    }
}

fn count(parts: &[Part], what: &Part) -> usize {
    parts.iter().filter(|part| *part == what).count()
}

fn read(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches('/');
    while !rest.is_empty() {
        let special = [("{app}", Part::App), ("{version}", Part::Version), ("**", Part::Deep), ("*", Part::Any)];
        if let Some((word, part)) = special.into_iter().find(|(word, _)| rest.starts_with(word)) {
            parts.push(part);
            rest = &rest[word.len()..];
            continue;
        }
        if rest.starts_with(['{', '}']) {
            return Err("Use {app}, {version}, * and ** and no other braces".into());
        }
        let len = rest.find(['{', '}', '*']).unwrap_or(rest.len());
        parts.push(Part::Text(rest[..len].to_owned()));
        rest = &rest[len..];
    }
    Ok(parts)
}

impl Pattern {
    /// Makes a pattern for files of one application.
    ///
    /// # Errors
    /// The mistake, as an instruction.
    pub fn of_app(text: &str, app: &str) -> Result<Pattern, String> {
        let parts = read(text)?;
        if parts.is_empty() || count(&parts, &Part::App) > 0 || count(&parts, &Part::Version) > 1 {
            return Err("Use {version} at most once, and {app} not at all".into());
        }
        Ok(Pattern { text: text.to_owned(), parts, app: Some(app.to_owned()) })
    }

    /// Returns the parts of a path relative to the mount's root, if it is a checkpoint's.
    pub fn matches(&self, path: &str) -> Option<Recognised> {
        let mut found = Recognised { app: self.app.clone().unwrap_or_default(), ..Recognised::default() };
        walk(&self.parts, path, &mut found).then_some(found)
    }
}

fn walk(parts: &[Part], path: &str, found: &mut Recognised) -> bool {
    let Some((first, rest)) = parts.split_first() else { return path.is_empty() };
    if let Part::Text(text) = first {
        return path.strip_prefix(text.as_str()).is_some_and(|path| walk(rest, path, found));
    }
    let deep = *first == Part::Deep;
    let ends = path.char_indices().map(|(at, c)| at + c.len_utf8());
    let ends = ends.take_while(|&end| deep || !path[..end].ends_with('/'));
    for end in deep.then_some(0).into_iter().chain(ends) {
        if walk(rest, &path[end..], found) {
            match first {
                Part::App => found.app = path[..end].to_owned(),
                Part::Version => found.version = path[..end].to_owned(),
                _ => {}
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(pattern: &str, path: &str) -> Option<(String, String)> {
        let found = pattern.parse::<Pattern>().unwrap().matches(path)?;
        Some((found.app, found.version))
    }

    fn some(app: &str, version: &str) -> Option<(String, String)> {
        Some((app.into(), version.into()))
    }

    #[test]
    fn paths_say_whose_and_which() {
        assert_eq!(says("ckpt/{app}/step-{version}/**", "ckpt/wave/step-0012/a/rank-3.h5"), some("wave", "0012"));
        assert_eq!(says("{app}.chk{version}", "wave.chk7"), some("wave", "7"));
        assert_eq!(says("**/{app}.restart", "home/u/x.restart"), some("x", ""));
        assert_eq!(says("/c/{app}-*/{version}", "c/a-17/3"), some("a", "3"));
        assert_eq!(says("c/{app}-{version}", "c/a-b-3"), some("a", "b-3"), "as little as possible from the left");
        for path in ["ckpt/wave/step-", "ckpt/wave/other/x", "ckpt//step-1/x", "ckpt/a/b/step-1/x"] {
            assert_eq!(says("ckpt/{app}/step-{version}/**", path), None, "{path}");
        }
    }

    #[test]
    fn a_pattern_may_be_of_one_application() {
        let pattern = Pattern::of_app("u/run7/step-{version}/**", "wave").unwrap();
        let found = pattern.matches("u/run7/step-3/rank-1").map(|found| (found.app, found.version));
        assert_eq!(found, some("wave", "3"));
        assert_eq!(pattern.matches("u/run8/step-3/rank-1"), None);
        for text in ["", "/", "{app}/x", "{version}{version}", "{rank}"] {
            assert!(Pattern::of_app(text, "wave").is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["", "a/b", "{app}{app}", "{app}/{rank}", "{app}/{version}/{version}", "{app"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}
