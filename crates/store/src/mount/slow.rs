//! Threads for requests that may wait for long: several mirrors, recovery, objects to be created, syncing.
//!
//! Threads come with the work and go when idle; their number and the number of waiting requests are bounded. When both are used up,
//! the FUSE thread that brings the next request waits, unless too many of them wait already: some stay free for what
//! needs no target, so that the mount answers whatever its targets do.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// One request's work, with its reply inside.
pub type Work = Box<dyn FnOnce() + Send>;

/// How long an idle thread stays.
const IDLE: Duration = Duration::from_secs(10);

/// The pool.
pub struct Slow {
    state: Mutex<State>,
    /// Work came or the pool ends.
    came: Condvar,
    /// Work was taken from the queue, or done.
    went: Condvar,
    threads_max: usize,
    queue_max: usize,
    /// So many FUSE threads may wait for a place at the same time.
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: usize,
    idle: usize,
    waiting: usize,
    ended: bool,
}

impl Slow {
    /// A pool for `fuse_threads` threads that bring work.
    pub fn new(threads_max: usize, queue_max: usize, fuse_threads: usize) -> Arc<Slow> {
        Arc::new(Slow {
            state: Mutex::default(),
            came: Condvar::new(),
            went: Condvar::new(),
            threads_max,
            queue_max,
            waiting_max: fuse_threads.saturating_sub(2),
        })
    }

    /// Hands work over; gives it back if there is no place for it and too many threads wait for one.
    pub fn push(self: &Arc<Self>, work: Work) -> Result<(), Work> {
        let mut state = self.state.lock();
        while state.queue.len() >= self.queue_max && !state.ended {
            if state.waiting >= self.waiting_max {
                return Err(work);
            }
            state.waiting += 1;
            self.went.wait(&mut state);
            state.waiting -= 1;
        }
        self.enqueue(state, work)
    }

    /// Hands over work that somebody must do and that must not wait: what a watchdog rescued. It is bounded by the number of watched threads.
    pub fn push_now(self: &Arc<Self>, work: Work) -> Result<(), Work> {
        self.enqueue(self.state.lock(), work)
    }

    fn enqueue(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, State>, work: Work) -> Result<(), Work> {
        if state.ended {
            return Err(work);
        }
        state.queue.push_back(work);
        if state.idle >= state.queue.len() || state.threads >= self.threads_max {
            self.came.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let pool = self.clone();
        if let Err(error) = std::thread::Builder::new().name("entrepot-slow".into()).spawn(move || pool.serve()) {
            let mut state = self.state.lock();
            state.threads -= 1;
            if state.threads == 0 {
                tracing::error!(%error, "no thread can be started; a request is refused");
                return state.queue.pop_back().map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                self.went.notify_one();
                parking_lot::MutexGuard::unlocked(&mut state, work);
                continue;
            }
            if state.ended {
                break;
            }
            state.idle += 1;
            let idle = self.came.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if idle && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        self.went.notify_all();
    }

    /// Lets what was handed over finish, for at most `patience`, and refuses more. Whether all of it finished.
    pub fn end(&self, patience: Duration) -> bool {
        let until = std::time::Instant::now() + patience;
        let mut state = self.state.lock();
        state.ended = true;
        self.came.notify_all();
        while state.threads > 0 {
            if self.went.wait_until(&mut state, until).timed_out() {
                return state.threads == 0;
            }
        }
        true
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
        assert!(pool.push(first).is_ok());
        wait.recv().unwrap();
        assert!(pool.push(Box::new(|| {})).is_ok(), "one may be queued");
        assert!(pool.push(Box::new(|| {})).is_err(), "with two FUSE threads none may wait");
        let (done, finished) = mpsc::channel();
        assert!(pool.push_now(Box::new(move || done.send(7).unwrap())).is_ok(), "rescued work always finds a place");
        drop(open);
        assert_eq!(finished.recv().unwrap(), 7);
        assert!(pool.end(Duration::from_secs(60)));
        assert!(pool.push(Box::new(|| {})).is_err());
    }
}
