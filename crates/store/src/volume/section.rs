//! Reading one table of a TOML file key by key: what is asked for is checked, what nobody asked for is a problem.

use super::problem::{Problem, Problems};
use policy::units;
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const REFUSED: &str = "the volume is not opened";

/// A file being read and what was found wrong with it.
pub struct Reading<'a> {
    pub file: &'a Path,
    pub text: &'a str,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Reading<'a> {
    pub fn new(file: &'a Path, text: &'a str) -> Reading<'a> {
        Reading { file, text, problems: RefCell::default() }
    }

    /// Line and column, from 1, of a byte of the text.
    pub fn place(&self, byte: usize) -> (usize, usize) {
        let before = &self.text[..byte.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    pub fn problem(&self, span: Range<usize>, cause: impl Into<String>, mend: impl Into<String>) {
        let (line, column) = self.place(span.start);
        self.problems.borrow_mut().push(Problem {
            place: Some((self.file.to_owned(), line, column)),
            cause: cause.into(),
            consequence: REFUSED.into(),
            exit_code: None,
            mend: mend.into(),
        });
    }

    /// All problems by their place, or nothing.
    pub fn into_problems(self) -> Option<Problems> {
        let mut problems = self.problems.into_inner();
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        (!problems.is_empty()).then_some(Problems(problems))
    }
}

/// One table of the file; an absent one reads as empty.
pub struct Section<'r, 'a, 't> {
    reading: &'r Reading<'a>,
    name: String,
    pub span: Range<usize>,
    table: Option<&'t DeTable<'t>>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'r, 'a, 't> Section<'r, 'a, 't> {
    pub fn new(reading: &'r Reading<'a>, name: &str, span: Range<usize>, table: Option<&'t DeTable<'t>>) -> Self {
        Section { reading, name: name.to_owned(), span, table, asked: RefCell::default() }
    }

    pub fn get(&self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.table?.get(key)
    }

    /// A table in this one; an absent one reads as empty.
    pub fn section(&self, key: &'static str) -> Section<'r, 'a, 't> {
        let value = self.get(key);
        let span = value.map_or(self.span.clone(), |value| value.span());
        let table = value.and_then(|value| {
            let table = value.get_ref().as_table();
            if table.is_none() {
                self.reading.problem(
                    value.span(),
                    format!("`{key}` is no table"),
                    format!("Write `[{key}]` on a line of its own"),
                );
            }
            table
        });
        Section::new(self.reading, key, span, table)
    }

    /// A value that `parse` understands, else the default.
    fn parsed<T>(&self, key: &'static str, default: T, what: &str, parse: impl FnOnce(&DeValue<'t>) -> Option<T>) -> T {
        let Some(value) = self.get(key) else { return default };
        parse(value.get_ref()).unwrap_or_else(|| {
            let shown = &self.reading.text[value.span()];
            self.reading.problem(value.span(), format!("`{key}` is {shown}"), format!("Give {what}"));
            default
        })
    }

    pub fn string(&self, key: &'static str) -> Option<(String, Range<usize>)> {
        let value = self.get(key)?;
        let text = self.parsed(key, String::new(), "a text in quotes, not empty", |value| {
            value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        });
        Some((text, value.span()))
    }

    /// A string that must be there.
    pub fn required(&self, key: &'static str, example: &str) -> (String, Range<usize>) {
        self.string(key).unwrap_or_else(|| {
            self.reading.problem(
                self.span.clone(),
                format!("`{key}` is missing{}", self.whereabouts()),
                format!("Add `{key} = \"{example}\"`"),
            );
            (String::new(), self.span.clone())
        })
    }

    pub fn size(&self, key: &'static str, default: u64, range: RangeInclusive<u64>, what: &str) -> u64 {
        self.parsed(key, default, what, |value| {
            let size = match value.as_str() {
                Some(text) => units::bytes(text),
                None => integer(value),
            };
            size.filter(|size| range.contains(size))
        })
    }

    pub fn count(&self, key: &'static str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let what = format!("a number from {} to {}", range.start(), range.end());
        self.parsed(key, default, &what, |value| integer(value).filter(|n| range.contains(n)))
    }

    pub fn span(&self, key: &'static str, default: Duration, range: RangeInclusive<Duration>) -> Duration {
        let what = format!("a span from {:?} to {:?}, such as \"5s\" or \"500ms\"", range.start(), range.end());
        self.parsed(key, default, &what, |value| {
            let span = match value.as_str() {
                Some(text) => units::span_ns(text),
                None => value
                    .as_float()
                    .map(|f| f.as_str())
                    .or(value.as_integer().map(|i| i.as_str()))
                    .and_then(units::span_ns),
            };
            span.map(Duration::from_nanos).filter(|span| range.contains(span))
        })
    }

    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        self.parsed(key, None, "true or false", |value| value.as_bool().map(Some))
    }

    pub fn choice<T: Copy>(&self, key: &'static str, default: T, choices: &[(&str, T)]) -> T {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        self.parsed(key, default, &names.join(" or "), |value| {
            let text = value.as_str()?;
            choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice)
        })
    }

    /// A text that `parse` understands, else the default; `parse` says what is wrong and what would be right.
    pub fn words<T>(&self, key: &'static str, default: T, parse: impl FnOnce(&str) -> Result<T, String>) -> T {
        let Some((text, span)) = self.string(key).filter(|(text, _)| !text.is_empty()) else { return default };
        parse(&text).unwrap_or_else(|why| {
            self.reading.problem(span, format!("`{key}` is \"{text}\""), why);
            default
        })
    }

    pub fn path(&self, key: &'static str, example: &str) -> (PathBuf, Range<usize>) {
        let (text, span) = self.required(key, example);
        let base = self.reading.file.parent().unwrap_or(Path::new(""));
        let path = base.join(text);
        (std::path::absolute(&path).unwrap_or(path), span)
    }

    /// What nobody asked for is a problem: a key with a slip of the pen would be ignored for ever.
    pub fn finish(self) {
        let asked = self.asked.into_inner();
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if asked.contains(&name) {
                continue;
            }
            let near =
                asked.iter().filter(|known| distance(known, name) <= 2).min_by_key(|known| distance(known, name));
            let mend = match near {
                Some(known) => format!("Did you mean `{known}`?"),
                None => format!("Remove it; known here are: {}", asked.join(", ")),
            };
            let whereabouts = if self.name.is_empty() { String::new() } else { format!(" in `[{}]`", self.name) };
            self.reading.problem(key.span(), format!("unknown key `{name}`{whereabouts}"), mend);
        }
    }

    fn whereabouts(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" in `[[{}]]`", self.name) }
    }
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Letters to change, add or drop to get from one word to the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
