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
//!
//! Few threads of the slow pool remove, whatever there is to do, and each user has a share ([`policy::shares`]) of what may wait: whoever
//! has none left asks the slow pool to remove more, where the user's own threads wait for room.

use super::slow::{OWN, Slow};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::shares::{Shares, Taker};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Files that wait at most; each holds a descriptor. A guess.
const WAITING_MAX: u64 = 512;

/// Threads that remove objects at the same time. A guess: enough to keep some targets busy, an eighth of the slow pool.
const REMOVERS_MAX: usize = 16;

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
pub struct Removal<T> {
    slow: Arc<Slow>,
    steps: Steps<T>,
    state: Mutex<State<T>>,
    went: Condvar,
}

struct State<T> {
    /// Whose it is, and what.
    waiting: Vec<(u32, T)>,
    /// What may be removed.
    durable: VecDeque<(u32, T)>,
    /// Of both, and of what is being removed.
    held: Shares,
    /// A thread syncs and will look again.
    syncs: bool,
    removers: usize,
}

impl<T: Send + 'static> Removal<T> {
    /// Nothing waits.
    pub fn new(slow: Arc<Slow>, steps: Steps<T>) -> Arc<Removal<T>> {
        let (waiting, durable, held) = (Vec::new(), VecDeque::new(), Shares::new(WAITING_MAX, 0));
        let state = State { waiting, durable, held, syncs: false, removers: 0 };
        Arc::new(Removal { slow, steps, state: Mutex::new(state), went: Condvar::new() })
    }

    /// Whether a user may have more wait.
    pub fn has_room(&self, uid: u32) -> bool {
        self.state.lock().held.admits(taker(uid), 1).is_ok()
    }

    /// Waits until a user may have more wait.
    pub fn wait_for_room(&self, uid: u32) {
        let mut state = self.state.lock();
        while state.held.admits(taker(uid), 1).is_err() {
            self.went.wait(&mut state);
        }
    }

    /// Something of a user is gone. `durable` says that the file system keeps the order by itself.
    pub fn add(self: &Arc<Self>, uid: u32, removed: T, durable: bool) {
        let mut state = self.state.lock();
        state.held.force(uid, 1);
        if durable {
            state.durable.push_back((uid, removed));
            return self.begin_removal(state);
        }
        state.waiting.push((uid, removed));
        if std::mem::replace(&mut state.syncs, true) {
            return;
        }
        drop(state);
        let this = self.clone();
        if let Err(work) = self.slow.push_now(OWN, Box::new(move || this.sync_all())) {
            work();
        }
    }

    /// Syncs until nothing waits.
    fn sync_all(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let all = std::mem::take(&mut state.waiting);
            state.syncs = !all.is_empty();
            drop(state);
            let Some((_, last)) = all.last() else { return };
            let synced = (self.steps.sync)(last);
            let mut state = self.state.lock();
            match synced {
                Ok(()) => {
                    state.durable.extend(all);
                    self.begin_removal(state);
                }
                Err(error) => {
                    let files = all.len();
                    all.iter().for_each(|(uid, _)| state.held.give_back(*uid, 1));
                    drop(state);
                    self.went.notify_all();
                    tracing::warn!(
                        files,
                        "the namespace cannot be synced: {error}; the objects of removed files stay; `entrepot check` will find them"
                    );
                }
            }
        }
    }

    fn begin_removal(self: &Arc<Self>, mut state: MutexGuard<'_, State<T>>) {
        let more = REMOVERS_MAX.min(state.durable.len()).saturating_sub(state.removers);
        state.removers += more;
        drop(state);
        for _ in 0..more {
            let this = self.clone();
            if let Err(work) = self.slow.push_now(OWN, Box::new(move || this.remove_all())) {
                work();
            }
        }
    }

    /// Removes until nothing is left to be removed.
    fn remove_all(&self) {
        let mut state = self.state.lock();
        while let Some((uid, removed)) = state.durable.pop_front() {
            MutexGuard::unlocked(&mut state, || (self.steps.remove)(removed));
            state.held.give_back(uid, 1);
            self.went.notify_all();
        }
        state.removers -= 1;
    }
}

/// The operator's removals make users wait as little as another user's.
fn taker(uid: u32) -> Taker {
    Taker { uid, operator: false }
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
        let removal = Removal::new(slow.clone(), steps);
        removal.add(7, 1, false);
        syncs.recv().expect("a sync begins");
        removal.add(7, 2, false); // while it runs: the next one covers these
        removal.add(7, 3, false);
        let_go.send(()).expect("it waits");
        syncs.recv().expect("a second sync begins");
        broken.store(true, Ordering::SeqCst);
        removal.add(7, 4, false);
        let_go.send(()).expect("it waits");
        syncs.recv().expect("a third sync begins");
        let_go.send(()).expect("it waits");
        removal.add(7, 5, true);
        assert!(slow.end(Duration::from_secs(60)));
        let log = log.lock();
        let place = |what: &str| log.iter().position(|entry| entry == what);
        assert!(place("1") > place("sync"));
        assert!(place("5").is_some(), "where the file system keeps the order nothing is waited for");
        assert!(place("2").is_none() && place("4").is_none(), "what is not known to be durable stays: {log:?}");
        assert_eq!(log.iter().filter(|entry| *entry == "sync").count(), 3);
    }

    /// [S-170]
    #[test]
    fn one_users_mass_removal_leaves_room_and_threads_to_others() {
        let gate = Arc::new(parking_lot::RwLock::new(()));
        let closed = gate.write();
        let (passes, removed) = (gate.clone(), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
        let count = removed.clone();
        let steps = Steps {
            sync: Box::new(|_: &u32| Ok(())),
            remove: Box::new(move |_| {
                drop(passes.read());
                count.fetch_add(1, Ordering::SeqCst);
            }),
        };
        let slow = Slow::new(2 * REMOVERS_MAX + 2, 64, 4);
        let removal = Removal::new(slow.clone(), steps);
        let (mine, other) = (1001, 1002);
        let mut added = 0;
        while removal.has_room(mine) {
            removal.add(mine, added, added % 2 == 0);
            added += 1;
        }
        assert_eq!(u64::from(added), WAITING_MAX / 2, "the targets hang, and the rest is for others");
        assert!(removal.has_room(other));
        let (done, finished) = channel();
        assert!(slow.push(other, Box::new(move || done.send(()).expect("the test is there"))).is_ok());
        finished.recv_timeout(Duration::from_secs(60)).expect("others are served meanwhile");
        let waiter = std::thread::spawn({
            let removal = removal.clone();
            move || removal.wait_for_room(mine)
        });
        drop(closed);
        waiter.join().expect("there is room again");
        assert!(slow.end(Duration::from_secs(60)));
        assert_eq!(removed.load(Ordering::SeqCst), added as usize);
    }
}
