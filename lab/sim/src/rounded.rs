//! Numbers of figures, with as many digits as a file keeps.

use serde::Serializer;

/// Rounds to twelve significant digits, so that a value that was read back is written identically.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// Writes a rounded number.
pub(crate) fn short<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(rounded(*value))
}
