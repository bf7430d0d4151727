//! A bounded number of connections: when all places are taken, the connection that was idle for longest is closed.
//!
//! So idle connections never keep a new client out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::task::AbortHandle;

/// Table of connections.
pub struct Places {
    max: usize,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    next: u64,
    /// Connections that are idle, in the order in which they became so.
    idle: BTreeMap<u64, (u64, AbortHandle)>,
    /// Sequence number of the start of idleness, by connection; `None` while a request is answered.
    taken: BTreeMap<u64, Option<u64>>,
}

impl All {
    fn rest(&mut self, number: u64, task: AbortHandle) {
        self.next += 1;
        self.idle.insert(self.next, (number, task));
        self.taken.insert(number, Some(self.next));
    }

    fn leave(&mut self, number: u64) {
        if let Some(Some(since)) = self.taken.remove(&number) {
            self.idle.remove(&since);
        }
    }
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
        if all.taken.len() >= self.max {
            let Some((_, (oldest, its_task))) = all.idle.pop_first() else { return false };
            all.taken.remove(&oldest);
            its_task.abort();
        }
        all.rest(number, task);
        true
    }

    /// Marks a connection as busy. Returns the handle that marks it as idle again.
    pub fn busy(&self, number: u64) -> Option<AbortHandle> {
        let mut all = self.all.lock();
        let since = all.taken.get_mut(&number)?.take()?;
        all.idle.remove(&since).map(|(_, task)| task)
    }

    /// Marks a connection as idle: its answer was produced.
    pub fn idle(&self, number: u64, task: Option<AbortHandle>) {
        let mut all = self.all.lock();
        if let Some(task) = task.filter(|_| all.taken.contains_key(&number)) {
            all.rest(number, task);
        }
    }

    /// Removes a connection that has ended.
    pub fn leave(&self, number: u64) {
        self.all.lock().leave(number);
    }
}
