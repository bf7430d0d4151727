//! A bounded number of connections: when all places are taken, the one that was idle for longest makes room.
//!
//! So whoever holds connections without asking anything keeps nobody out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::task::AbortHandle;

/// The places.
pub struct Places {
    max: usize,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    next: u64,
    /// By when they became idle.
    idle: BTreeMap<u64, (u64, AbortHandle)>,
    /// By their number: when each became idle; nothing while it is answered.
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
    /// So many.
    pub fn new(max: usize) -> Places {
        Places { max, all: Mutex::default() }
    }

    /// A place for a connection, whose task is ended when somebody else needs it. `false` if all others are being answered.
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

    /// It is being answered. What marks it as idle again is given back.
    pub fn busy(&self, number: u64) -> Option<AbortHandle> {
        let mut all = self.all.lock();
        let since = all.taken.get_mut(&number)?.take()?;
        all.idle.remove(&since).map(|(_, task)| task)
    }

    /// It was answered, or the answer is on its way.
    pub fn idle(&self, number: u64, task: Option<AbortHandle>) {
        let mut all = self.all.lock();
        if let Some(task) = task.filter(|_| all.taken.contains_key(&number)) {
            all.rest(number, task);
        }
    }

    /// It is over.
    pub fn leave(&self, number: u64) {
        self.all.lock().leave(number);
    }
}
