//! Errors of `sim` as Python exceptions. A message has cause, consequence and next step.

use lab::{Failure, exit};
use pyo3::PyErr;
use pyo3::exceptions::{PyFileNotFoundError, PyPermissionError, PyRuntimeError, PyValueError};
use std::error::Error;
use std::fmt::Display;
use std::io;

/// Options in the messages of `sim`, and the arguments that stand for them here.
const ARGUMENTS: [(&str, &str); 7] = [
    ("`--lenient`", "`lenient=True`"),
    ("`--format`", "`format=`"),
    ("`--time-unit s|ms|us|ns`", "`time_unit=`: s, ms, us or ns"),
    ("`--columns time:ms,offset:sectors,length,op`", "`columns=\"time:ms,offset:sectors,length,op\"`"),
    ("`--closed`", "`closed=True`"),
    ("--block", "`block=`"),
    ("--until", "until="),
];

/// A `ValueError` about wrong input.
pub fn wrong(message: impl Display) -> PyErr {
    PyValueError::new_err(in_python(&message.to_string()))
}

/// The exception of a command's failure, by its exit code.
pub fn refused(failure: Failure) -> PyErr {
    let (message, code) = match failure {
        Failure::Problem(of) => (format!("{}; {}; {}", of.cause, of.consequence, of.next_step), of.exit_code),
        Failure::Configuration(all) => {
            let lines = all.0.iter().map(|of| format!("{}; {}; {}", of.cause, of.consequence, of.mend));
            (lines.collect::<Vec<_>>().join("\n"), exit::WRONG_INPUT)
        }
        Failure::Said(code) => ("the command failed".to_owned(), code),
    };
    let message = in_python(&message);
    match code {
        exit::WRONG_INPUT => PyValueError::new_err(message),
        exit::NOT_FOUND => PyFileNotFoundError::new_err(message),
        exit::DENIED => PyPermissionError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    }
}

fn in_python(message: &str) -> String {
    ARGUMENTS.iter().fold(message.to_owned(), |text, (option, argument)| text.replace(option, argument))
}

/// The exception of a failure: an `OSError` of the system's kind if it has such a cause, otherwise a `ValueError`.
pub fn failed(error: impl Error) -> PyErr {
    match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(cause) => io::Error::new(cause.kind(), in_python(&error.to_string())).into(),
        None => wrong(error),
    }
}
