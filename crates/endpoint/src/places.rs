//! A bounded number of connections: when all places are taken, the connection that was idle for longest is closed.
//!
//! So idle connections never keep a new client out.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Instant;
use tokio::task::AbortHandle;

/// Table of connections by number. An idle one has the time since when it is, and its task.
pub struct Places {
    max: usize,
    all: Mutex<HashMap<u64, Option<(Instant, AbortHandle)>>>,
}

impl Places {
    /// Creates a table of `max` places.
    pub fn new(max: usize) -> Places {
        Places { max, all: Mutex::default() }
    }

    /// Takes a place for a connection, whose task is aborted when its place is needed. Returns `false` if all others
    /// are busy.
    pub fn take(&self, number: u64, task: AbortHandle) -> bool {
        let mut all = self.all.lock();
        if all.len() >= self.max {
            let idle = all.iter().filter_map(|(number, idle)| Some((idle.as_ref()?.0, *number)));
            let Some((_, oldest)) = idle.min() else { return false };
            all.remove(&oldest).flatten().iter().for_each(|(_, task)| task.abort());
        }
        all.insert(number, Some((Instant::now(), task)));
        true
    }

    /// Marks a connection as busy. Returns the handle that marks it as idle again.
    pub fn busy(&self, number: u64) -> Option<AbortHandle> {
        self.all.lock().get_mut(&number)?.take().map(|(_, task)| task)
    }

    /// Marks a connection as idle: its answer was produced.
    pub fn idle(&self, number: u64, task: Option<AbortHandle>) {
        if let (Some(task), Some(idle)) = (task, self.all.lock().get_mut(&number)) {
            *idle = Some((Instant::now(), task));
        }
    }

    /// Removes a connection that has ended.
    pub fn leave(&self, number: u64) {
        self.all.lock().remove(&number);
    }
}
