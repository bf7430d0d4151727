//! The grid file: its contents, and the cases derived from it.

use super::axes::{Case, Cell, Word, cross};
use crate::setup::{Setup, SetupError};
use crate::simulate::{Opener, Report, Workload};
use crate::trace::{self, Format, Options, TimeUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A grid file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Title of the summary.
    #[serde(default)]
    pub name: String,
    /// Traces; each is an axis value with its name.
    pub trace: Vec<TraceWish>,
    /// Settings that differ from the defaults.
    #[serde(default)]
    pub base: Setup,
    /// Axes and their values; every combination is a case.
    #[serde(default)]
    pub axes: BTreeMap<String, Vec<Word>>,
    /// Comparison of the summary.
    pub compare: Option<Compare>,
    /// Published results for values of the compared axis; printed beside ours.
    #[serde(default)]
    pub published: BTreeMap<String, String>,
}

/// An axis whose values are compared with its baseline, all else being equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Name of the axis.
    pub axis: String,
    /// Value that the others are compared with.
    pub baseline: String,
}

/// A trace of a grid: a file or a generator, and its differences from the base.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceWish {
    /// Name of the trace.
    pub name: String,
    /// A file, relative to the grid file. `$NAME/` at its start is the directory in the environment variable of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Format of the file; the default is detected from its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Unit of time, for formats without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<String>,
    /// Columns of a text trace, as `--columns` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// Specification of a generated workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<String>,
    /// Seed of the generator.
    #[serde(default)]
    pub seed: u64,
    /// Whether malformed lines are skipped and counted.
    #[serde(default)]
    pub lenient: bool,
    /// Whether the trace is replayed in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
    /// Whether each client of the trace is a client of the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_each: Option<bool>,
    /// Speed relative to the trace, in an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Limit of the sum of the requests' bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<String>,
    /// Limit of the number of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_requests: Option<u64>,
}

/// A case and its report, as stored in the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Axis values of the case.
    pub cell: Cell,
    /// Trace of the case.
    pub wish: TraceWish,
    /// Setup built from base, trace and axes.
    pub setup: Setup,
    /// Figures of the run.
    pub report: Report,
}

/// Error in a grid.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    /// The grid file is malformed.
    #[error(
        "the grid file is not valid: {0}; nothing was simulated. See `entrepot-lab sim cache --help` for an example"
    )]
    File(String),
    /// A value of an axis is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The comparison names an unknown axis or value.
    #[error(
        "the grid compares `{axis}` with `{baseline}`, which is not among its values; nothing was simulated. Add it to [axes]"
    )]
    Compare {
        /// Name of the axis.
        axis: String,
        /// Value of the baseline.
        baseline: String,
    },
}

impl Plan {
    /// Parses a grid file.
    pub fn parse(text: &str) -> Result<Plan, GridError> {
        let plan: Plan = toml::from_str(text).map_err(|error| GridError::File(error.to_string()))?;
        if plan.trace.is_empty() {
            return Err(GridError::File("there is no [[trace]]".into()));
        }
        for wish in &plan.trace {
            if wish.path.is_some() == wish.generate.is_some() {
                return Err(GridError::File(format!("trace `{}` needs either path or generate", wish.name)));
            }
            if plan.trace.iter().filter(|other| other.name == wish.name).count() > 1 {
                return Err(GridError::File(format!("two traces are called `{}`", wish.name)));
            }
        }
        if let Some(Compare { axis, baseline }) = &plan.compare
            && !plan.axes.get(axis).is_some_and(|values| values.iter().any(|value| value.to_string() == *baseline))
        {
            return Err(GridError::Compare { axis: axis.clone(), baseline: baseline.clone() });
        }
        Ok(plan)
    }

    /// Returns all cases, the last axis changing fastest; every setup has been checked.
    pub fn cases(&self) -> Result<Vec<Case<Setup>>, GridError> {
        let traces = self.trace.iter().enumerate().map(|(input, wish)| {
            let cell = Cell::from([("trace".to_owned(), wish.name.clone())]);
            Case { cell, input, setup: trace_setup(&self.base, wish) }
        });
        // `pair` creates the levels that other axes change, so it comes first.
        let mut axes: Vec<_> = self.axes.iter().map(|(axis, values)| (axis.as_str(), values.as_slice())).collect();
        axes.sort_by_key(|(axis, _)| (*axis != "pair", *axis));
        let cases = cross(traces.collect(), axes)?;
        for case in &cases {
            // Any footprint is good enough to check the words.
            case.setup.config(1 << 20)?;
            case.setup.storage()?;
        }
        Ok(cases)
    }
}

