//! Session of a node in the store: its renewal, its end, and the registration of all holds in another run.

use super::{Action, Answer, Caller, Config, Holder, Node, Request, Run};
use crate::time::Time;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Progress of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    /// The store does not answer.
    #[default]
    Away,
    /// The run is to be begun.
    Begin,
    /// The holds of files up to this one are registered.
    Reclaim(Option<u64>),
    /// All holds are registered.
    Register,
    /// The session began; all members are to be listed, and the run is to be opened with them.
    List,
    /// The session began, and a member has not registered.
    Closed,
    /// The session began, and the run is opened.
    Opened,
}

/// Session of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Session {
    run: Run,
    /// Number of the connection.
    link: u64,
    stage: Stage,
    /// Whether a step is under way.
    pending: bool,
    /// Time of the request under way.
    asked: Time,
    /// Time on the store's clock in its last answer, and on this node's at its arrival.
    store: Option<(Time, Time)>,
    /// Time of the request of the last renewal that found a session of every member.
    confirmed: Option<Time>,
    /// Last time on this node's clock at which a session may begin; `None`: there was none.
    begins_until: Option<Time>,
    /// Whether the deadline of a lapsed session has passed.
    passed: bool,
    /// Time of the next request.
    due: Option<Time>,
    /// Members to be removed from the store.
    over: BTreeSet<Node>,
    /// Nodes that are over.
    gone: BTreeSet<Node>,
}

impl Session {
    /// Whether modes that cache may be used.
    pub(super) fn caches(&self, config: &Config, now: Time) -> bool {
        self.confirmed.is_some_and(|confirmed| now < confirmed + config.caching)
    }

    /// Whether modes that cache end now. The confirmation does not count again.
    pub(super) fn ends_caching(&mut self, config: &Config, now: Time) -> bool {
        !self.caches(config, now) && self.confirmed.take().is_some()
    }

    /// Whether requests for files can be sent.
    pub(super) fn is_registered(&self) -> bool {
        matches!(self.stage, Stage::Closed | Stage::List | Stage::Opened)
    }

    /// State of the session that decisions about files depend on: requests can be sent, modes that cache may be used,
    /// the session has surely lapsed.
    pub(super) fn reach(&self, config: &Config, now: Time) -> (bool, bool, bool) {
        (self.is_registered(), self.caches(config, now), self.passed)
    }

    /// Whether the session has surely lapsed, and with it each mode of another node that caches.
    pub(super) fn has_surely_lapsed(&self, config: &Config, now: Time) -> bool {
        let span = config.session + config.caching + config.margin;
        self.stage == Stage::Away && self.begins_until.is_some_and(|until| now >= until + span)
    }

    pub(super) fn caller(&self, node: Node) -> Caller {
        Caller { node, run: self.run, link: self.link }
    }

    pub(super) fn deadline(&self, config: &Config) -> Option<Time> {
        if self.stage == Stage::Away {
            let span = config.session + config.caching + config.margin;
            return self.begins_until.filter(|_| !self.passed).map(|until| until + span);
        }
        self.due.filter(|_| !self.pending)
    }
}

impl Holder {
    /// The store must be asked to register this node again.
    pub(super) fn disconnected(&mut self) {
        if self.session.stage != Stage::Away {
            self.session.stage = Stage::Away;
            self.actions.push_back(Action::Connect);
        }
        self.session.pending = false;
        self.last += 1;
        self.files.values_mut().for_each(super::File::lose_request);
    }

    pub(super) fn connected(&mut self, run: Run) {
        let session = &mut self.session;
        (session.run, session.stage, session.pending) = (run, Stage::Begin, false);
        session.link += 1;
        session.passed = false;
        (session.due, session.confirmed) = (None, None);
        self.stop_caching();
    }

    /// The store is reachable, but has no session of this node.
    pub(super) fn register_again(&mut self) {
        if self.session.is_registered() {
            self.session.stage = Stage::Reclaim(None);
            self.session.due = None;
            self.stop_caching();
        }
    }

    pub(super) fn over(&mut self, node: Node) {
        self.session.gone.insert(node);
        self.lapsed(node);
    }

    /// A member without a session keeps others waiting: removes it if it is over.
    pub(super) fn lapsed(&mut self, node: Node) {
        if self.session.gone.contains(&node) {
            self.session.over.insert(node);
            self.session.due = None;
        }
    }

