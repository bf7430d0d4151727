//! Changes of state on their way to listeners: in order, and never from inside a listener.

use super::State;
use crate::workers::{END_SPAN, Pool};
use parking_lot::{Mutex, RwLock};
use policy::TargetId;
use std::collections::VecDeque;
use std::sync::Arc;

/// A target changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The target whose state changed.
    pub target: TargetId,
    /// Name of the target.
    pub name: String,
    /// State before the change.
    pub from: State,
    /// State after the change.
    pub to: State,
    /// Whether the operator ordered it.
    pub by_operator: bool,
    /// Reason, for people.
    pub reason: String,
}

type Listener = Arc<dyn Fn(&Change) + Send + Sync>;

/// Queue of changes. The number of targets bounds it: a target that changes again before its delivery keeps one entry.
pub struct Changes {
    queue: Mutex<Queue>,
    threads: Pool,
    listeners: RwLock<Vec<Listener>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Change>,
    delivering: bool,
}

impl Changes {
    /// Returns an empty queue. `threads` has no other queued work.
    pub fn new(threads: Pool) -> Arc<Changes> {
        Arc::new(Changes { queue: Mutex::default(), threads, listeners: RwLock::default() })
    }

    pub fn listen(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    pub fn push(&self, change: Change) {
        let mut queue = self.queue.lock();
        match queue.waiting.iter_mut().find(|waiting| waiting.target == change.target) {
            Some(waiting) => {
                waiting.to = change.to;
                waiting.reason = change.reason;
                waiting.by_operator = change.by_operator;
            }
            None => queue.waiting.push_back(change),
        }
    }

    /// Makes a thread deliver the queued changes.
    pub fn deliver_soon(self: &Arc<Self>) {
        let changes = self.clone();
        // A failure to start has been logged, and the next change delivers this one, too.
        drop(self.threads.wake(move || changes.deliver()));
    }

    /// Delivers all queued changes, unless another thread is delivering.
    pub fn deliver(&self) {
        while let Some(change) = self.take() {
            if change.from != change.to {
                let listeners = self.listeners.read().clone();
                listeners.iter().for_each(|listener| listener(&change));
            }
            self.queue.lock().delivering = false;
        }
    }

    fn take(&self) -> Option<Change> {
        let mut queue = self.queue.lock();
        if queue.delivering {
            return None;
        }
        let change = queue.waiting.pop_front()?;
        queue.delivering = true;
        Some(change)
    }

    /// Waits until all changes are delivered, and delivers no more.
    pub fn stop(&self) {
        self.threads.stop(END_SPAN);
    }
}

/// Logs a change, at a level that depends on the new state.
pub fn log_change(change: &Change) {
    let Change { target, name, from, to, reason, .. } = change;
    match to {
        State::Failed => tracing::error!(
            "target {name} ({target}) is failed: {reason}. Its data is read from mirrors and sources from now on; when it \
             is well again: `entrepot target restore {name}`"
        ),
        State::Suspect => tracing::warn!("target {name} ({target}) is suspect: {reason}. It is being probed"),
        State::ReadOnly => tracing::warn!(
            "target {name} ({target}) is read-only: {reason}. What lies on it is read, and nothing new goes there; \
             `entrepot target drain {name}` moves it elsewhere. It is used again by itself when it can be written"
        ),
        State::Ok | State::Draining => tracing::info!("target {name} ({target}) went from {from} to {to}: {reason}"),
    }
}
