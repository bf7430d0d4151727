//! The queue of the built-in runner: compute parts and their cores.

use super::{Error, Queue, Snapshot};
use crate::runner::Runner;
use std::sync::Arc;

/// The queue of this machine.
pub struct Local {
    runner: Arc<Runner>,
}

impl Local {
    /// The queue of a runner.
    pub fn new(runner: Arc<Runner>) -> Local {
        Local { runner }
    }
}

impl Queue for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.runner.queue())
    }
}
