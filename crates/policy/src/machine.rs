//! The contract of every state machine: its input are events and the time, its output are actions and the next
//! deadline.
//!
//! ```text
//!   handle(now, event) --> [ state ] --> poll() until None --> next_deadline()
//!          ^                                                        |
//!          '-- the machine's tick, if nothing else happens before --'
//! ```
//! A driver passes each event with the time at which it happened, and carries out every action. At the deadline it
//! sends the machine's `Tick` (for the striper, its `Look`). Time that goes backwards is an error of the driver; a
//! machine that remembers the time keeps the latest.

use crate::time::Time;

/// A state machine that a driver runs in real time and the simulator in virtual time.
pub trait Machine {
    /// Input of the machine.
    type Event;
    /// Output of the machine.
    type Action;

    /// Handles an event. Call [`Machine::poll`] afterwards until it returns `None`.
    fn handle(&mut self, now: Time, event: Self::Event);

    /// Returns the next action, as of the time of the latest event.
    fn poll(&mut self) -> Option<Self::Action>;

    /// Time to send the machine's tick if no event comes before; `None` if only events change anything.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Iterates over all pending actions, as [`Machine::poll`] returns them.
    fn drain(&mut self) -> impl Iterator<Item = Self::Action> {
        std::iter::from_fn(|| self.poll())
    }
}

/// Line of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Logged<E, A> {
    /// Event handled at this time.
    Event(Time, E),
    /// Action returned; the time is that of the latest event.
    Action(Time, A),
}

/// Log of a machine's events and actions: two drivers do the same if their logs are equal. It grows without limit: for
/// tests.
#[derive(Clone, Debug)]
pub struct Log<E, A> {
    now: Time,
    lines: Option<Vec<Logged<E, A>>>,
}

impl<E, A> Default for Log<E, A> {
    fn default() -> Log<E, A> {
        Log { now: Time::ZERO, lines: None }
    }
}

impl<E: Clone, A: Clone> Log<E, A> {
    /// Starts the log.
    pub fn start(&mut self) {
        self.lines = Some(Vec::new());
    }

    /// Lines so far; empty unless started.
    pub fn lines(&self) -> &[Logged<E, A>] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Logs an event.
    pub fn event(&mut self, now: Time, event: &E) {
        if let Some(lines) = &mut self.lines {
            self.now = self.now.max(now);
            lines.push(Logged::Event(now, event.clone()));
        }
    }

    /// Logs an action.
    pub fn action(&mut self, action: &A) {
        if let Some(lines) = &mut self.lines {
            lines.push(Logged::Action(self.now, action.clone()));
        }
    }
}
