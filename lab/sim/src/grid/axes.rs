//! A setup with named settings, and all combinations of their values.

use crate::setup::{Settable, SetupError};
use std::collections::BTreeMap;

/// Values by axis.
pub type Cell = BTreeMap<String, String>;

/// The values of the axes and the resulting setup.
#[derive(Clone, Debug, PartialEq)]
pub struct Case<S> {
    /// Value of each axis.
    pub cell: Cell,
    /// Setup of the case.
    pub setup: S,
}

/// Combines all values of the axes; the last axis changes fastest.
pub fn cross<'a, S: Settable>(
    setup: S,
    axes: impl IntoIterator<Item = (&'a str, &'a [String])>,
) -> Result<Vec<Case<S>>, SetupError> {
    let mut cases = vec![Case { cell: Cell::new(), setup }];
    for (axis, values) in axes {
        let mut next = Vec::with_capacity(cases.len() * values.len());
        for case in &cases {
            for value in values {
                let mut case = case.clone();
                case.setup.set(axis, value)?;
                case.cell.insert(axis.to_owned(), value.clone());
                next.push(case);
            }
        }
        cases = next;
    }
    Ok(cases)
}
