//! Errors of `sim` as Python exceptions. A message has cause, consequence and next step.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;
use sim::replacement::SequenceError;
use sim::replay::SurveyError;
use sim::simulate::SimulateError;
use sim::trace::Error;
use std::fmt::Display;
use std::io;

/// Options in the messages of `sim`, and the arguments that stand for them here.
const ARGUMENTS: [(&str, &str); 7] = [
    ("`--lenient`", "`lenient=True`"),
    ("`--format`", "`format=`"),
    ("`--time-unit s|ms|us|ns`", "`time_unit=`: s, ms, us or ns"),
    ("`--columns time:ms,offset:sectors,length,op`", "`columns=\"time:ms,offset:sectors,length,op\"`"),
    ("`--closed`, or `closed = true` beside the trace in a grid", "`closed=True`"),
    ("--block", "`block=`"),
    ("--until", "until="),
];

/// A `ValueError` about wrong input.
pub fn wrong(message: impl Display) -> PyErr {
    PyValueError::new_err(in_python(&message.to_string()))
}

fn in_python(message: &str) -> String {
    ARGUMENTS.iter().fold(message.to_owned(), |text, (option, argument)| text.replace(option, argument))
}

/// The exception of a failed read: an `OSError` of the system's kind, otherwise a `ValueError`.
pub fn unreadable(error: &Error) -> PyErr {
    match error {
        Error::Io { source, .. } => io::Error::new(source.kind(), error.to_string()).into(),
        _ => wrong(error),
    }
}

/// The exception for a trace without accesses.
pub fn no_sequence(error: &SequenceError) -> PyErr {
    match error {
        SequenceError::Trace(error) => unreadable(error),
        _ => wrong(error),
    }
}

/// The exception of a simulation without a result.
pub fn not_simulated(error: &SimulateError) -> PyErr {
    match error {
        SimulateError::Survey(SurveyError::Trace(error)) => unreadable(error),
        _ => wrong(error),
    }
}
