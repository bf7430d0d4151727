//! Traces of files and generators, held in memory as the columns of a table.

use crate::arguments::Block;
use crate::errors::{failed, wrong};
use crate::table::Table;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{DictionaryArray, Int32Array, PrimitiveArray, StringArray, types::ArrowPrimitiveType};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use sim::simulate::{Workload, reader};
use sim::trace::{Flags, Format, Op, Options, Reader, Record, TimeUnit, open};
use std::path::PathBuf;
use std::sync::Arc;

/// Operations and their words, in the order of their codes.
const OPS: [(Op, &str); 4] = [(Op::Read, "read"), (Op::Write, "write"), (Op::Trim, "trim"), (Op::Sync, "sync")];

/// A trace: a table with one request a row.
#[pyclass(frozen, extends = Table, module = "entrepot_lab")]
pub struct Trace {
    /// Malformed lines that were skipped.
    #[pyo3(get)]
    skipped: u64,
}

impl Trace {
    fn read(py: Python<'_>, mut reader: Box<dyn Reader>) -> PyResult<Bound<'_, Trace>> {
        let records = py.detach(|| reader.by_ref().collect::<Result<Vec<Record>, _>>());
        let records = records.map_err(failed)?;
        if records.is_empty() {
            return Err(wrong("the trace has no records; nothing was read; check its file and its format"));
        }
        let skipped = reader.accounting().skipped_sum();
        let table = py.detach(|| columns(&records));
        Bound::new(py, PyClassInitializer::from(table).add_subclass(Trace { skipped }))
    }
}

fn columns(records: &[Record]) -> Table {
    fn column<T: ArrowPrimitiveType>(records: &[Record], of: fn(&Record) -> T::Native) -> Arc<PrimitiveArray<T>> {
        Arc::new(PrimitiveArray::from_iter_values(records.iter().map(of)))
    }
    let codes = Int32Array::from_iter_values(records.iter().map(|r| r.op as i32));
    let ops = DictionaryArray::new(codes, Arc::new(StringArray::from_iter_values(OPS.map(|(_, word)| word))));
    Table::new(vec![
        ("time_ns", column::<UInt64Type>(records, |r| r.time_ns)),
        ("offset", column::<UInt64Type>(records, |r| r.offset)),
        ("length", column::<UInt32Type>(records, |r| r.length)),
        ("op", Arc::new(ops)),
        ("client", column::<UInt32Type>(records, |r| r.client)),
        ("file", column::<UInt32Type>(records, |r| r.file)),
        ("device", column::<UInt16Type>(records, |r| r.device)),
        ("flags", column::<UInt8Type>(records, |r| r.flags.0)),
    ])
}

/// Returns the records of a trace's table.
pub fn records(table: &Table) -> impl Iterator<Item = Record> + Clone + Send + use<> {
    fn of<T: ArrowPrimitiveType>(table: &Table, name: &str) -> PrimitiveArray<T> {
        table.column(name).as_primitive::<T>().clone()
    }
    let (time_ns, offset) = (of::<UInt64Type>(table, "time_ns"), of::<UInt64Type>(table, "offset"));
    let (length, client) = (of::<UInt32Type>(table, "length"), of::<UInt32Type>(table, "client"));
    let (file, device) = (of::<UInt32Type>(table, "file"), of::<UInt16Type>(table, "device"));
    let (ops, flags) =
        (table.column("op").as_dictionary::<Int32Type>().keys().clone(), of::<UInt8Type>(table, "flags"));
    (0..time_ns.len()).map(move |at| Record {
        time_ns: time_ns.value(at),
        offset: offset.value(at),
        length: length.value(at),
        client: client.value(at),
        file: file.value(at),
        device: device.value(at),
        op: OPS[ops.value(at) as usize].0,
        flags: Flags(flags.value(at)),
    })
}

/// Returns readers of one trace or of a list of traces.
pub fn readers(trace: &Bound<'_, PyAny>) -> PyResult<Vec<impl Fn() -> Box<dyn Reader> + Send + Sync + use<>>> {
    let traces =
        trace.cast::<Trace>().map(|one| vec![one.clone()]).or_else(|_| trace.extract::<Vec<Bound<'_, Trace>>>());
    let traces = traces.ok().filter(|traces| !traces.is_empty()).ok_or_else(|| {
        let why = "is no trace and no list of traces; nothing was simulated; use read_trace() or generate()";
        PyTypeError::new_err(format!("an object of type {} {why}", trace.get_type()))
    })?;
    let opener = |trace: &Bound<'_, Trace>| {
        let records = records(trace.as_super().get());
        move || reader(records.clone())
    };
    Ok(traces.iter().map(opener).collect())
}

/// Reads a trace of any format that `entrepot-lab trace stats` reads.
#[pyfunction]
#[pyo3(
    signature = (path, format=None, columns=None, *, time_unit=None, block=Block::USUAL, lenient=false),
    text_signature = "(path, format=None, columns=None, *, time_unit=None, block='4KiB', lenient=False)"
)]
pub fn read_trace<'py>(
    py: Python<'py>,
    path: PathBuf,
    format: Option<&str>,
    columns: Option<String>,
    time_unit: Option<&str>,
    block: Block,
    lenient: bool,
) -> PyResult<Bound<'py, Trace>> {
    let format = format.map(|name| {
        let why = || format!("there is no format `{name}`; nothing was read; choose one of {}", Format::names());
        Format::named(name).ok_or_else(|| wrong(why()))
    });
    let time_unit = time_unit.map(|name| {
        let why = || format!("`{name}` is no unit of time; nothing was read; choose s, ms, us or ns");
        TimeUnit::named(name).ok_or_else(|| wrong(why()))
    });
    let (format, time_unit) = (format.transpose()?, time_unit.transpose()?);
    let block_bytes = Some(block.0);
    let options = Options { format, lenient, time_unit, block_bytes, columns, ..Options::default() };
    Trace::read(py, open(&path, &options).map_err(failed)?)
}

/// Generates a workload in the words of `--generate`, such as `zipf:theta=1.0`.
#[pyfunction]
#[pyo3(signature = (workload, seed=1))]
pub fn generate<'py>(py: Python<'py>, workload: &str, seed: u64) -> PyResult<Bound<'py, Trace>> {
    Trace::read(py, Workload::parse(workload).map_err(wrong)?.open(seed))
}
