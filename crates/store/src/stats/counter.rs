//! Counters that many threads add to without waiting for each other.

/// A number that grows.
#[derive(Default)]
pub struct Counter {}

/// How long things took, in powers of two nanoseconds.
#[derive(Default)]
pub struct Histogram {}
