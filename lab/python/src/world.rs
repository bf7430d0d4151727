//! The simulated worlds of `entrepot-lab sim`: a function for all of them, with the options of the command line.

use crate::errors::{failed, refused};
use crate::table::Table;
use crate::trace::{Trace, records};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use sim::trace::{Target, Writer};
use std::ffi::OsString;
use tempfile::NamedTempFile;

/// Runs a world; returns what the command prints: JSON as Python's values, CSV as a table, or text.
#[pyfunction]
#[pyo3(
    name = "sim",
    signature = (world, *arguments, output="json", **options),
    text_signature = "(world, *arguments, output='json', **options)"
)]
pub fn run<'py>(
    py: Python<'py>,
    world: &str,
    arguments: &Bound<'py, PyTuple>,
    output: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut words = Words::default();
    words.words.extend(["sim"].into_iter().chain(world.split_whitespace()).map(Into::into));
    for argument in arguments {
        words.words.push(argument.str()?.extract()?);
    }
    for (name, value) in options.into_iter().flatten() {
        words.option(&name.to_string().replace('_', "-"), &value)?;
    }
    words.words.push(format!("--output={output}").into());
    match py.detach(|| lab::answer(&words.words)).map_err(refused)? {
        lab::Answer::Json(value) => py.import("json")?.call_method1("loads", (value.to_string(),)),
        lab::Answer::Text(text) if output == "csv" => Ok(Bound::new(py, Table::of_csv(py, &text)?)?.into_any()),
        lab::Answer::Text(text) => Ok(PyString::new(py, &text).into_any()),
    }
}

/// Words of a command, and the files that traces in memory are written to for it.
#[derive(Default)]
struct Words {
    words: Vec<OsString>,
    files: Vec<NamedTempFile>,
}

impl Words {
    /// Adds an option: `True` is a flag, `None` and `False` are none, of a list each value is one more.
    fn option(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut add = |value: OsString| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            self.words.push(word);
        };
        if let Ok(flag) = value.cast::<PyBool>() {
            self.words.extend(flag.is_true().then(|| format!("--{name}").into()));
        } else if let Ok(trace) = value.cast::<Trace>() {
            let file = written(trace)?;
            add(file.path().into());
            self.files.push(file);
        } else if let Ok(settings) = value.cast::<PyDict>() {
            for (setting, value) in settings {
                let values = match value.try_iter() {
                    Ok(values) if !value.is_instance_of::<PyString>() => {
                        values.map(|value| Ok(value?.str()?.to_string())).collect::<PyResult<Vec<_>>>()?.join(",")
                    }
                    _ => value.str()?.to_string(),
                };
                add(format!("{setting}={values}").into());
            }
        } else if value.is_instance_of::<PyString>() || value.try_iter().is_err() {
            if !value.is_none() {
                add(value.str()?.extract()?);
            }
        } else {
            for value in value.try_iter()? {
                self.option(name, &value?)?;
            }
        }
        Ok(())
    }
}

/// Writes a trace to a file of its own.
fn written(trace: &Bound<'_, Trace>) -> PyResult<NamedTempFile> {
    let file = NamedTempFile::new().map_err(|error| {
        PyOSError::new_err(format!("no file for a trace: {error}; nothing was simulated; make room in TMPDIR"))
    })?;
    let records = records(trace.as_super().get());
    let write = || {
        let mut writer = Writer::create(file.path(), Target::Native { block_bytes: 0, has_times: true })?;
        records.into_iter().try_for_each(|record| writer.write(&record))?;
        writer.finish()
    };
    trace.py().detach(write).map_err(failed)?;
    Ok(file)
}
