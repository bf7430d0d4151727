//! Whether one connection can be trusted, and how it comes back.
//!
//! ```text
//!                an operation failed               a probe failed, or hangs; or operations keep failing
//!   in use -----------------------------> suspect ------------------------------------> out <------+
//!     ^ <-----------------------------------+                                            |         |
//!     |             the probe was good                                        wait over  |         | mounting failed:
//!     |                                                                                  v         | wait twice as long
//!     +----------------------------------------------------------------------------- mounting -----+
//!                               mounted, and it is the same directory
//! ```
//! A probe comes at regular times too, so that one that hangs is found out. Going out is told at once, so that whatever still hangs on it can be released and done elsewhere. It does not mount, probe or measure
//! time: the driver does, and says what came of it.

use crate::machine::Machine;
use crate::time::Time;
use std::collections::VecDeque;
use std::fmt;

/// What a connection may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Everything.
    InUse,
    /// What finds no other one.
    Suspect,
    /// Nothing.
    Out,
    /// Nothing yet: it is being mounted again.
    Mounting,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::InUse => "in use",
            State::Suspect => "suspect",
            State::Out => "out",
            State::Mounting => "mounting",
        })
    }
}

/// Limits of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Span between two probes of a connection that is in use.
    pub probe_interval: Time,
    /// A probe without an answer after this span hangs.
    pub deadline: Time,
    /// So many failed operations within `forgive` take it out although every probe in between was good.
    pub failures_max: u32,
    /// A failure older than that counts no more.
    pub forgive: Time,
    /// The first wait before a second try to mount; the first try comes at once.
    pub backoff_min: Time,
    /// Waits double up to this.
    pub backoff_max: Time,
}

impl Default for Config {
    /// The deadline is a guess above what a full queue on a slow link takes, and below GlusterFS's own 42 s.
    fn default() -> Config {
        Config {
            probe_interval: Time::from_secs(2),
            deadline: Time::from_secs(10),
            failures_max: 3,
            forgive: Time::from_secs(10),
            backoff_min: Time::from_millis(250),
            backoff_max: Time::from_secs(30),
        }
    }
}

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// An operation came back with an error of the connection.
    OperationFailed,
    /// The probe came back with an error.
    ProbeFailed,
    /// The probe passed the deadline.
    ProbeHangs,
    /// Operations fail although probes are good.
    KeepsFailing,
    /// The probe was good.
    ProbeGood,
    /// The wait is over.
    Backoff,
    /// It was mounted, and shows the same directory.
    Mounted,
    /// It could not be mounted, or shows something else.
    MountFailed,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::OperationFailed => "an operation failed",
            Cause::ProbeFailed => "a probe failed",
            Cause::ProbeHangs => "a probe hangs",
            Cause::KeepsFailing => "operations keep failing",
            Cause::ProbeGood => "a probe was good",
            Cause::Backoff => "it is tried again",
            Cause::Mounted => "it was mounted",
            Cause::MountFailed => "mounting failed",
        })
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation on this connection ended with an error that says that the connection is broken.
    OperationFailed,
    /// The probe asked for was good.
    ProbeGood,
    /// It was not.
    ProbeFailed,
    /// It was mounted again, and shows the same directory.
    Mounted,
    /// It was not.
    MountFailed,
    /// Time passed; to be sent at [`Link::next_deadline`].
    Tick,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look whether it answers; say `ProbeGood` or `ProbeFailed`.
    Probe,
    /// Unmount it by force, so that what hangs on it comes back with an error.
    TakeOut,
    /// Mount it, look whether it is the same directory, say `Mounted` or `MountFailed`.
    Mount,
    /// The state changed; tell everybody who cares.
    Changed {
        /// From.
        from: State,
        /// To.
        to: State,
        /// Why.
        cause: Cause,
    },
}

