//! Caches with prefetching over a disk: the result of `entrepot-lab sim cache` as a dict.

use crate::arguments::Several;
use crate::errors::{failed, wrong};
use crate::trace::readers;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::json;
use sim::setup::{LevelSetup, Setup};
use sim::simulate::{self, Opener};
use sim::trace::{Error, Reader};

/// Simulates levels of caches over a disk; returns setup, census and report.
#[pyfunction]
#[pyo3(
    signature = (trace, levels=Several(vec!["linux size=5%".to_owned()]), **settings),
    text_signature = "(trace, levels=['linux size=5%'], **settings)"
)]
pub fn sim_cache<'py>(
    trace: &Bound<'py, PyAny>,
    levels: Several<String>,
    settings: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = trace.py();
    let mut setup = settings.map_or_else(|| Ok(Setup::default()), |settings| setup(&settings))?;
    setup.levels = levels.0.iter().map(|words| LevelSetup::parse(words)).collect::<Result<_, _>>().map_err(wrong)?;
    simulate::check(&setup).map_err(wrong)?;
    let readers = readers(trace)?;
    let openers: Vec<_> = readers.iter().map(|open| move || Ok::<Box<dyn Reader>, Error>(open())).collect();
    let traces: Vec<&dyn Opener> = openers.iter().map(|opener| opener as &dyn Opener).collect();
    let done = py.detach(|| {
        let survey = simulate::survey(&setup, &traces)?;
        simulate::run(&setup, &survey, &traces).map(|outcome| (survey, outcome))
    });
    let (survey, outcome) = done.map_err(failed)?;
    let census: Vec<_> = survey.traces().iter().map(|trace| &trace.report).collect();
    let result = json!({ "setup": setup, "census": census, "report": outcome.report });
    py.import("json")?.call_method1("loads", (result.to_string(),))
}

/// The setup of keyword arguments. Each is parsed alone first, so that an error names its setting.
fn setup(settings: &Bound<'_, PyDict>) -> PyResult<Setup> {
    let json = settings.py().import("json")?;
    let parse = |settings: &Bound<'_, PyDict>| {
        let words = json.call_method1("dumps", (settings,))?.cast_into::<PyString>()?.to_string();
        Ok::<_, PyErr>(serde_json::from_str::<Setup>(&words))
    };
    for (name, value) in settings {
        let one = PyDict::new(settings.py());
        one.set_item(&name, value)?;
        parse(&one)?.map_err(|error| {
            let cause = error.to_string();
            let cause = cause.split(" at line ").next().unwrap_or_default();
            wrong(format!("setting `{name}`: {cause}; nothing was simulated; see `entrepot-lab sim cache --help`"))
        })?;
    }
    parse(settings)?.map_err(wrong)
}
