//! When jobs run, and into which jobs a script is cut.

pub mod easy;
pub mod staging;
