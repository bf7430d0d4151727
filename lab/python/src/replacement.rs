//! Miss ratios of replacement policies, built in or written in Python.

use crate::arguments::{Block, CacheSize, Several};
use crate::errors::{failed, wrong};
use crate::table::Table;
use crate::trace::readers;
use arrow_array::types::Int32Type;
use arrow_array::{DictionaryArray, Float64Array, UInt64Array};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBool, PyDict};
use sim::replacement::{Point, Policy, Samples, Sequence, capacities, curves};
use sim::setup::Size;
use std::sync::Arc;

/// A policy as an argument.
pub enum Argument<'py> {
    BuiltIn(Policy),
    /// A class or function that takes a capacity in blocks and returns an object with `access(block, next)`.
    Python(Bound<'py, PyAny>),
}

/// The usual policy.
const LRU: Argument<'static> = Argument::BuiltIn(Policy::Lru);

impl<'py> FromPyObject<'_, 'py> for Argument<'py> {
    type Error = PyErr;

    fn extract(policy: Borrowed<'_, 'py, PyAny>) -> PyResult<Argument<'py>> {
        if let Ok(word) = policy.extract::<String>() {
            let (why, all) = ("there is no replacement policy", Policy::names());
            let error = || wrong(format!("{why} `{word}`; nothing was simulated; choose one of {all}"));
            return Policy::named(&word).map(Argument::BuiltIn).ok_or_else(error);
        }
        if policy.is_callable() {
            return Ok(Argument::Python(policy.to_owned()));
        }
        let next = "give a name, or a class with __init__(capacity) and access(block, next)";
        Err(PyTypeError::new_err(format!("{} is no policy; nothing was simulated; {next}", policy.to_owned())))
    }
}

/// Sizes of a comparison, as of the command.
fn usual() -> Several<CacheSize> {
    Several([1.0, 5.0, 10.0, 20.0].map(|percent| CacheSize(Size::Percent(percent))).to_vec())
}

impl<'py> Argument<'py> {
    fn name(&self) -> String {
        match self {
            Argument::BuiltIn(policy) => policy.text().to_owned(),
            Argument::Python(class) => class.getattr("__name__").unwrap_or_else(|_| class.clone()).to_string(),
        }
    }
}

/// Leads a cache written in Python through the accesses; returns its misses.
fn misses(class: &Bound<'_, PyAny>, sequence: &Sequence, capacity: usize) -> PyResult<u64> {
    let access = class.call1((capacity,))?.getattr("access")?;
    let mut misses = 0;
    for (at, (block, next)) in sequence.accesses().iter().zip(sequence.nexts()).enumerate() {
        let answer = access.call1((*block, (*next != Sequence::NEVER).then_some(*next)))?;
        let hit = answer.cast::<PyBool>().map_err(|_| {
            let why = "nothing was counted; return True for a hit and False for a miss";
            PyTypeError::new_err(format!("access {at} of the policy returned {answer} instead of a bool; {why}"))
        })?;
        misses += u64::from(!hit.is_true());
    }
    Ok(misses)
}

fn sequence(trace: &Bound<'_, PyAny>, block: Block, reads_only: bool) -> PyResult<Sequence> {
    let readers = readers(trace)?;
    let read = trace.py().detach(|| Sequence::read(readers.iter().map(|open| open()), block.0, None, reads_only));
    Ok(read.map_err(failed)?.0)
}

/// Replays a trace through one cache; returns counts and the miss ratio.
#[pyfunction]
#[pyo3(
    signature = (trace, policy=LRU, size=CacheSize(Size::Percent(5.0)), *, block=Block::USUAL, reads_only=false),
    text_signature = "(trace, policy='lru', size='5%', *, block='4KiB', reads_only=False)"
)]
pub fn replay<'py>(
    trace: &Bound<'py, PyAny>,
    policy: Argument<'py>,
    size: CacheSize,
    block: Block,
    reads_only: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let py = trace.py();
    let sequence = sequence(trace, block, reads_only)?;
    let capacity = capacities(Some(&[size.0]), &sequence, block.0)[0];
    let accesses = sequence.accesses().len() as u64;
    let misses = match &policy {
        Argument::BuiltIn(policy) => py.detach(|| policy.tally(&sequence, capacity).misses),
        Argument::Python(class) => misses(class, &sequence, capacity)?,
    };
    let counts = [
        ("blocks", capacity as u64),
        ("footprint_blocks", sequence.blocks() as u64),
        ("requests", sequence.requests()),
        ("accesses", accesses),
        ("hits", accesses - misses),
        ("misses", misses),
    ];
    let result = counts.into_py_dict(py)?;
    result.set_item("policy", policy.name())?;
    result.set_item("miss_ratio", misses as f64 / accesses as f64)?;
    Ok(result)
}