    pub(super) fn members(&mut self, members: BTreeSet<Node>) {
        if self.session.stage == Stage::List {
            self.ask_session(Request::Open { members });
        } else {
            self.session.pending = false;
        }
    }

    /// Sends the next request, if none is under way.
    pub(super) fn session_goes_on(&mut self, now: Time) {
        if self.session.pending || self.session.due.is_some_and(|due| now < due) {
            return;
        }
        match self.session.stage {
            Stage::Away => self.session.passed = self.session.has_surely_lapsed(&self.config, now),
            Stage::Begin => self.ask_session(Request::Begin),
            Stage::Reclaim(last) => {
                let after = last.map_or(Bound::Unbounded, Bound::Excluded);
                let mut rest = self.files.range_mut((after, Bound::Unbounded));
                match rest.find_map(|(key, file)| file.registration(*key).map(|request| (*key, request))) {
                    Some((key, request)) => {
                        self.session.stage = Stage::Reclaim(Some(key));
                        self.ask_session(request);
                    }
                    None => {
                        self.session.stage = Stage::Register;
                        let not_after = self.not_after(now);
                        self.ask_session(Request::Register { not_after });
                    }
                }
            }
            Stage::Register => {}
            Stage::List => {
                self.session.pending = true;
                self.actions.push_back(Action::Members);
            }
            Stage::Closed | Stage::Opened => match self.session.over.first() {
                Some(node) => self.ask_session(Request::Over { node: *node }),
                None => {
                    let not_after = self.not_after(now);
                    self.ask_session(Request::Renew { not_after });
                }
            },
        }
        self.session.asked = now;
    }

    /// Last time on the store's clock for a session that begins within a renewal interval.
    fn not_after(&mut self, now: Time) -> Time {
        let until = now + self.config.renew_every;
        self.session.begins_until = self.session.begins_until.max(Some(until));
        self.session.store.map_or(Time::ZERO, |(store, heard)| store + (until - heard))
    }

    fn ask_session(&mut self, request: Request) {
        self.session.pending = true;
        let caller = self.session.caller(self.node);
        self.actions.push_back(Action::Ask { key: None, caller, request });
    }

    pub(super) fn session_answered(&mut self, now: Time, answer: Answer) {
        self.session.pending = false;
        self.session.due = None;
        let registers = self.session.stage == Stage::Register;
        match answer {
            Answer::Session { at, opened, lapsed, .. } => {
                self.session.store = Some((at, now));
                if self.session.stage == Stage::Begin {
                    self.session.stage = Stage::Reclaim(None);
                    return;
                }
                self.session.stage = if opened { Stage::Opened } else { Stage::List };
                if opened && lapsed.is_none() {
                    self.session.confirmed = Some(self.session.asked);
                }
                if registers {
                    self.files.values_mut().for_each(super::File::registered);
                }
                let quiet = opened && self.session.over.is_empty();
                self.session.due = quiet.then_some(now + self.config.renew_every);
                lapsed.into_iter().for_each(|node| self.lapsed(node));
            }
            Answer::Lapsed(node) => {
                self.session.stage = Stage::Closed;
                self.lapsed(node);
                self.session.due = Some(now + self.config.retry);
            }
            Answer::Done => self.session_done(),
            Answer::OtherRun => self.disconnected(),
            // The store has removed the member.
            _ if matches!(self.session.stage, Stage::Reclaim(_) | Stage::Register) => self.disconnected(),
            _ => {
                self.session.stage = Stage::Reclaim(None);
                self.stop_caching();
            }
        }
    }

    /// A request without a result of its own was carried out.
    fn session_done(&mut self) {
        match self.session.stage {
            Stage::List => self.session.stage = Stage::Opened,
            Stage::Closed | Stage::Opened => drop(self.session.over.pop_first()),
            _ => {}
        }
    }
}

#[cfg(test)]
impl Session {
    pub(super) fn forget_times(&mut self, first: Time, later: Time) {
        self.asked = first;
        self.store = self.store.map(|(store, _)| (store, first));
        self.begins_until = self.begins_until.map(|_| later);
        self.due = self.due.map(|_| later);
    }

    pub(super) fn repeat_now(&mut self) {
        if self.stage == Stage::Closed {
            self.renew_now();
        }
    }

    pub(super) fn renew_now(&mut self) {
        self.due = self.due.map(|_| Time::ZERO);
    }

    /// Whether a request waits for its repetition.
    pub(super) fn waits(&self) -> bool {
        self.stage == Stage::Closed && self.due.is_some()
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed.is_some()
    }
}
