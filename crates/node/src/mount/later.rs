//! Delayed work of the mount, on the threads of the slow pool.

use super::slow::{Slow, Work};
use object::workers::Periodic;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Limit of waiting work; beyond it the oldest is executed at once. A guess: each holds a descriptor.
const WAITING_MAX: usize = 128;

/// Queue of work with the times at which it is due.
pub struct Later {
    state: Mutex<State>,
    timer: Periodic,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<(Instant, u64), Work>,
    added: u64,
    has_ended: bool,
}

impl Later {
    /// Makes an empty queue.
    pub fn new(slow: &Slow) -> Arc<Later> {
        Arc::new_cyclic(|me: &Weak<Later>| {
            let me = me.clone();
            Later { state: Mutex::default(), timer: slow.periodic(move || me.upgrade()?.run()) }
        })
    }

    /// Executes work after a span, or at once if too much waits or the mount ends.
    pub fn add(&self, after: Duration, work: Work) {
        let mut state = self.state.lock();
        if state.has_ended {
            drop(state);
            return work();
        }
        state.added += 1;
        let at = (Instant::now() + after, state.added);
        state.waiting.insert(at, work);
        let first = if state.waiting.len() > WAITING_MAX { state.waiting.pop_first() } else { None };
        drop(state);
        first.into_iter().for_each(|(_, work)| work());
        if self.timer.wake_in(after).is_err() {
            self.end();
        }
    }

    /// Whether work is executed at once.
    pub fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Executes all waiting work now, and later work at once.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        let all = std::mem::take(&mut state.waiting);
        drop(state);
        all.into_values().for_each(|work| work());
    }

    /// Executes the work that is due. Returns the time until the next.
    fn run(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        loop {
            let (at, _) = *state.waiting.first_key_value()?.0;
            let left = at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left);
            }
            if let Some((_, work)) = state.waiting.pop_first() {
                MutexGuard::unlocked(&mut state, work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn work_is_done_when_it_is_due_when_too_much_waits_and_at_the_end() {
        let slow = Slow::new(2, 8, 4);
        let later = Later::new(&slow);
        let (done, log) = channel();
        let work = |n: usize| -> Work {
            let done = done.clone();
            Box::new(move || done.send(n).expect("the test is there"))
        };
        later.add(LONG, work(0));
        later.add(Duration::from_millis(1), work(1));
        assert_eq!(log.recv_timeout(LONG), Ok(1), "an earlier one does not wait for a later one");
        (2..2 + WAITING_MAX).for_each(|n| later.add(LONG, work(n)));
        assert_eq!(log.try_recv(), Ok(0), "the oldest makes room");
        assert!(log.try_recv().is_err());
        later.end();
        assert_eq!(log.try_iter().count(), WAITING_MAX);
        later.add(LONG, work(7));
        assert_eq!(log.try_recv(), Ok(7));
        assert!(slow.end(LONG));
    }
}
