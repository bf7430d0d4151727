//! A queue for tests, which shows what it is told.

use super::{Error, Queue, Snapshot};
use parking_lot::Mutex;

/// Shows this snapshot, to each question.
#[derive(Default)]
pub struct Told(pub Mutex<Snapshot>);

impl Queue for Told {
    fn name(&self) -> &'static str {
        "told"
    }
    fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.0.lock().clone())
    }
}
