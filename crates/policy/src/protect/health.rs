//! Health of one target: whether it can be trusted.
//!
//! ```text
//!            hard error, miss, failed probe            N failed probes, or a second miss
//!     Ok ------------------------------------> Suspect -----------------------------------> Failed
//!      ^ <------------------------------------    |                                          |  ^
//!      |   probe ok (and nothing hangs)           | drain                                    |  |
//!      |                                          v         the same, with doubt             |  |
//!      +---- restore ------------------------- Draining ---------------------------------------+
//!      +---- restore (or M good probes, if so configured) -----------------------------------+
//! ```
//!
//! A target that can be read but not written (its file system was remounted after an error, or its syncs fail) is
//! `ReadOnly`. It is as good as `Ok` for readers, unused otherwise, and `Ok` again when a probe can write.
//!
//! A drained target stays `Draining` while it is in doubt, because its restriction (no new objects) is the same;
//! [`Health::in_doubt`] returns the difference. Likewise for a read-only target. `Failed` is sticky: a target that
//! comes and goes would otherwise cause a recovery each time. A target that the operator failed is restored by the
//! operator alone.
//!
//! A miss is an operation that passed its deadline. Operations that were under way when a target stalled all miss;
//! together they are one stall. A second miss is an operation that *started after* the first miss, and misses, too.
//!
//! A target on a shared file system fails only while another target on it answers ([`file_system`]). Until then it stays
//! in doubt, for [`Config::away_max`] at most.
//!
//! The machine neither probes nor measures time: the driver does both and reports the results.

mod event;
pub mod file_system;

pub use event::{Action, Config, Event, Reason, State};

use crate::machine::Machine;
use crate::time::Time;
use file_system::{FileSystem, Member};
use std::collections::VecDeque;

/// The state machine of one target.
#[derive(Clone, Debug, Default)]
pub struct Health {
    config: Config,
    state: State,
    /// Set while the target is suspect, or draining or read-only and just as doubtful.
    doubt: bool,
    /// Start of the doubt.
    doubt_since: Time,
    /// State of the target's shared file system; `None`: it lies on none.
    file_system: Option<FileSystem>,
    /// Start of the current probe, and of the last one if that succeeded.
    probe_began: Time,
    answered: Option<Time>,
    /// Whether the last probe could read but not write.
    read_only: bool,
    /// Whether a sync failed and no probe has synced since.
    unsynced: bool,
    /// Whether the current probe syncs, and began after the last failed sync.
    probe_syncs: bool,
    failed_by_operator: bool,
    first_miss: Option<Time>,
    hanging: u32,
    probes_failed_in_row: u32,
    probes_ok_in_row: u32,
    /// Time at which the current probe counts as failed.
    probe_expires: Option<Time>,
    next_probe: Option<Time>,
    probe_wanted: Option<Reason>,
    changes: VecDeque<Action>,
}

impl Health {
    /// Makes a target in its saved state (`Suspect` starts with a probe).
    pub fn new(config: Config, state: State, now: Time) -> Health {
        let mut health = Health {
            config,
            state,
            doubt: state == State::Suspect,
            doubt_since: now,
            probe_began: now,
            read_only: state == State::ReadOnly,
            ..Health::default()
        };
        if health.doubt {
            health.ask_probe(now, Reason::Routine);
        } else {
            health.plan_probe(now);
        }
        health
    }

    /// Returns the present state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether readers should prefer another mirror: suspect, or draining or read-only and doubtful.
    pub fn in_doubt(&self) -> bool {
        self.doubt
    }

    /// Whether the operator failed it.
    pub fn is_failed_by_operator(&self) -> bool {
        self.failed_by_operator
    }

    /// Returns the start of the doubt, if it is in doubt.
    pub fn doubt_since(&self) -> Option<Time> {
        self.doubt.then_some(self.doubt_since)
    }

    /// Returns the state of its shared file system as it was last reported.
    pub fn file_system(&self) -> Option<FileSystem> {
        self.file_system
    }

    /// Returns the target's report for its shared file system, on which a target is in doubt since `since`.
    pub fn member(&self, since: Time) -> Member {
        let answered = self.answered.is_some_and(|began| began >= since);
        Member { in_doubt: self.doubt, is_failed: self.state == State::Failed, answered }
    }

    /// Whether new objects may be created on it. If no target on its file system answers, none is better.
    pub fn accepts_new_objects(&self) -> bool {
        let is_away = self.file_system == Some(FileSystem::Away) && self.state == State::Suspect;
        is_away || self.state.accepts_new_objects()
    }

