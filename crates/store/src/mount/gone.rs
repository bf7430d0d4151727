//! Files that lost their last name: their objects go once that is durable.
//!
//! ```text
//!  unlinked, or replaced ---> waiting ---> the namespace is synced, once for all that wait ---> objects removed
//! ```
//!
//! The namespace and a target may be different file systems, each with a journal of its own. If the removal of an object were durable
//! before the removal of the name, a loss of power in between would bring the name back, and with it a file without its
//! bytes. On one file system the order of the removals is kept by its journal, and nothing is synced.
//!
//! If the namespace cannot be synced the objects stay; `entrepot check` finds them.

use super::slow::{OWN, Slow};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;

/// Files that wait at most; each holds a descriptor. A guess.
const WAITING_MAX: usize = 512;

/// Makes it durable that something is gone.
type MakeDurable<T> = dyn Fn(&T) -> io::Result<()> + Send + Sync;

/// What is done with what is gone.
pub struct Steps<T> {
    /// Makes it durable that it is gone, and that all that went before it is.
    pub sync: Box<MakeDurable<T>>,
    /// Removes what it left.
    pub remove: Box<dyn Fn(T) + Send + Sync>,
}

/// What waits.
pub struct Gone<T> {
    slow: Arc<Slow>,
    steps: Steps<T>,
    state: Mutex<State<T>>,
    went: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// Somebody syncs and will look again.
    busy: bool,
}

impl<T: Send + 'static> Gone<T> {
    /// Nothing waits.
    pub fn new(slow: Arc<Slow>, steps: Steps<T>) -> Arc<Gone<T>> {
        let state = Mutex::new(State { waiting: Vec::new(), busy: false });
        Arc::new(Gone { slow, steps, state, went: Condvar::new() })
    }

    /// Something is gone. `durable` says that the file system keeps the order by itself. Waits while too much waits.
    pub fn add(self: &Arc<Self>, gone: T, durable: bool) {
        if durable {
            return self.hand_over(gone);
        }
        let mut state = self.state.lock();
        while state.waiting.len() >= WAITING_MAX {
            self.went.wait(&mut state);
        }
        state.waiting.push(gone);
        if std::mem::replace(&mut state.busy, true) {
            return;
        }
        drop(state);
        let this = self.clone();
        if let Err(work) = self.slow.push(OWN, Box::new(move || this.drain())) {
            work();
        }
    }

    /// Syncs and removes until nothing waits.
    fn drain(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let all = std::mem::take(&mut state.waiting);
            state.busy = !all.is_empty();
            drop(state);
            self.went.notify_all();
            let Some(last) = all.last() else { return };
            match (self.steps.sync)(last) {
                Ok(()) => all.into_iter().for_each(|gone| self.hand_over(gone)),
                Err(error) => {
                    let files = all.len();
                    tracing::warn!(
                        files,
                        "the namespace cannot be synced: {error}; the objects of removed files stay; `entrepot check` will find them"
                    );
                }
            }
        }
    }

    fn hand_over(self: &Arc<Self>, gone: T) {
        let this = self.clone();
        if let Err(work) = self.slow.push(OWN, Box::new(move || (this.steps.remove)(gone))) {
            work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_is_gone_is_removed_after_a_sync_that_began_after_it_went() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (entered, syncs) = channel();
        let (let_go, gate) = channel::<()>();
        let (gate, broken) = (Mutex::new(gate), Arc::new(AtomicBool::new(false)));
        let (synced, removed, fails) = (log.clone(), log.clone(), broken.clone());
        let steps = Steps {
            sync: Box::new(move |_: &u32| {
                entered.send(()).expect("the test is there");
                gate.lock().recv().expect("the test is there");
                synced.lock().push("sync".to_string());
                if fails.load(Ordering::SeqCst) { Err(io::Error::other("no")) } else { Ok(()) }
            }),
            remove: Box::new(move |n| removed.lock().push(n.to_string())),
        };
        let slow = Slow::new(1, 100, 4);
        let gone = Gone::new(slow.clone(), steps);
        gone.add(1, false);
        syncs.recv().expect("a sync begins");
        gone.add(2, false); // while it runs: the next one covers these
        gone.add(3, false);
        let_go.send(()).expect("it waits");
        syncs.recv().expect("a second sync begins");
        broken.store(true, Ordering::SeqCst);
        gone.add(4, false);
        let_go.send(()).expect("it waits");
        syncs.recv().expect("a third sync begins");
        let_go.send(()).expect("it waits");
        gone.add(5, true);
        assert!(slow.end(Duration::from_secs(60)));
        let log = log.lock();
        let place = |what: &str| log.iter().position(|entry| entry == what);
        assert!(place("1") > place("sync"));
        assert!(place("5").is_some(), "where the file system keeps the order nothing is waited for");
        assert!(place("2").is_none() && place("4").is_none(), "what is not known to be durable stays: {log:?}");
        assert_eq!(log.iter().filter(|entry| *entry == "sync").count(), 3);
    }
}
