//! What all grids share: a setup whose settings have names, and every combination of the values that they are to have.

use crate::setup::{Settable, SetupError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values by axis, that of the input (`trace`, `log`) among them.
pub type Cell = BTreeMap<String, String>;

/// A case of a grid: the values of the axes and the setup that they mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Case<S> {
    /// Axis to value.
    pub cell: Cell,
    /// Which of the grid's inputs.
    pub input: usize,
    /// The setup.
    pub setup: S,
}

impl<S> Case<S> {
    /// A setup of which nothing varies yet.
    pub fn of(setup: S) -> Case<S> {
        Case { cell: Cell::new(), input: 0, setup }
    }
}

/// Every combination of the axes' values over the cases there are; the last axis changes fastest.
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

/// A setting's value: text, number or yes and no.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number.
    Number(f64),
    /// Yes or no.
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