/// The connections to choose among, a bit each: those in use; if there are none, those in doubt.
pub fn usable(links: &[Link]) -> u64 {
    let those = |state: State| {
        links.iter().enumerate().filter(|(_, link)| link.state() == state).fold(0, |set, (number, _)| set | 1 << number)
    };
    match those(State::InUse) {
        0 => those(State::Suspect),
        set => set,
    }
}

/// One connection's health.
#[derive(Clone, Debug)]
pub struct Link {
    config: Config,
    state: State,
    /// When the next probe is due, or the wait for the next mount over.
    due: Time,
    /// Since when a probe is under way.
    probing: Option<Time>,
    failures: VecDeque<Time>,
    backoff: Time,
    actions: VecDeque<Action>,
}

impl Link {
    /// A connection that was just mounted.
    pub fn new(now: Time, config: Config) -> Link {
        let backoff = config.backoff_min;
        let due = now + config.probe_interval;
        Link {
            config,
            state: State::InUse,
            due,
            probing: None,
            failures: VecDeque::new(),
            backoff,
            actions: VecDeque::new(),
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    fn tick(&mut self, now: Time) {
        if self.next_deadline().is_none_or(|at| now < at) {
            return;
        }
        match self.state {
            State::InUse | State::Suspect if self.probing.is_some() => self.take_out(now, Cause::ProbeHangs),
            State::InUse | State::Suspect => self.probe(now),
            State::Out => {
                self.change(State::Mounting, Cause::Backoff);
                self.actions.push_back(Action::Mount);
            }
            State::Mounting => {}
        }
    }

    fn failed(&mut self, now: Time) {
        let too_old = |at: &Time| now.since(*at) > self.config.forgive;
        while self.failures.front().is_some_and(too_old) {
            self.failures.pop_front();
        }
        // What was under way together fails together; that is one failure, until a probe was good in between.
        if self.state == State::InUse {
            self.failures.push_back(now);
        }
        if self.failures.len() >= self.config.failures_max as usize {
            return self.take_out(now, Cause::KeepsFailing);
        }
        self.change(State::Suspect, Cause::OperationFailed);
        self.probe(now);
    }

    fn probe(&mut self, now: Time) {
        if self.probing.is_none() {
            self.probing = Some(now);
            self.actions.push_back(Action::Probe);
        }
    }

    fn take_out(&mut self, now: Time, cause: Cause) {
        self.probing = None;
        self.failures.clear();
        self.due = now; // the first try comes at once
        self.change(State::Out, cause);
        self.actions.push_back(Action::TakeOut);
    }

    fn change(&mut self, to: State, cause: Cause) {
        if self.state != to {
            self.actions.push_back(Action::Changed { from: self.state, to, cause });
            self.state = to;
        }
    }
}

impl Machine for Link {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match (event, self.state) {
            (Event::OperationFailed, State::InUse | State::Suspect) => self.failed(now),
            (Event::ProbeGood, State::InUse | State::Suspect) if self.probing.is_some() => {
                self.probing = None;
                self.due = now + self.config.probe_interval;
                self.change(State::InUse, Cause::ProbeGood);
            }
            (Event::ProbeFailed, State::InUse | State::Suspect) if self.probing.is_some() => {
                self.take_out(now, Cause::ProbeFailed);
            }
            (Event::Mounted, State::Mounting) => {
                self.failures.clear();
                self.backoff = self.config.backoff_min;
                self.due = now + self.config.probe_interval;
                self.change(State::InUse, Cause::Mounted);
            }
            (Event::MountFailed, State::Mounting) => {
                self.due = now + self.backoff;
                self.backoff = Time((self.backoff.0 * 2).min(self.config.backoff_max.0));
                self.change(State::Out, Cause::MountFailed);
            }
            (Event::Tick, _) => self.tick(now),
            // What comes late, about a mount that is gone already, says nothing about the next.
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        match (self.state, self.probing) {
            (State::Mounting, _) => None, // it ends by itself
            (_, Some(since)) => Some(since + self.config.deadline),
            _ => Some(self.due),
        }
    }
}
