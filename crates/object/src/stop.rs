//! Stop flag of a long operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests that a long operation stop; checked before every range.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests a stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether a stop was requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
