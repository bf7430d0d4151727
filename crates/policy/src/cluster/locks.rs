//! Schedules tries for users' locks at the shared file system, which does not notify callers when a lock becomes free.
//!
//! ```text
//!   Came ──> Ask ──Refused──> waits: its pause, which grows; or Freed, in the order in which calls came ──> Ask ...
//!              │                 └── a call that may not wait: Refuse
//!              └── no answer within the deadline: GiveUp
//! ```
//! The shared file system decides which call gets a lock. Between two tries a call occupies no worker. With many
//! waiting calls, their pauses grow: in the long run a user has at most one try per [`Config::user_gap`].

use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Retry intervals and the deadline.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Pause after the first refusal; doubled with each further one.
    pub pause: Time,
    /// Limit on the doubled pause.
    pub pause_max: Time,
    /// Share of a user's call in the pause: with `n` calls, the limit on each pause is at least `n * user_gap`.
    pub user_gap: Time,
    /// Interval between the retries of waiting calls after a lock was released on this node: the first may take it.
    pub freed_gap: Time,
    /// Timeout of one try.
    pub deadline: Time,
}

impl Default for Config {
    /// Guesses. A try costs the shared file system about as much as a `stat`. So a waiting call costs 20 of them a
    /// second, and a user with many calls 250. A GlusterFS client ends its calls in 15 s.
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

/// Number of a call, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call(pub u64);

/// Conflicting lock, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A lock of another node, or one taken outside of Entrepot's view.
    Elsewhere,
    /// A lock of this node; its release is reported as [`Event::Freed`].
    Here,
    /// A lock of this node whose file was closed, and which is being released.
    Closed,
}

/// Input of [`Asking`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A user's call for a lock arrived.
    Came {
        /// New call number.
        call: Call,
        /// File to lock.
        file: u64,
        /// User that calls.
        user: u32,
        /// Whether the call waits until the lock is free (`F_SETLKW`).
        waits: bool,
    },
    /// A try was refused.
    Refused {
        /// Call that was tried.
        call: Call,
        /// Lock in the way.
        refusal: Refusal,
    },
    /// The call was answered.
    Ended {
        /// Call that ended.
        call: Call,
    },
    /// A lock of this file was released on this node.
    Freed {
        /// File of the lock.
        file: u64,
    },
    /// Time passed; to be sent at the next deadline.
    Tick,
}

/// Output of [`Asking`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Try the lock at the shared file system, unless the caller was interrupted.
    Ask {
        /// Call to try.
        call: Call,
    },
    /// Return to the caller that the lock is held. The call has ended.
    Refuse {
        /// Call to refuse.
        call: Call,
    },
    /// Return to the caller that the shared file system does not answer. The call has ended.
    GiveUp {
        /// Call that timed out.
        call: Call,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A try is under way; `freed`: a lock of the file was released since.
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
    /// Time of the next try, or of the timeout.
    due: Time,
    /// Pause after the last refusal.
    pause: Time,
    /// Time from which a call that may not wait is refused even if the lock is being released.
    until: Time,
}

/// Calls of a node for locks.
#[derive(Debug, Default)]
pub struct Asking {
    config: Config,
    calls: BTreeMap<Call, State>,
    /// Calls of each file, and below the number of calls of each user.
    files: BTreeMap<u64, BTreeSet<Call>>,
    users: BTreeMap<u32, u64>,
    due: BTreeSet<(Time, Call)>,
    out: VecDeque<Action>,
}

impl Asking {
    /// Begins without calls.
    pub fn new(config: Config) -> Asking {
        Asking { config, ..Asking::default() }
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
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
            // The lock was released during the try: retry soon.
            (true, _) => self.config.pause,
            // `Freed` will arrive. Until then, tries only detect an interrupted caller.
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