    fn missed(&mut self, now: Time, started: Time) {
        self.hanging += 1;
        match self.first_miss {
            Some(first) if now.since(first) <= self.config.miss_window => {
                if started > first && self.may_fail(now) {
                    self.fail(now, Reason::MissedAgain);
                }
            }
            _ => self.first_miss = Some(now),
        }
        self.doubt_it(now, Reason::DeadlineMissed);
    }

    fn doubt_it(&mut self, now: Time, reason: Reason) {
        if self.state == State::Failed || self.doubt {
            return;
        }
        self.begin_doubt(now);
        self.probes_failed_in_row = 0;
        if self.state == State::Ok {
            self.change(State::Suspect, reason);
        }
        self.ask_probe(now, reason);
    }

    fn begin_doubt(&mut self, now: Time) {
        (self.doubt, self.doubt_since) = (true, now);
        if self.file_system == Some(FileSystem::Answers) {
            self.file_system = Some(FileSystem::Unknown);
        }
    }

    /// Whether faults are the target's own, or its file system has been away for too long.
    fn may_fail(&self, now: Time) -> bool {
        let waited = self.doubt && now.since(self.doubt_since) >= self.config.away_max;
        matches!(self.file_system, None | Some(FileSystem::Answers)) || waited
    }

    fn see_file_system(&mut self, now: Time, seen: FileSystem) {
        let before = self.file_system.replace(seen);
        if before == Some(seen) {
            return;
        }
        if before == Some(FileSystem::Away) && self.state != State::Failed {
            self.probes_failed_in_row = 0; // these were faults of the file system
        }
        match seen {
            FileSystem::Answers if self.doubt && self.probes_failed_in_row >= self.config.failed_probes_max => {
                self.fail(now, Reason::ProbesFailed(self.probes_failed_in_row));
            }
            FileSystem::Unknown if self.state != State::Failed && self.probe_expires.is_none() => {
                self.next_probe = Some(now);
            }
            _ => {}
        }
    }

    fn probe_ok(&mut self, now: Time) {
        if self.unsynced && !self.probe_syncs && self.state != State::Failed {
            // The probe did not test the sync that is in question.
            (self.probe_expires, self.probe_wanted) = (None, None);
            return self.plan_probe(now);
        }
        (self.read_only, self.unsynced) = (false, false);
        self.probe_answered(now);
    }

    fn probe_read_only(&mut self, now: Time) {
        self.read_only = true;
        self.probe_answered(now);
    }

    /// The target can be read, and written unless it is known to be read-only.
    fn probe_answered(&mut self, now: Time) {
        self.probe_expires = None;
        self.probe_wanted = None;
        self.answered = Some(self.probe_began);
        self.probes_failed_in_row = 0;
        self.probes_ok_in_row = self.probes_ok_in_row.saturating_add(1);
        if self.doubt && !(self.config.wait_for_hanging && self.hanging > 0) {
            self.doubt = false;
        }
        if matches!(self.state, State::Ok | State::Suspect | State::ReadOnly) {
            let why = match (self.read_only, self.unsynced) {
                (false, _) => Reason::ProbesOk(self.probes_ok_in_row),
                (true, false) => Reason::ReadOnly,
                (true, true) => Reason::SyncFailed,
            };
            match (self.doubt, self.read_only) {
                (false, _) => self.change(self.well(), why),
                // An operation still hangs on it, but it can be written again.
                (true, false) => self.change(State::Suspect, why),
                (true, true) => {}
            }
        }
        let enough = self.config.auto_restore.is_some_and(|n| self.probes_ok_in_row >= n.max(1));
        if self.state == State::Failed && !self.failed_by_operator && enough {
            self.restore(now, Reason::ProbesOk(self.probes_ok_in_row));
        }
        self.plan_probe(now);
    }

    fn probe_failed(&mut self, now: Time) {
        self.answered = None;
        self.probe_expires = None;
        self.probe_wanted = None;
        self.probes_ok_in_row = 0;
        self.probes_failed_in_row = self.probes_failed_in_row.saturating_add(1);
        let failed = self.probes_failed_in_row;
        if self.state != State::Failed {
            if failed >= self.config.failed_probes_max && self.may_fail(now) {
                self.fail(now, Reason::ProbesFailed(failed));
            } else if !self.doubt {
                self.begin_doubt(now);
                if self.state == State::Ok {
                    self.change(State::Suspect, Reason::ProbesFailed(failed));
                }
            }
        }
        self.plan_probe(now);
    }

    /// Returns the state without doubt.
    fn well(&self) -> State {
        if self.read_only { State::ReadOnly } else { State::Ok }
    }

    /// The probe had no result: probes again soon, in every state.
    fn probe_not_made(&mut self, now: Time) {
        self.probe_expires = None;
        self.probe_wanted = None;
        self.plan_probe(now);
        self.next_probe = self.next_probe.map(|at| at.min(now + self.config.probe_interval));
    }

