//! How a long operation is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a long operation to stop; looked at before every range.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks it to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
