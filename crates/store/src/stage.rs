//! Staging: data in from a source, results out to a destination.

pub mod progress;

pub use progress::{Progress, Report, Stop};
