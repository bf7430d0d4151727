//! The contract of every state machine: events and the time go in, actions come out, and it says when to come back.
//!
//! ```text
//!   handle(now, event) --> [ state ] --> poll() until None --> next_deadline()
//!          ^                                                        |
//!          '-- the machine's tick, if nothing else happens before --'
//! ```
//! A driver hands over an event with the time at which it happened, carries out every action, and comes back at the
//! deadline with the machine's `Tick` (for the striper, its `Look`). Time that goes backwards is the driver's mistake;
//! a machine that remembers the time keeps the latest.

use crate::time::Time;

/// A state machine that a driver runs in real time and the simulator in virtual time.
pub trait Machine {
    /// What it takes in.
    type Event;
    /// What it asks for.
    type Action;

    /// Takes in what happened. Follow with [`Machine::poll`] until it gives nothing.
    fn handle(&mut self, now: Time, event: Self::Event);

    /// The next thing to do, as of the time of the latest event.
    fn poll(&mut self) -> Option<Self::Action>;

    /// When to send the machine's tick, if nothing else happens before; `None` if only events change anything.
    fn next_deadline(&self) -> Option<Time>;

    /// All that is to be done now, as [`Machine::poll`] gives it.
    fn drain(&mut self) -> impl Iterator<Item = Self::Action> {
        std::iter::from_fn(|| self.poll())
    }
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Logged<E, A> {
    /// It went in.
    Event(Time, E),
    /// It came out; the time is that of the latest event.
    Action(Time, A),
}

/// What went into a machine and came out, once it is started: two drivers do the same when their logs are equal.
/// Memory grows with it: for tests.
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
    /// Keeps what comes from now on.
    pub fn start(&mut self) {
        self.lines = Some(Vec::new());
    }

    /// What was kept; empty unless it was started.
    pub fn lines(&self) -> &[Logged<E, A>] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// An event goes in.
    pub fn event(&mut self, now: Time, event: &E) {
        if let Some(lines) = &mut self.lines {
            self.now = self.now.max(now);
            lines.push(Logged::Event(now, event.clone()));
        }
    }

    /// An action comes out.
    pub fn action(&mut self, action: &A) {
        if let Some(lines) = &mut self.lines {
            lines.push(Logged::Action(self.now, action.clone()));
        }
    }
}