    fn fail(&mut self, now: Time, reason: Reason) {
        self.failed_by_operator |= reason == Reason::Operator;
        (self.doubt, self.read_only, self.unsynced) = (false, false, false);
        self.file_system = self.file_system.map(|_| FileSystem::Answers);
        self.probes_ok_in_row = 0;
        self.change(State::Failed, reason);
        if self.config.auto_restore.is_none() || self.failed_by_operator {
            self.probe_expires = None;
            self.probe_wanted = None;
        }
        self.plan_probe(now);
    }

    fn restore(&mut self, now: Time, reason: Reason) {
        self.failed_by_operator = false;
        self.doubt = false;
        self.first_miss = None;
        self.hanging = 0; // earlier hanging operations no longer count against it
        self.probes_failed_in_row = 0;
        self.change(self.well(), reason);
        self.plan_probe(now);
    }

    fn change(&mut self, to: State, reason: Reason) {
        let from = self.state;
        if from != to {
            self.state = to;
            self.changes.push_back(Action::Changed { from, to, reason });
        }
    }

    /// Schedules the next probe, depending on the state.
    fn plan_probe(&mut self, now: Time) {
        let wait = match self.state {
            _ if self.doubt => Some(self.config.probe_interval),
            State::Failed if self.failed_by_operator => None,
            State::Failed => self.config.auto_restore.map(|_| self.config.probe_interval),
            State::ReadOnly => Some(self.config.routine_interval.unwrap_or(self.config.probe_interval)),
            State::Ok | State::Suspect | State::Draining => {
                // In steps of an eighth, so that all targets are probed together and the machine sleeps in between.
                let next = self.config.routine_interval.map(|wait| (now + wait, (wait.0 / 8).max(1)));
                self.next_probe = next.map(|(at, step)| Time(at.0 - at.0 % step));
                return;
            }
        };
        self.next_probe = wait.map(|wait| now + wait);
    }

    fn ask_probe(&mut self, now: Time, reason: Reason) {
        self.next_probe = None;
        if self.probe_expires.is_none() {
            self.probe_began = now;
            self.probe_expires = Some(now + self.config.probe_deadline);
            self.probe_syncs = self.unsynced;
            self.probe_wanted = Some(reason);
        }
    }

    /// Applies deadlines up to `now`.
    fn advance(&mut self, now: Time) {
        if self.probe_expires.is_some_and(|at| at <= now) {
            self.probe_failed(now);
        }
        if self.probe_expires.is_none() && self.next_probe.is_some_and(|at| at <= now) {
            self.ask_probe(now, Reason::Routine);
        }
    }
}

impl Machine for Health {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::OpError => self.doubt_it(now, Reason::HardError),
            Event::ObjectMissing => {
                let soon = now + self.config.probe_interval;
                self.next_probe = self.next_probe.map(|at| at.min(soon));
            }
            Event::ReadOnly => {
                if !self.read_only {
                    self.doubt_it(now, Reason::ReadOnly);
                }
            }
            Event::SyncFailed => {
                self.unsynced |= self.state != State::Failed;
                self.probe_syncs = false;
                if !self.read_only {
                    self.doubt_it(now, Reason::SyncFailed);
                }
            }
            Event::DeadlineMissed { started } => self.missed(now, started),
            Event::HangingReturned => {
                self.hanging = self.hanging.saturating_sub(1);
                if self.hanging == 0 && self.doubt && self.probe_expires.is_none() {
                    self.next_probe = Some(now); // nothing hangs any more: a good probe now ends the doubt
                }
            }
            Event::ProbeOk => self.probe_ok(now),
            Event::ProbeReadOnly => self.probe_read_only(now),
            Event::ProbeFailed => self.probe_failed(now),
            Event::ProbeNotMade => self.probe_not_made(now),
            Event::FileSystem(seen) => self.see_file_system(now, seen),
            Event::OperatorFail => self.fail(now, Reason::Operator),
            Event::OperatorRestore => self.restore(now, Reason::Operator),
            Event::OperatorDrain => {
                if matches!(self.state, State::Ok | State::Suspect | State::ReadOnly) {
                    self.change(State::Draining, Reason::Operator);
                }
            }
            Event::Tick => {}
        }
        self.advance(now);
    }

    fn poll(&mut self) -> Option<Action> {
        if let Some(change) = self.changes.pop_front() {
            return Some(change);
        }
        self.probe_wanted.take().map(|reason| Action::Probe { reason, durable: self.probe_syncs })
    }

    fn next_deadline(&self) -> Option<Time> {
        self.probe_expires.or(self.next_probe)
    }
}

#[cfg(test)]
mod tests;
