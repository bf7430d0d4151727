//! Parts shared by all grids: a setup with named settings, and all combinations of their values.

use crate::setup::{Settable, SetupError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values by axis, including that of the input (`trace`, `log`).
pub type Cell = BTreeMap<String, String>;

/// A case of a grid: the values of the axes and the resulting setup.
#[derive(Clone, Debug, PartialEq)]
pub struct Case<S> {
    /// Value of each axis.
    pub cell: Cell,
    /// Index of the grid's input.
    pub input: usize,
    /// Setup of the case.
    pub setup: S,
}

impl<S> Case<S> {
    /// Creates a case without values of axes.
    pub fn of(setup: S) -> Case<S> {
        Case { cell: Cell::new(), input: 0, setup }
    }
}

/// Combines all values of the axes with all given cases; the last axis changes fastest.
pub fn cross<'a, S: Settable>(
    mut cases: Vec<Case<S>>,
    axes: impl IntoIterator<Item = (&'a str, &'a [Word])>,
) -> Result<Vec<Case<S>>, SetupError> {
    for (axis, values) in axes {
        let mut next = Vec::with_capacity(cases.len() * values.len());
        for case in &cases {
            for word in values.iter().map(Word::to_string) {
                let mut case = case.clone();
                case.setup.set(axis, &word)?;
                case.cell.insert(axis.to_owned(), word);
                next.push(case);
            }
        }
        cases = next;
    }
    Ok(cases)
}

/// Value of a setting: text, a number or a flag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// Any other text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number with a fraction.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Text(text) => f.write_str(text),
            Word::Whole(n) => write!(f, "{n}"),
            Word::Number(n) => write!(f, "{n}"),
            Word::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word::Text(text.to_owned())
    }
}