impl TraceWish {
    /// Returns an opener of the trace, whose path is relative to `beside`. `block_bytes` applies to formats that
    /// count in blocks of unknown size.
    pub fn opener(&self, beside: &Path, block_bytes: u32) -> Result<Box<dyn Opener>, GridError> {
        let wrong = |why: String| GridError::File(format!("trace `{}`: {why}", self.name));
        let format = self.format.as_deref().map(|name| {
            Format::named(name)
                .ok_or_else(|| wrong(format!("there is no format `{name}`, choose one of {}", Format::names())))
        });
        let time_unit = self.time_unit.as_deref().map(|name| {
            TimeUnit::named(name).ok_or_else(|| wrong(format!("`{name}` is no unit of time, choose s, ms, us or ns")))
        });
        let options = Options {
            format: format.transpose()?,
            lenient: self.lenient,
            time_unit: time_unit.transpose()?,
            columns: self.columns.clone(),
            block_bytes: Some(block_bytes),
            ..Options::default()
        };
        if let Some(path) = self.file(beside)? {
            return Ok(Box::new(move || trace::open(&path, &options)));
        }
        let words = self.generate.as_ref().ok_or_else(|| wrong("it has neither path nor generate".into()))?;
        let (workload, seed) = (Workload::parse(words)?, self.seed);
        Ok(Box::new(move || Ok(workload.open(seed))))
    }

    /// Returns the path of the file, if it is one, which is relative to `beside`.
    pub fn file(&self, beside: &Path) -> Result<Option<PathBuf>, GridError> {
        let path = self.path.as_deref().map(placed).transpose();
        let path = path.map_err(|why| GridError::File(format!("trace `{}`: {why}", self.name)))?;
        Ok(path.map(|path| beside.join(path)))
    }
}

/// Resolves an environment variable at the start of a path.
fn placed(path: &Path) -> Result<PathBuf, String> {
    let mut parts = path.components();
    let first = parts.next().and_then(|part| part.as_os_str().to_str());
    let Some(name) = first.and_then(|part| part.strip_prefix('$')) else { return Ok(path.into()) };
    match std::env::var_os(name) {
        Some(directory) => Ok(PathBuf::from(directory).join(parts.as_path())),
        None => Err(format!(
            "{} is in the directory ${name}, which is not set; set it or leave the trace out",
            path.display()
        )),
    }
}

/// Returns `base` with the differences of `wish`.
pub fn trace_setup(base: &Setup, wish: &TraceWish) -> Setup {
    let mut setup = base.clone();
    setup.speed = wish.speed.unwrap_or(setup.speed);
    setup.closed = wish.closed.unwrap_or(setup.closed);
    setup.client_each = wish.client_each.unwrap_or(setup.client_each);
    setup.limit_bytes = wish.limit_bytes.clone().or(setup.limit_bytes);
    setup.limit_requests = wish.limit_requests.or(setup.limit_requests);
    setup
}

/// Formats a case on one line.
pub fn cell_text(cell: &Cell) -> String {
    cell.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: &str = r#"
        [[trace]]
        name = "a"
        path = "a.spc"
        [[trace]]
        name = "b"
        generate = "oltp"
        closed = true
        [axes]
        pair = ["ra", "amp"]
        l1_size = ["5%", "1%"]
        coordinator = ["none", "pfc"]
        [compare]
        axis = "coordinator"
        baseline = "none"
    "#;

    #[test]
    fn every_combination_is_a_case() {
        let cases = Plan::parse(GRID).unwrap().cases().unwrap();
        assert_eq!(cases.len(), 16);
        assert!(cases[8..].iter().all(|case| case.setup.closed && case.input == 1));
        let last = cases.last().unwrap();
        assert_eq!(cell_text(&last.cell), "coordinator=pfc l1_size=1% pair=amp trace=b");
        assert_eq!(last.setup.levels[1].coordinator.as_deref(), Some("pfc"));
        assert_eq!(last.setup.levels[0].size, "1%");
    }

    #[test]
    fn a_path_may_begin_with_an_environment_variable() {
        assert_eq!(placed("a/$b.spc".as_ref()).unwrap(), PathBuf::from("a/$b.spc"));
        let home = std::env::var_os("PATH").unwrap();
        assert_eq!(placed("$PATH/a.spc".as_ref()).unwrap(), PathBuf::from(home).join("a.spc"));
        assert!(placed("$NOT_SET_ANYWHERE/a.spc".as_ref()).unwrap_err().contains("not set"));
    }

    #[test]
    fn mistakes_are_found_before_anything_runs() {
        let wrong = |from: &str, to: &str| Plan::parse(&GRID.replace(from, to)).and_then(|plan| plan.cases());
        assert!(matches!(wrong("baseline = \"none\"", "baseline = \"du\""), Err(GridError::Compare { .. })));
        assert!(matches!(wrong("\"amp\"", "\"apm\""), Err(GridError::Setup(_))));
        assert!(matches!(wrong("path = \"a.spc\"", ""), Err(GridError::File(_))));
        assert!(matches!(wrong("[axes]", "[axis]"), Err(GridError::File(_))));
        assert!(matches!(wrong("name = \"b\"", "name = \"a\""), Err(GridError::File(_))));
        assert!(matches!(wrong("l1_size", "l9_size"), Err(GridError::Setup(_))));
    }
}
