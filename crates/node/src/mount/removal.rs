//! Files that lost their last name. Their objects are removed once that is durable.
//!
//! ```text
//!  unlinked, or replaced ---> waiting ---> the namespace is synced, once for all that wait ---> objects removed
//!                                          other nodes have it open <--- tried again ---'
//! ```
//!
//! The namespace and a target may be different file systems with separate journals. So the removal of the name must be
//! durable before that of an object. Otherwise a loss of power could restore the name, with a file without bytes. On
//! one file system its journal keeps the order, and nothing is synced.
//!
//! If the namespace cannot be synced the objects stay; `entrepot check` finds them. So do those that other nodes use when
//! the mount ends, or of too many files.
//!
//! Few threads of the slow pool remove, however much waits, and each user has a share ([`policy::shares`]) of what may
//! wait. A user with a full share has further removals handed to the slow pool, where only the user's own threads wait
//! for room.

use super::later::Later;
use super::slow::{OWN, Slow};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::shares::{Shares, Taker};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Limit of waiting files; each holds a descriptor. A guess.
const WAITING_MAX: u64 = 512;

/// Limit of threads that remove objects. A guess: enough to keep some targets busy, an eighth of the slow pool.
const REMOVERS_MAX: usize = 16;

/// Limit of removed files that other nodes use; each holds a descriptor. A guess.
const ELSEWHERE_MAX: usize = 1024;

/// Pause before the other users of a file are looked for again. A guess: each look costs a request to the state store.
const AGAIN: Duration = Duration::from_secs(5);

/// Wait at the first look for nodes that have closed the file and still hold it. A guess: a recall takes milliseconds.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Makes a removal of a name durable.
type MakeDurable<T> = dyn Fn(&T) -> io::Result<()> + Send + Sync;

/// The two steps of a removal.
pub struct Steps<T> {
    /// Makes the removal of the name durable, and all removals before it.
    pub sync: Box<MakeDurable<T>>,
    /// Removes the objects, or returns the file if another node may still use it after the wait.
    pub remove: Box<dyn Fn(T, Duration) -> Option<T> + Send + Sync>,
}

/// Queue of files whose objects are to be removed.
pub struct Removal<T> {
    slow: Arc<Slow>,
    later: Arc<Later>,
    steps: Steps<T>,
    state: Mutex<State<T>>,
    went: Condvar,
}

struct State<T> {
    /// Files whose removal is not durable yet, each with its user.
    waiting: Vec<(u32, T)>,
    /// Files whose objects may be removed, and the wait for other nodes.
    durable: VecDeque<(u32, T, Duration)>,
    /// Files that other nodes may use.
    elsewhere: Vec<(u32, T)>,
    /// Shares of the first two queues, and of removals under way.
    held: Shares,
    /// Set while a thread syncs; it checks the queue again afterwards.
    syncs: bool,
    removers: usize,
    /// Set if some objects stay.
    stay: bool,
    has_ended: bool,
}

