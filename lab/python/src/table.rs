//! Columns with names: Arrow arrays in memory, for Python also as buffers, lists and pandas.

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Float64Array, StringArray, StructArray, UInt64Array};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyImportError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyMemoryView};
use std::sync::Arc;

/// Columns of equal length. Columns of words are dictionaries, the others numbers; nothing is null.
#[pyclass(frozen, subclass, module = "entrepot_lab")]
pub struct Table {
    columns: StructArray,
}

impl Table {
    /// A table of these columns.
    pub fn new(columns: Vec<(&str, ArrayRef)>) -> Table {
        let named = columns.into_iter().map(|(name, column)| {
            let field = Field::new(name, column.data_type().clone(), false);
            (Arc::new(field), column)
        });
        Table { columns: StructArray::from(named.collect::<Vec<_>>()) }
    }

    /// The table of comma-separated values with headings. A number that is missing is not a number.
    pub fn of_csv(py: Python<'_>, text: &str) -> PyResult<Table> {
        let file = py.import("io")?.call_method1("StringIO", (text,))?;
        let rows: Vec<Vec<String>> = py
            .import("csv")?
            .call_method1("reader", (file,))?
            .try_iter()?
            .map(|row| row?.extract())
            .collect::<PyResult<_>>()?;
        let Some((names, rows)) = rows.split_first() else { return Err(super::errors::wrong("the table is empty")) };
        let cells = |at: usize| column(rows.iter().map(move |row| row[at].as_str()));
        Ok(Table::new(names.iter().enumerate().map(|(at, name)| (name.as_str(), cells(at))).collect()))
    }

    /// The column with this name. A wrong name is a bug of the caller.
    pub fn column(&self, name: &str) -> &ArrayRef {
        self.columns.column_by_name(name).expect("the table has the column")
    }

    fn named(&self, name: &str) -> PyResult<&ArrayRef> {
        self.columns.column_by_name(name).ok_or_else(|| {
            let all = self.columns.column_names().join(", ");
            PyKeyError::new_err(format!("there is no column `{name}`; nothing was read; choose one of {all}"))
        })
    }
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.columns.len()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let columns = &slf.get().columns;
        Ok(format!("{}({} rows: {})", slf.get_type().name()?, columns.len(), columns.column_names().join(", ")))
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.columns.column_names()
    }

    /// A column: numbers as a memoryview, words as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.named(name)?;
        let Some(of_words) = column.as_dictionary_opt::<Int32Type>() else { return numbers(py, column) };
        let words = of_words.downcast_dict::<StringArray>().into_iter().flatten().flatten();
        Ok(PyList::new(py, words.collect::<Vec<_>>())?.into_any())
    }

    /// All columns as lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.columns.column_names() {
            let values = self.__getitem__(py, name)?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            dict.set_item(name, values)?;
        }
        Ok(dict)
    }

    /// A pandas DataFrame; words are categories.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let why = "pandas is not installed; the table was not converted; `pip install pandas`, or use to_dict()";
        let pandas = py.import("pandas").map_err(|_| PyImportError::new_err(why))?;
        let (numpy, dict) = (py.import("numpy")?, PyDict::new(py));
        for (name, column) in self.columns.column_names().iter().zip(self.columns.columns()) {
            let series = match column.as_dictionary_opt::<Int32Type>() {
                None => numpy.call_method1("asarray", (numbers(py, column)?,))?,
                Some(of_words) => {
                    let words: Vec<_> = of_words.values().as_string::<i32>().iter().flatten().collect();
                    let codes = numpy.call_method1("asarray", (numbers(py, of_words.keys())?,))?;
                    pandas.getattr("Categorical")?.call_method1("from_codes", (codes, words))?
                }
            };
            dict.set_item(name, series)?;
        }
        pandas.call_method1("DataFrame", (dict,))
    }

    /// The Arrow PyCapsule interface: schema and array, shared without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface lets a producer ignore a requested schema.
        drop(requested_schema);
        let (array, schema) = to_ffi(&self.columns.to_data()).map_err(super::errors::wrong)?;
        let schema = PyCapsule::new_with_value::<FFI_ArrowSchema>(py, schema, c"arrow_schema")?;
        Ok((schema, PyCapsule::new_with_value::<FFI_ArrowArray>(py, array, c"arrow_array")?))
    }
}

/// A column of counts, of numbers, or else of words.
fn column<'a>(cells: impl Iterator<Item = &'a str> + Clone) -> ArrayRef {
    let number = |cell: &str| if cell.is_empty() { Ok(f64::NAN) } else { cell.parse() };
    if let Ok(counts) = cells.clone().map(str::parse).collect::<Result<Vec<u64>, _>>() {
        Arc::new(UInt64Array::from(counts))
    } else if let Ok(numbers) = cells.clone().map(number).collect::<Result<Vec<f64>, _>>() {
        Arc::new(Float64Array::from(numbers))
    } else {
        Arc::new(cells.collect::<DictionaryArray<Int32Type>>())
    }
}

/// The numbers of a column as a memoryview.
fn numbers<'py>(py: Python<'py>, column: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    let data = column.to_data();
    let format = match data.data_type() {
        DataType::UInt64 => "Q",
        DataType::UInt32 => "I",
        DataType::UInt16 => "H",
        DataType::UInt8 => "B",
        DataType::Int32 => "i",
        DataType::Float64 => "d",
        other => unreachable!("no table has a column of {other}"),
    };
    PyMemoryView::from(&PyBytes::new(py, data.buffers()[0].as_slice()))?.call_method1("cast", (format,))
}
