//! Work that recurs on a pool: at its own deadlines and when it is woken, one run at a time. Other work of the pool does
//! not delay its deadlines.

use super::{Pool, survive};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Recurring work of a pool. It ends with [`Periodic::stop`], at the drop at the latest.
pub struct Periodic(Arc<Shared>);

struct Shared {
    pool: Pool,
    /// Returns the time until its next run; `None` if only a wake starts the next.
    work: Box<dyn Fn() -> Option<Duration> + Send + Sync>,
    state: Mutex<State>,
    /// Signalled when a run ended.
    rests: Condvar,
}

#[derive(Default)]
struct State {
    is_queued: bool,
    runs: bool,
    /// Whether it was woken during a run.
    again: bool,
    is_stopped: bool,
    /// Time of the next run.
    due: Option<Instant>,
    /// Earliest time at which the pool calls back.
    called_at: Option<Instant>,
}

impl Periodic {
    /// Returns work that rests until it is woken. `work` returns the time until its next run; with `None` only a wake
    /// starts the next.
    pub fn new(pool: &Pool, work: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Periodic {
        let (state, rests) = (Mutex::default(), Condvar::new());
        Periodic(Arc::new(Shared { pool: pool.clone(), work: Box::new(work), state, rests }))
    }

    /// Starts a run soon; after a running one, if there is one.
    ///
    /// # Errors
    /// The pool has ended, or it has no thread and the system starts none.
    pub fn wake(&self) -> io::Result<()> {
        self.0.queue(&mut self.0.state.lock())
    }

    /// Starts a run after `span`, unless one is due sooner.
    ///
    /// # Errors
    /// As for `wake`.
    pub fn wake_in(&self, span: Duration) -> io::Result<()> {
        self.0.rest(&mut self.0.state.lock(), Instant::now() + span)
    }

    /// Starts no more runs, and waits for the end of a running one for at most `timeout`. Returns whether none runs.
    pub fn stop(&self, timeout: Duration) -> bool {
        let mut state = self.0.state.lock();
        state.is_stopped = true;
        self.0.rests.wait_while_for(&mut state, |state| state.runs, timeout);
        !state.runs
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl Shared {
    fn queue(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        state.again = state.runs;
        if state.runs || state.is_queued || state.is_stopped {
            return Ok(());
        }
        let own = self.clone();
        self.pool.push(move || own.run())?;
        state.is_queued = true;
        Ok(())
    }

    /// Has the pool call back at `due`.
    fn rest(self: &Arc<Self>, state: &mut State, due: Instant) -> io::Result<()> {
        if state.is_stopped || state.due.is_some_and(|other| other <= due) {
            return Ok(());
        }
        if state.called_at.is_none_or(|at| due < at) {
            let own = self.clone();
            self.pool.at(due, move || own.called(due))?;
            state.called_at = Some(due);
        }
        state.due = Some(due);
        Ok(())
    }

    fn called(self: &Arc<Self>, at: Instant) {
        let mut state = self.state.lock();
        state.called_at = state.called_at.filter(|other| *other != at);
        match state.due.take() {
            // A failure has been logged; the next wake starts it.
            Some(due) if due > Instant::now() => drop(self.rest(&mut state, due)),
            Some(_) if state.runs => state.again = true,
            Some(_) => {
                drop(state);
                self.run();
            }
            None => {}
        }
    }

    fn run(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_queued = false;
        if state.is_stopped || state.runs {
            return;
        }
        state.runs = true;
        let mut next;
        loop {
            next = None;
            (state.again, state.due) = (false, None);
            MutexGuard::unlocked(&mut state, || survive(|| next = (self.work)()));
            if !state.again || state.is_stopped {
                break;
            }
        }
        state.runs = false;
        self.rests.notify_all();
        if let Some(span) = next {
            // A failure has been logged; the next wake starts it.
            drop(self.rest(&mut state, Instant::now() + span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::END_SPAN;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn a_run_follows_each_deadline_and_each_wake_and_no_two_are_at_once() {
        let pool = Pool::new("a-test", 4);
        let (tell, told) = channel();
        let running = AtomicUsize::new(0);
        let work = Periodic::new(&pool, move || {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
            tell.send(()).ok();
            running.fetch_sub(1, Ordering::SeqCst);
            Some(Duration::from_millis(1))
        });
        work.wake_in(Duration::from_secs(3600)).unwrap();
        assert!(told.try_recv().is_err());
        work.wake_in(Duration::from_millis(1)).unwrap();
        for _ in 0..50 {
            told.recv().unwrap();
            work.wake().unwrap();
        }
        assert!(work.stop(END_SPAN));
        while told.try_recv().is_ok() {}
        work.wake().unwrap();
        assert!(pool.stop(END_SPAN));
        assert!(told.try_recv().is_err(), "a run after the stop");
    }

    #[test]
    fn wakes_during_a_run_start_one_more_and_the_stop_waits_for_a_run() {
        let pool = Pool::new("a-test", 4);
        let ((tell, told), (open, gate)) = (channel(), channel::<()>());
        let (tell, gate) = (Mutex::new(tell), Mutex::new(gate));
        let work = Periodic::new(&pool, move || {
            tell.lock().send(()).unwrap();
            gate.lock().recv().unwrap();
            None
        });
        work.wake().unwrap();
        told.recv().unwrap();
        (0..3).for_each(|_| work.wake().unwrap());
        open.send(()).unwrap();
        told.recv().unwrap();
        assert!(!work.stop(Duration::ZERO));
        open.send(()).unwrap();
        assert!(work.stop(END_SPAN));
        assert!(told.try_recv().is_err());
    }
}
