//! Reads one table of a TOML file key by key: known keys are checked, unknown keys are problems.

use super::problem::{Problem, Problems};
use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use strsim::levenshtein;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const REFUSED: &str = "the volume is not opened";

/// A file being read, and its problems so far.
pub struct Reading<'a> {
    pub file: &'a Path,
    pub text: &'a str,
    /// Names of the tiers, once they are known.
    pub tiers: RefCell<Vec<String>>,
    problems: RefCell<Vec<Problem>>,
}

/// The value of a key, or a default.
pub struct Given<'g> {
    pub reading: &'g Reading<'g>,
    pub value: &'g DeValue<'g>,
    /// Offset of the table in the text.
    pub start: usize,
}

impl Given<'_> {
    /// A text, or a number as it is written in the file.
    pub fn word(&self) -> Option<String> {
        let number = || self.value.as_float().map(|f| f.as_str()).or(self.value.as_integer().map(|i| i.as_str()));
        self.value.as_str().or_else(number).map(str::to_owned)
    }
}

impl<'a> Reading<'a> {
    pub fn new(file: &'a Path, text: &'a str) -> Reading<'a> {
        Reading { file, text, tiers: RefCell::default(), problems: RefCell::default() }
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

    /// All problems in the order of their places; `None` without any.
    pub fn into_problems(self) -> Option<Problems> {
        let mut problems = self.problems.into_inner();
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        (!problems.is_empty()).then_some(Problems(problems))
    }
}

/// One table of the file; an absent one reads as empty.
pub struct Section<'r, 'a, 't> {
    pub reading: &'r Reading<'a>,
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

    /// Returns the value of a key; `None` if it is absent, or has a value that `kind` refuses, which is a problem.
    pub fn value<T>(&self, key: &'static str, kind: &impl Fn(&Given<'_>) -> Result<T, String>) -> Option<T> {
        let value = self.get(key)?;
        let given = Given { reading: self.reading, value: value.get_ref(), start: value.span().start };
        let read = kind(&given);
        read.map_err(|mend| self.problem(key, format!("`{key}` is {}", &self.reading.text[value.span()]), mend)).ok()
    }

    /// Parses a default of the table.
    pub fn default<T>(&self, kind: &impl Fn(&Given<'_>) -> Result<T, String>, written: &'static str) -> T {
        let value = DeValue::parse(written).expect("a default is a value");
        let given = Given { reading: self.reading, value: value.get_ref(), start: 0 };
        kind(&given).unwrap_or_else(|mend| panic!("the default {written}: {mend}"))
    }

    /// Reports a problem if this required key is missing.
    pub fn missing<T: Default>(&self, key: &'static str, example: &str) -> T {
        if self.get(key).is_none() {
            let whereabouts = if self.name.is_empty() { String::new() } else { format!(" in `[[{}]]`", self.name) };
            let cause = format!("`{key}` is missing{whereabouts}");
            self.reading.problem(self.span.clone(), cause, format!("Add `{key} = {example}`"));
        }
        T::default()
    }

    /// Reports a problem at a key, or at the section if the key is missing.
    pub fn problem(&self, key: &'static str, cause: impl Into<String>, mend: impl Into<String>) {
        let span = self.get(key).map_or(self.span.clone(), |value| value.span());
        self.reading.problem(span, cause, mend);
    }

    /// Reports unknown keys as problems: a misspelt key would otherwise be ignored for ever.
    pub fn finish(self) {
        let asked = self.asked.into_inner();
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if asked.contains(&name) {
                continue;
            }
            let distance = |known: &&&str| levenshtein(known, name);
            let near = asked.iter().filter(|known| distance(known) <= 2).min_by_key(distance);
            let mend = match near {
                Some(known) => format!("Did you mean `{known}`?"),
                None => format!("Remove it; valid here are: {}", asked.join(", ")),
            };
            let whereabouts = if self.name.is_empty() { String::new() } else { format!(" in `[{}]`", self.name) };
            self.reading.problem(key.span(), format!("unknown key `{name}`{whereabouts}"), mend);
        }
    }
}

pub fn integer(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
