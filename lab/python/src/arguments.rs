//! Arguments in words or numbers, as users write them.

use crate::errors::wrong;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sim::setup::{Size, size_bytes};
use sim::trace::Options;

/// One value, or any iterable of values.
pub struct Several<T>(pub Vec<T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Several<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Several<T>> {
        let one = |value: Bound<'py, PyAny>| value.extract::<T>().map_err(Into::into);
        match given.try_iter() {
            Ok(values) if !given.is_instance_of::<PyString>() => {
                values.map(|value| one(value?)).collect::<PyResult<_>>().map(Several)
            }
            _ => Ok(Several(vec![one(given.to_owned())?])),
        }
    }
}

/// A size as an argument: `5%` of the footprint, `64MiB`, or a number of blocks.
#[derive(Clone, Copy)]
pub struct CacheSize(pub Size);

impl FromPyObject<'_, '_> for CacheSize {
    type Error = PyErr;

    fn extract(size: Borrowed<'_, '_, PyAny>) -> PyResult<CacheSize> {
        size.str()?.to_string().parse().map(CacheSize).map_err(wrong)
    }
}

/// Bytes of a block as an argument: a number, or words like `4KiB`.
#[derive(Clone, Copy)]
pub struct Block(pub u32);

impl Block {
    /// A page, as of the command.
    pub const USUAL: Block = Block(Options::BLOCK_BYTES);
}

impl FromPyObject<'_, '_> for Block {
    type Error = PyErr;

    fn extract(block: Borrowed<'_, '_, PyAny>) -> PyResult<Block> {
        let bytes = size_bytes("block", &block.str()?.to_string()).map_err(wrong)?;
        let valid = u32::try_from(bytes).ok().filter(|bytes| bytes % 512 == 0).map(Block);
        let why = "is no multiple of 512 below 4 GiB; nothing was simulated; choose one, like 4096";
        valid.ok_or_else(|| wrong(format!("a block of {bytes} bytes {why}")))
    }
}