/// Compares policies over sizes, as `entrepot-lab sim replacement`; `None` are the twenty sizes of `--curve`.
#[pyfunction]
#[pyo3(
    signature = (trace, policies, sizes=Some(usual()), *, block=Block::USUAL, reads_only=false, sample=None, samples=5),
    text_signature = "(trace, policies, sizes=('1%', '5%', '10%', '20%'), *, block='4KiB', reads_only=False, \
                      sample=None, samples=5)"
)]
pub fn compare<'py>(
    trace: &Bound<'py, PyAny>,
    policies: Several<Argument<'py>>,
    sizes: Option<Several<CacheSize>>,
    block: Block,
    reads_only: bool,
    sample: Option<f64>,
    samples: u64,
) -> PyResult<Table> {
    let py = trace.py();
    let sizes = sizes.map(|sizes| sizes.0.iter().map(|size| size.0).collect::<Vec<Size>>());
    if policies.0.is_empty() || sizes.as_ref().is_some_and(Vec::is_empty) {
        return Err(wrong("there is no policy or no size; nothing was simulated; give at least one of each"));
    }
    let python = policies.0.iter().any(|policy| matches!(policy, Argument::Python(_)));
    if sample.is_some_and(|share| python || samples < 2 || !(share > 0.0 && share <= 1.0)) {
        let why = "a sample is a share above 0 and at most 1, drawn at least twice, for policies that are built in";
        return Err(wrong(format!("{why}; nothing was simulated; change `sample=` or `samples=`")));
    }
    let sequence = sequence(trace, block, reads_only)?;
    let capacities = capacities(sizes.as_deref(), &sequence, block.0);
    let samples = sample.map(|share| Samples::draw(&sequence, share, samples));
    let (mut names, mut points) = (Vec::new(), Vec::new());
    for policy in &policies.0 {
        let of_one: Vec<Point> = match policy {
            Argument::BuiltIn(policy) => {
                let curves = py.detach(|| curves(&[*policy], &capacities, &sequence, samples.as_ref(), None));
                curves.into_iter().flat_map(|curve| curve.points).collect()
            }
            Argument::Python(class) => {
                let accesses = sequence.accesses().len() as f64;
                let point = |&capacity| -> PyResult<Point> {
                    let miss_ratio = misses(class, &sequence, capacity)? as f64 / accesses;
                    Ok(Point { capacity, miss_ratio, error: 0.0, tally: None })
                };
                capacities.iter().map(point).collect::<PyResult<_>>()?
            }
        };
        names.extend(of_one.iter().map(|_| policy.name()));
        points.extend(of_one);
    }
    let names: DictionaryArray<Int32Type> = names.iter().map(String::as_str).collect();
    Ok(Table::new(vec![
        ("policy", Arc::new(names)),
        ("blocks", Arc::new(UInt64Array::from_iter_values(points.iter().map(|p| p.capacity as u64)))),
        ("miss_ratio", Arc::new(Float64Array::from_iter_values(points.iter().map(|p| p.miss_ratio)))),
        ("error", Arc::new(Float64Array::from_iter_values(points.iter().map(|p| p.error)))),
    ]))
}

/// Returns the miss ratios of one policy over sizes.
#[pyfunction]
#[pyo3(
    signature = (trace, policy=LRU, sizes=None, *, block=Block::USUAL, reads_only=false, sample=None, samples=5),
    text_signature = "(trace, policy='lru', sizes=None, *, block='4KiB', reads_only=False, \
                      sample=None, samples=5)"
)]
pub fn curve<'py>(
    trace: &Bound<'py, PyAny>,
    policy: Argument<'py>,
    sizes: Option<Several<CacheSize>>,
    block: Block,
    reads_only: bool,
    sample: Option<f64>,
    samples: u64,
) -> PyResult<Table> {
    compare(trace, Several(vec![policy]), sizes, block, reads_only, sample, samples)
}
