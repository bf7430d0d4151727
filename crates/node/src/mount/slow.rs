//! Threads for requests that may wait for long: for several mirrors, recovery, new objects or syncs.
//!
//! The numbers of threads and of waiting requests are bounded. When both are used up, the FUSE thread with the next
//! request waits, unless too many of them wait already. The rest stay free for requests that need no target, so that
//! the mount answers whatever its targets do.
//!
//! Each user has a share of both ([`policy::shares`]). A request of a user with all threads of the share in use waits,
//! while other users' requests pass it. A request of a user with a full share of the queue is refused.

use object::workers::{self, Periodic};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::shares::{Refusal, Shares, Taker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Work of one request, with its reply inside.
pub type Work = Box<dyn FnOnce() + Send>;

/// User of the daemon's own work: bounded only by the limits.
pub const OWN: u32 = 0;

/// Thread pool for requests that may wait.
pub struct Slow {
    state: Mutex<State>,
    /// Signalled when work was taken from the queue, and at the end.
    went: Condvar,
    threads: workers::Pool,
    /// Limit of FUSE threads that wait for a place at the same time.
    waiting_max: usize,
    /// User that runs the daemon.
    own: u32,
}

struct State {
    /// Waiting work, each with its user.
    queue: VecDeque<(u32, Work)>,
    /// Places in the queue, and threads at work.
    queued: Shares,
    running: Shares,
    waiting: usize,
    ended: bool,
}

impl Slow {
    /// Makes a pool for the work of `fuse_threads` threads.
    pub fn new(threads_max: usize, queue_max: usize, fuse_threads: usize) -> Arc<Slow> {
        let all = |n: usize| Shares::new(n as u64, n as u64 / 8);
        let (queued, running) = (all(queue_max), all(threads_max));
        let state = State { queue: VecDeque::new(), queued, running, waiting: 0, ended: false };
        Arc::new(Slow {
            state: Mutex::new(state),
            went: Condvar::new(),
            threads: workers::Pool::new("entrepot-slow", threads_max),
            waiting_max: fuse_threads.saturating_sub(2),
            own: rustix::process::geteuid().as_raw(),
        })
    }

    /// Returns recurring work on these threads, which no other work delays.
    pub fn periodic(&self, work: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Periodic {
        Periodic::new(&self.threads, work)
    }

    fn taker(&self, uid: u32) -> Taker {
        Taker { uid, operator: uid == 0 || uid == self.own }
    }

    /// Queues a user's work. Returns it if the user's share is full, or if the queue is full and too many threads wait
    /// for it.
    pub fn push(self: &Arc<Self>, uid: u32, work: Work) -> Result<(), Work> {
        let mut state = self.state.lock();
        while let Err(refusal) = state.queued.admits(self.taker(uid), 1)
            && !state.ended
        {
            if matches!(refusal, Refusal::Share { .. }) || state.waiting >= self.waiting_max {
                return Err(work);
            }
            state.waiting += 1;
            self.went.wait(&mut state);
            state.waiting -= 1;
        }
        self.enqueue(state, uid, work)
    }

    /// Queues work that must be done without waiting: a request rescued by a watchdog, or the rest of a close. It is
    /// bounded by the number of watched threads and of open files.
    pub fn push_now(self: &Arc<Self>, uid: u32, work: Work) -> Result<(), Work> {
        self.enqueue(self.state.lock(), uid, work)
    }

    fn enqueue(self: &Arc<Self>, mut state: MutexGuard<'_, State>, uid: u32, work: Work) -> Result<(), Work> {
        if state.ended {
            return Err(work);
        }
        state.queue.push_back((uid, work));
        state.queued.force(uid, 1);
        // Work beyond its user's threads is started when one of these ends.
        if state.running.admits(self.taker(uid), 1).is_err() {
            return Ok(());
        }
        let slow = self.clone();
        if self.threads.push(move || slow.serve()).is_err()
            && let Some((uid, work)) = state.queue.pop_back()
        {
            state.queued.give_back(uid, 1);
            return Err(work);
        }
        Ok(())
    }

    /// Executes requests until none is left that may run.
    fn serve(&self) {
        let mut state = self.state.lock();
        let next =
            |state: &State| state.queue.iter().position(|(uid, _)| state.running.admits(self.taker(*uid), 1).is_ok());
        while let Some((uid, work)) = next(&state).and_then(|at| state.queue.remove(at)) {
            state.queued.give_back(uid, 1);
            state.running.force(uid, 1);
            self.went.notify_one();
            MutexGuard::unlocked(&mut state, work);
            state.running.give_back(uid, 1);
        }
    }

    /// Refuses more work and waits until the rest is done, for at most `patience`. Returns whether all is done.
    pub fn end(&self, patience: Duration) -> bool {
        self.state.lock().ended = true;
        self.went.notify_all();
        self.threads.stop(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn refuses_rather_than_letting_every_thread_wait() {
        let pool = Slow::new(1, 1, 2);
        let (open, gate) = mpsc::channel::<()>();
        let (started, wait) = mpsc::channel();
        let first = Box::new(move || {
            started.send(()).unwrap();
            let _ = gate.recv();
        });
        assert!(pool.push(0, first).is_ok());
        wait.recv().unwrap();
        assert!(pool.push(0, Box::new(|| {})).is_ok(), "one may be queued");
        assert!(pool.push(0, Box::new(|| {})).is_err(), "with two FUSE threads none may wait");
        let (done, finished) = mpsc::channel();
        assert!(pool.push_now(0, Box::new(move || done.send(7).unwrap())).is_ok(), "rescued work always finds a place");
        drop(open);
        assert_eq!(finished.recv().unwrap(), 7);
        assert!(pool.end(Duration::from_secs(60)));
        assert!(pool.push(0, Box::new(|| {})).is_err());
    }

    /// [S-170]
    #[test]
    fn one_users_hanging_requests_leave_threads_and_places_to_others() {
        let (threads, places) = (16, 32);
        let pool = Slow::new(threads, places, 4);
        let (mine, other) = (pool.own + 1, pool.own + 2);
        let gate = Arc::new(parking_lot::RwLock::new(()));
        let closed = gate.write();
        let (tell, told) = mpsc::channel();
        let hangs = || -> Work {
            let (gate, tell) = (gate.clone(), tell.clone());
            Box::new(move || {
                tell.send("began").unwrap();
                drop(gate.read());
                tell.send("ended").unwrap();
            })
        };
        let mut taken = 0;
        while pool.push(mine, hangs()).is_ok() {
            taken += 1;
        }
        let running = told.recv().map(|_| 1).unwrap() + (1..7).map(|_| told.recv().map(|_| 1).unwrap()).sum::<usize>();
        assert_eq!(running, 7, "half of the threads that are not reserved");
        assert!((14..=7 + 14).contains(&taken), "as many places: {taken}");
        for uid in [other, 0, other, pool.own] {
            let (done, finished) = mpsc::channel();
            assert!(pool.push(uid, Box::new(move || done.send(uid).unwrap())).is_ok(), "there are places");
            assert_eq!(finished.recv(), Ok(uid), "it is served past those that hang");
        }
        assert!(told.try_recv().is_err(), "nobody's requests run beyond the share");
        drop(closed);
        assert!(pool.end(Duration::from_secs(60)));
        drop(tell);
        assert_eq!(told.iter().filter(|word| *word == "ended").count(), taken, "all of them are served in the end");
    }
}
