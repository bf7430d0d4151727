//! When a call for a user's lock is asked of the shared file system, which tells nobody that a lock has become free.
//!
//! ```text
//!   Came ──> Ask ──Refused──> waits: its pause, which grows; or Freed, in the order in which calls came ──> Ask ...
//!              │                 └── a call that may not wait: Refuse
//!              └── no answer within the deadline: GiveUp
//! ```
//! The shared file system decides who has a lock. Between two tries a call holds no worker. The calls of one user are together
//! asked at most once in [`Config::user_gap`], however many wait.

use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The spans.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// After the first refusal; doubled with each further one.
    pub pause: Time,
    /// As far as that.
    pub pause_max: Time,
    /// Of a user with many calls each pauses at least so long for each of them.
    pub user_gap: Time,
    /// When a lock is given back on this node, those that wait for the file are asked so far apart: the first may take it.
    pub freed_gap: Time,
    /// How long the shared file system has for an answer.
    pub deadline: Time,
}

impl Default for Config {
    /// Guesses: a try costs the shared file system about what a `stat` costs it, so one call that waits is 20 of those in a second, and a
    /// user with many 250. A GlusterFS client ends its calls in 15 s.
    fn default() -> Config {
        Config {
            pause: Time::from_millis(1),
            pause_max: Time::from_millis(50),
            user_gap: Time::from_millis(4),
            freed_gap: Time::from_millis(1),
            deadline: Time::from_secs(30),
        }
    }
}

/// A call, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call(pub u64);

/// What is in the way of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A lock that was taken elsewhere, or by a way that nobody here sees.
    Elsewhere,
    /// A lock of this node, whose end is told as [`Event::Freed`].
    Here,
    /// The same, and its file was closed: it is being given back.
    Closed,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A user calls, for a file.
    Came {
        /// The call.
        call: Call,
        /// The file.
        file: u64,
        /// The user.
        user: u32,
        /// It is to wait until the lock is free.
        waits: bool,
    },
    /// What was asked was refused.
    Refused {
        /// The call.
        call: Call,
        /// Why.
        refusal: Refusal,
    },
    /// The call has its answer.
    Ended {
        /// The call.
        call: Call,
    },
    /// A lock of this file was given back on this node.
    Freed {
        /// The file.
        file: u64,
    },
    /// Time passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look whether the caller still wants it, and ask the shared file system.
    Ask {
        /// The call.
        call: Call,
    },
    /// Tell the caller that somebody has the lock. The call has ended.
    Refuse {
        /// The call.
        call: Call,
    },
    /// Tell the caller that the shared file system does not answer. The call has ended.
    GiveUp {
        /// The call.
        call: Call,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is asked; a lock of the file may have been given back since.
    Asked {
        freed: bool,
    },
    Waits,
}

#[derive(Debug)]
struct State {
    file: u64,
    user: u32,
    waits: bool,
    phase: Phase,
    /// When it is asked, or given up.
    due: Time,
    /// The last.
    pause: Time,
    /// A call that may not wait is refused then at the latest.
    until: Time,
}

/// The calls of a node.
#[derive(Debug, Default)]
pub struct Asking {
    config: Config,
    calls: BTreeMap<Call, State>,
    /// Those of each file, and how many each user has.
    files: BTreeMap<u64, BTreeSet<Call>>,
    users: BTreeMap<u32, u64>,
    due: BTreeSet<(Time, Call)>,
    out: VecDeque<Action>,
}

impl Asking {
    /// None yet.
    pub fn new(config: Config) -> Asking {
        Asking { config, ..Asking::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn ask(&mut self, now: Time, call: Call) {
        if self.set(call, Phase::Asked { freed: false }, now + self.config.deadline) {
            self.out.push_back(Action::Ask { call });
        }
    }

    fn set(&mut self, call: Call, phase: Phase, due: Time) -> bool {
        let Some(state) = self.calls.get_mut(&call) else { return false };
        self.due.remove(&(state.due, call));
        (state.phase, state.due) = (phase, due);
        self.due.insert((due, call))
    }

    fn refused(&mut self, now: Time, call: Call, refusal: Refusal) {
        let Some(state) = self.calls.get_mut(&call) else { return };
        let Phase::Asked { freed } = state.phase else { return };
        if !state.waits && (refusal != Refusal::Closed || now >= state.until) {
            self.end(call);
            return self.out.push_back(Action::Refuse { call });
        }
        let many = Time(self.config.user_gap.0.saturating_mul(self.users.get(&state.user).copied().unwrap_or(0)));
        state.pause = match (freed, refusal) {
            // It missed the moment.
            (true, _) => self.config.pause,
            // The end of that lock is heard of. Until then it is only seen whether the caller was interrupted.
            (false, Refusal::Here) => self.config.pause_max.max(many),
            _ => Time(state.pause.0 * 2).clamp(self.config.pause, self.config.pause_max.max(many)),
        };
        let due = now + state.pause;
        self.set(call, Phase::Waits, due);
    }

    fn freed(&mut self, now: Time, file: u64) {
        let calls: Vec<Call> = self.files.get(&file).into_iter().flatten().copied().collect();
        let mut at = now;
        for call in calls {
            let Some(state) = self.calls.get_mut(&call) else { continue };
            match &mut state.phase {
                Phase::Asked { freed } => *freed = true,
                Phase::Waits => {
                    let due = state.due.min(at);
                    self.set(call, Phase::Waits, due);
                    at = at + self.config.freed_gap;
                }
            }
        }
    }

    fn end(&mut self, call: Call) {
        let Some(state) = self.calls.remove(&call) else { return };
        self.due.remove(&(state.due, call));
        if let Some(calls) = self.files.get_mut(&state.file) {
            calls.remove(&call);
            if calls.is_empty() {
                self.files.remove(&state.file);
            }
        }
        if let Some(n) = self.users.get_mut(&state.user) {
            *n -= 1;
            if *n == 0 {
                self.users.remove(&state.user);
            }
        }
    }

    fn tick(&mut self, now: Time) {
        while let Some((_, call)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            match self.calls[&call].phase {
                Phase::Waits => self.ask(now, call),
                Phase::Asked { .. } => {
                    self.end(call);
                    self.out.push_back(Action::GiveUp { call });
                }
            }
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        assert_eq!(self.due.len(), self.calls.len());
        assert!(self.calls.iter().all(|(call, state)| self.due.contains(&(state.due, *call))));
        assert_eq!(self.files.values().map(BTreeSet::len).sum::<usize>(), self.calls.len());
        assert_eq!(self.users.values().sum::<u64>(), self.calls.len() as u64);
        assert!(self.users.values().all(|n| *n > 0) && self.files.values().all(|calls| !calls.is_empty()));
    }
}

impl Machine for Asking {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Came { call, file, user, waits } => {
                let until = now + self.config.deadline;
                let phase = Phase::Waits;
                let state = State { file, user, waits, phase, due: now, pause: Time::ZERO, until };
                self.calls.insert(call, state);
                self.due.insert((now, call));
                self.files.entry(file).or_default().insert(call);
                *self.users.entry(user).or_default() += 1;
                self.ask(now, call);
            }
            Event::Refused { call, refusal } => self.refused(now, call, refusal),
            Event::Ended { call } => self.end(call),
            Event::Freed { file } => self.freed(now, file),
            Event::Tick => {}
        }
        self.tick(now);
    }

    fn poll(&mut self) -> Option<Action> {
        self.out.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests;
