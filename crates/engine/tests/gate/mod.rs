//! A gate: reads or writes of a medium hang while it is closed.

use crate::interposed::{Interposer, Io, Op, Verdict};
use parking_lot::{Condvar, Mutex};

/// A gate for operations of one kind.
pub struct Gate {
    hangs: Op,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    waiting: usize,
    /// So many go on although it is closed.
    admitted: usize,
}

impl Gate {
    /// An open gate for operations of that kind.
    pub fn before(hangs: Op) -> Gate {
        Gate { hangs, state: Mutex::default(), changed: Condvar::new() }
    }

    /// From now on they hang.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Lets all go on.
    pub fn open(&self) {
        self.state.lock().closed = false;
        self.changed.notify_all();
    }

    /// Lets so many of those that hang, or come, go on.
    #[allow(dead_code)] // each test has its own copy of this module
    pub fn admit(&self, count: usize) {
        self.state.lock().admitted += count;
        self.changed.notify_all();
    }

    /// Waits until so many hang.
    #[allow(dead_code)] // each test has its own copy of this module
    pub fn wait_for(&self, count: usize) {
        let mut state = self.state.lock();
        while state.waiting < count {
            self.changed.wait(&mut state);
        }
    }
}

impl Interposer for Gate {
    fn before(&self, op: Op) -> Io<Verdict> {
        if op == self.hangs {
            let mut state = self.state.lock();
            state.waiting += 1;
            self.changed.notify_all();
            while state.closed && state.admitted == 0 {
                self.changed.wait(&mut state);
            }
            state.waiting -= 1;
            state.admitted = state.admitted.saturating_sub(1);
        }
        Ok(Verdict::Happens)
    }
}