impl<T: Send + 'static> Removal<T> {
    /// Makes an empty queue.
    pub fn new(slow: Arc<Slow>, later: Arc<Later>, steps: Steps<T>) -> Arc<Removal<T>> {
        let state = State {
            waiting: Vec::new(),
            durable: VecDeque::new(),
            elsewhere: Vec::new(),
            held: Shares::new(WAITING_MAX, 0),
            syncs: false,
            removers: 0,
            stay: false,
            has_ended: false,
        };
        Arc::new(Removal { slow, later, steps, state: Mutex::new(state), went: Condvar::new() })
    }

    /// Whether the queues are empty and no objects had to stay.
    pub fn is_complete(&self) -> bool {
        let state = self.state.lock();
        let is_empty = state.waiting.is_empty() && state.durable.is_empty() && state.elsewhere.is_empty();
        is_empty && state.removers == 0 && !state.stay
    }

    /// Stops the repetitions: objects that other nodes use stay.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
    }

    /// Whether the user's share has room.
    pub fn has_room(&self, uid: u32) -> bool {
        self.state.lock().held.admits(taker(uid), 1).is_ok()
    }

    /// Waits until the user's share has room.
    pub fn wait_for_room(&self, uid: u32) {
        let mut state = self.state.lock();
        while state.held.admits(taker(uid), 1).is_err() {
            self.went.wait(&mut state);
        }
    }

    /// Adds a removed file of a user. `durable`: the file system itself keeps the order.
    pub fn add(self: &Arc<Self>, uid: u32, removed: T, durable: bool) {
        let mut state = self.state.lock();
        state.held.force(uid, 1);
        if durable {
            state.durable.push_back((uid, removed, FIRST_WAIT));
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

    /// Syncs until no file waits.
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
                    state.durable.extend(all.into_iter().map(|(uid, removed)| (uid, removed, FIRST_WAIT)));
                    self.begin_removal(state);
                }
                Err(error) => {
                    let files = all.len();
                    state.stay = true;
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

    /// Removes objects until none may be removed.
    fn remove_all(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while let Some((uid, removed, wait)) = state.durable.pop_front() {
            let used = MutexGuard::unlocked(&mut state, || (self.steps.remove)(removed, wait));
            state.held.give_back(uid, 1);
            self.went.notify_all();
            let Some(used) = used else { continue };
            if state.has_ended || state.elsewhere.len() == ELSEWHERE_MAX {
                if !std::mem::replace(&mut state.stay, true) {
                    tracing::warn!(
                        "objects of removed files stay, since other nodes may use them; the next start removes them"
                    );
                }
                continue;
            }
            state.elsewhere.push((uid, used));
            if state.elsewhere.len() == 1 {
                let this = self.clone();
                MutexGuard::unlocked(&mut state, || self.later.add(AGAIN, Box::new(move || this.try_again())));
            }
        }
        state.removers -= 1;
    }

    /// Tries again to remove what other nodes used.
    fn try_again(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let all = std::mem::take(&mut state.elsewhere);
        all.iter().for_each(|(uid, _)| state.held.force(*uid, 1));
        state.durable.extend(all.into_iter().map(|(uid, removed)| (uid, removed, Duration::ZERO)));
        self.begin_removal(state);
    }
}

/// Taker of a share. The operator has no reserve here, so its removals delay users no more than those of another user.
fn taker(uid: u32) -> Taker {
    Taker { uid, operator: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    fn removal_of<T: Send + 'static>(slow: &Arc<Slow>, steps: Steps<T>) -> Arc<Removal<T>> {
        Removal::new(slow.clone(), Later::new(slow), steps)
    }

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
            remove: Box::new(move |n, _| {
                removed.lock().push(n.to_string());
                None
            }),
        };
        let slow = Slow::new(1, 100, 4);
        let removal = removal_of(&slow, steps);
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
        assert!(!removal.is_complete(), "two files keep their objects");
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
            remove: Box::new(move |_, _| {
                drop(passes.read());
                count.fetch_add(1, Ordering::SeqCst);
                None
            }),
        };
        let slow = Slow::new(2 * REMOVERS_MAX + 2, 64, 4);
        let removal = removal_of(&slow, steps);
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
        assert!(slow.end(Duration::from_secs(60)) && removal.is_complete());
        assert_eq!(removed.load(Ordering::SeqCst), added as usize);
    }

    /// [S-411]
    #[test]
    fn objects_that_another_node_uses_are_removed_once_it_has_closed_the_file_or_stay() {
        let (asked, looks) = channel();
        let uses = Arc::new(AtomicBool::new(true));
        let used = uses.clone();
        let steps = Steps {
            sync: Box::new(|_: &u32| Ok(())),
            remove: Box::new(move |n, _| {
                let is_used = used.load(Ordering::SeqCst);
                asked.send(n).expect("the test is there");
                Some(n).filter(|_| is_used)
            }),
        };
        let (slow, long) = (Slow::new(4, 64, 4), Duration::from_secs(60));
        let removal = removal_of(&slow, steps);
        removal.add(7, 1, true);
        assert_eq!(looks.recv_timeout(long), Ok(1));
        assert!(!removal.is_complete());
        uses.store(false, Ordering::SeqCst);
        assert_eq!(looks.recv_timeout(long), Ok(1), "it is tried again");
        let until = std::time::Instant::now() + long;
        while !removal.is_complete() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(removal.is_complete() && removal.has_room(7));
        uses.store(true, Ordering::SeqCst);
        removal.add(7, 2, true);
        assert_eq!(looks.recv_timeout(long), Ok(2));
        removal.end();
        removal.later.end();
        assert!(slow.end(long) && !removal.is_complete(), "the next start removes its objects");
    }
}
