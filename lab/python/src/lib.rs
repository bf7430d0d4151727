//! The laboratory as a Python module: traces, replacement policies, and the simulated worlds.
//!
//! It converts arguments and results; every figure is computed by `sim`, and a world is a command of `entrepot-lab`. The signatures for users
//! are in `entrepot_lab.pyi`.

mod arguments;
mod errors;
mod replacement;
mod table;
mod trace;
mod world;

/// Traces, replacement policies and simulated worlds of Entrepot's laboratory.
#[pyo3::pymodule]
mod entrepot_lab {
    #[pymodule_export]
    use super::replacement::{compare, curve, replay};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::trace::{Trace, generate, read_trace};
    #[pymodule_export]
    use super::world::run;
    use pyo3::prelude::*;

    /// Adds the constants.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("POLICIES", sim::replacement::Policy::ALL.iter().map(|policy| policy.text()).collect::<Vec<_>>())
    }
}
