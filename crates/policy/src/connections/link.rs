//! Health of one connection, and its return to service.
//!
//! ```text
//!                an operation failed               a probe failed, or hangs; or operations keep failing
//!   in use -----------------------------> suspect ------------------------------------> out <------+
//!     ^ <-----------------------------------+                                            |         |
//!     |             the probe was good                                        wait over  |         | mounting failed:
//!     |                                                                                  v         | double the wait
//!     +----------------------------------------------------------------------------- mounting -----+
//!                               mounted, and it is the same directory
//! ```
//! Probes also run at regular intervals, to detect a connection that hangs. `TakeOut` comes at once, so that operations
//! that hang on the connection can be released and repeated elsewhere. The machine itself does not mount, probe or
//! measure time: the driver does, and reports the results.

use crate::machine::Machine;
use crate::named;
use crate::time::Time;
use std::collections::VecDeque;

named! {
    /// Operations that a connection is used for.
    #[derive(Hash)]
    State {
        /// All operations use it.
        InUse = "in use",
        /// Only used if no connection is `InUse`.
        Suspect = "suspect",
        /// No operation uses it.
        Out = "out",
        /// No operation uses it; it is being mounted again.
        Mounting = "mounting",
    }
}

/// Limits of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Interval of probes of a connection in use.
    pub probe_interval: Time,
    /// Timeout of a probe.
    pub deadline: Time,
    /// Number of failed operations within `forgive` that takes the connection out even if all probes succeeded.
    pub failures_max: u32,
    /// Age after which a failure is forgotten.
    pub forgive: Time,
    /// Wait before the second try to mount. The first try is immediate.
    pub backoff_min: Time,
    /// Limit on the doubled wait.
    pub backoff_max: Time,
}

impl Default for Config {
    /// The deadline is a guess: longer than a full queue on a slow link takes, and shorter than GlusterFS's own 42 s.
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

named! {
    /// Cause of a state change.
    #[derive(Hash)]
    Cause {
        /// An operation returned an error of the connection.
        OperationFailed = "an operation failed",
        /// The probe returned an error.
        ProbeFailed = "a probe failed",
        /// The probe timed out.
        ProbeHangs = "a probe hangs",
        /// Operations fail although probes succeed.
        KeepsFailing = "operations keep failing",
        /// The probe succeeded.
        ProbeGood = "a probe was good",
        /// The wait before mounting is over.
        Backoff = "it is tried again",
        /// The mount succeeded, and shows the same directory.
        Mounted = "it was mounted",
        /// The mount failed, or shows another directory.
        MountFailed = "mounting failed",
    }
}

/// Input of [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation ended with an error that means a broken connection.
    OperationFailed,
    /// The requested probe succeeded.
    ProbeGood,
    /// The requested probe failed.
    ProbeFailed,
    /// The mount succeeded, and shows the same directory.
    Mounted,
    /// The mount failed, or shows another directory.
    MountFailed,
    /// Time passed; to be sent at [`Link::next_deadline`].
    Tick,
}

/// Output of [`Link`], to be carried out by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Check whether the connection answers; report `ProbeGood` or `ProbeFailed`.
    Probe,
    /// Unmount it by force, so that hanging operations return an error.
    TakeOut,
    /// Mount it, compare the directory, and report `Mounted` or `MountFailed`.
    Mount,
    /// The state changed; notify the users of this connection.
    Changed {
        /// State until now.
        from: State,
        /// State from now on.
        to: State,
        /// Cause of the change.
        cause: Cause,
    },
}

/// Bit set of the connections to choose among: those in use, or the suspect ones if none is in use.
pub fn usable(links: &[Link]) -> u64 {
    let those = |state: State| {
        links.iter().enumerate().filter(|(_, link)| link.state() == state).fold(0, |set, (number, _)| set | 1 << number)
    };
    match those(State::InUse) {
        0 => those(State::Suspect),
        set => set,
    }
}

/// Health of one connection.
#[derive(Clone, Debug)]
pub struct Link {
    config: Config,
    state: State,
    /// Time of the next probe, or of the next mount.
    due: Time,
    /// Start of the probe that is under way.
    probing: Option<Time>,
    failures: VecDeque<Time>,
    backoff: Time,
    actions: VecDeque<Action>,
}

impl Link {
    /// Begins with a connection that was just mounted.
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

    /// Present state of the connection.
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
        // Operations under way together fail together: they count as one failure until a probe succeeds.
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
            // A late result of a removed mount is ignored.
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        match (self.state, self.probing) {
            (State::Mounting, _) => None, // the driver reports the end
            (_, Some(since)) => Some(since + self.config.deadline),
            _ => Some(self.due),
        }
    }
}
