//! A queue for tests with a given snapshot.

use super::{Error, Queue, Snapshot};
use parking_lot::Mutex;

/// The snapshot that each request returns.
#[derive(Default)]
pub struct FixedQueue(pub Mutex<Snapshot>);

impl Queue for FixedQueue {
    fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.0.lock().clone())
    }
}
