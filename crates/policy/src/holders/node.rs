//! A node as a holder: what it asks of the table and of the shared file system, and which operations it acknowledges.
//!
//! ```text
//!   engine: Want ----> [ hold? ] -- yes --> Ready: begin(), the operation, finish()
//!                          | no
//!                     Admit at the table -- Recall: messages, ask again
//!                          |             -- Unsettled: claim, settle, publish, ask again
//!                        Find the newest generation by its name
//!
//!   recalled   Drain --> Settle the size --> Lower in the table
//!   change     Find G --> Claim G+1 --> recall the others --> Drain, Settle --> Change --> Publish G+1, once
//!                     --> Point, Finish in the table, Tidy
//!   away       the session has surely lapsed --> Find G --> Publish G+1 unchanged --> a provisional hold for Write
//! ```
//! The machine has one step under way for each file, and one for its session. The driver carries each step out, answers
//! it once, and decides nothing. An operation is acknowledged only if its hold is valid after it ([`Holder::finish`]).
//!
//! **The generation of a claim is found before the claim.** A change that looked it up later could take the fence of a
//! provisional holder for the layout that it changes.
//!
//! **A mode that caches ends by itself** when no renewal has found a session of every member for a while. It stays
//! lowered until the table admits the node again.
//!
//! Duties of the driver: its clock runs on while the machine sleeps. A listing of members begins after its `Members`
//! action. It removes objects of a removed file only if its own descriptor of the stub shows no link. `Settle` and
//! `SettleFromObjects` take effect while the lease holds, or not at all. A lost lease ends the machine; the driver
//! makes another under its next number. An append that was under way then fails, since it may have happened.

mod ahead;
mod deadlines;
#[cfg(test)]
mod explore;
mod file;
mod session;
mod steps;
#[cfg(test)]
mod tests;

use super::table::{Answer, Caller, Hold, Mode, Request, Run};
use crate::cluster::share::{Created, Written, written};
use crate::cluster::{Node, Standing};
use crate::machine::Machine;
use crate::time::Time;
use ahead::Ahead;
use deadlines::Deadlines;
use file::{File, FirstUse};
use session::Session;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Durations of [`Holder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Duration of a session in the store, as in [`super::table::Table::new`].
    pub session: Time,
    /// Interval of renewals.
    pub renew_every: Time,
    /// Time after the request of a renewal during which modes that cache may be used. Less than `session`, so that they
    /// end before the session does.
    pub caching: Time,
    /// Time that clocks of two machines may differ by within `session`, and the longest operation on an object.
    pub margin: Time,
    /// Usual interval between two requests for the same; refused ones begin with a sixteenth of it.
    pub retry: Time,
    /// Time after which an unused hold is released.
    pub unused: Time,
    /// Time after its creation in which a file without holders is known to be empty. Less than `session`, so that the
    /// store's clock may be set forward in between.
    pub new: Time,
}

impl Default for Config {
    /// Three renewals fit into the caching time, as into a lease. The margin exceeds the deadline of an operation on a
    /// target.
    fn default() -> Config {
        Config {
            session: Time::from_secs(6),
            renew_every: Time::from_millis(1600),
            caching: Time::from_secs(5),
            margin: Time::from_secs(31),
            retry: Time::from_millis(20),
            unused: Time::from_secs(60),
            new: Time::from_secs(1),
        }
    }
}

/// Purpose for which the engine uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Read, at most to the size.
    Read,
    /// Write within the size; beyond it where the permit allows.
    Write,
    /// Write beyond the size.
    Grow,
    /// Append or truncate.
    Alone,
    /// Change the layout.
    Change,
}

/// Permission for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit {
    /// Number of the hold.
    pub number: u64,
    /// Rights during the operation.
    pub mode: Mode,
    /// Generation of the layout.
    pub generation: u64,
    /// Whether the file may grow, with its size set later. Not before a `Settle` if a truncation is marked.
    pub grows: bool,
}

/// Step that the driver carries out for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Read the attribute that names a published generation; answer `Found`.
    Pointer,
    /// Read the record of this generation by its name; answer `Found`.
    Look(u64),
    /// List the records of generations; answer `Found` with the highest. The list may lack some.
    List,
    /// Look for the mark of a truncation; answer `Done`, with `true` if there is none.
    Whole,
    /// Wait for the operations under way; answer `Done`.
    Drain,
    /// Set the size of the stub to the acknowledged one; answer `Done`.
    Settle,
    /// Under the claim on this generation, finish a truncation that is marked on the stub, or else raise its size to the
    /// end of the objects; answer `Done`. `false`: this node does not reach an object now. Then the claim ends, and the
    /// node waits for `renew_every`, in which another one may settle the file.
    SettleFromObjects(u64),
    /// Change the layout of the generation before this one; answer `Done`.
    Change(u64),
    /// Create the record of this generation; answer `Published`.
    Publish {
        /// Generation of the record.
        generation: u64,
        /// Whether it has the changed layout; otherwise that of the generation before.
        changed: bool,
        /// Whether the objects beyond the size are new ones, so that late appends land in garbage.
        sealed: bool,
    },
    /// Let the pointer name this generation; answer `Done`.
    Point(u64),
    /// Remove the records of older generations, oldest first; answer `Done`.
    Tidy(u64),
}

/// Output of [`Holder`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Send a request to the store; answer `Answered`. `key`: for this file; otherwise for the session.
    Ask {
        /// Inode number of the stub.
        key: Option<u64>,
        /// Node, run, and connection.
        caller: Caller,
        /// Request to be sent.
        request: Request,
    },
    /// Carry out a step for a file.
    Step {
        /// Inode number of the stub.
        key: u64,
        /// Step to be carried out.
        step: Step,
    },
    /// Connect to the store and report its run; answers of earlier connections are dropped.
    Connect,
    /// List the nodes that are not over; answer `Members`.
    Members,
    /// Request another node to lower its hold. The message may get lost.
    Recall {
        /// Node that holds the file.
        node: Node,
        /// Inode number of the stub.
        key: u64,
        /// Number of the hold.
        number: u64,
        /// Mode that may remain.
        mode: Mode,
    },
    /// A use is possible, or was refused at the last step: the engine tries it.
    Ready {
        /// Inode number of the stub.
        key: u64,
        /// Use that was requested.
        usage: Use,
    },
}

/// Input of [`Holder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The engine opened a file.
    Opened(u64),
    /// The engine opened a file that this node has created, with a time before the creation.
    Made(u64, Time),
    /// The engine closed a file.
    Closed(u64),
    /// `begin` returned no permit, or the layout shall change.
    Want(u64, Use),
    /// The inode of the stub does not exist any more, so the step under way has no result.
    Gone(u64),
    /// The store answered.
    Answered(Option<u64>, Answer),
    /// The connection is lost; requests without an answer may have been carried out.
    Unanswered,
    /// The connection to the store is a new one, to this run.
    Connected(Run),
    /// Generation and stamp of a record; `None`: it does not exist.
    Found(u64, Option<(u64, u64)>),
    /// A record exists, made by this step or not.
    Published(u64, Created),
    /// A step ended; `false`: without success.
    Done(u64, bool),
    /// Another node requests to lower a hold.
    Recalled {
        /// Inode number of the stub.
        key: u64,
        /// Number of the hold.
        number: u64,
        /// Mode that may remain.
        mode: Mode,
    },
    /// Nodes that are not over.
    Members(BTreeSet<Node>),
    /// The lease of another node is over for ever.
    Over(Node),
    /// Time passed; to be sent at [`Machine::next_deadline`].
    Tick,
}

impl Event {
    /// The file that the event concerns; `None`: all.
    pub fn key(&self) -> Option<u64> {
        match self {
            Event::Opened(key) | Event::Closed(key) | Event::Want(key, _) => Some(*key),
            Event::Made(key, _) => Some(*key),
            Event::Found(key, _) | Event::Published(key, _) | Event::Done(key, _) | Event::Gone(key) => Some(*key),
            Event::Recalled { key, .. } => Some(*key),
            Event::Answered(key, _) => *key,
            Event::Unanswered | Event::Connected(_) | Event::Members(_) | Event::Over(_) | Event::Tick => None,
        }
    }
}

/// One node's holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    config: Config,
    node: Node,
    /// Last number of a hold or claim.
    last: u64,
    session: Session,
    files: BTreeMap<u64, File>,
    deadlines: Deadlines,
    ahead: Ahead,
    actions: VecDeque<Action>,
}

impl Holder {
    /// A node that has joined under this number and holds nothing.
    pub fn new(config: Config, node: Node) -> Holder {
        let mut holders = Holder {
            config,
            node,
            last: 0,
            session: Session::default(),
            files: BTreeMap::new(),
            deadlines: Deadlines::default(),
            ahead: Ahead::default(),
            actions: VecDeque::new(),
        };
        holders.actions.push_back(Action::Connect);
        holders
    }

    /// Permission for an operation. The step `Drain` waits for all operations that have one. `None`: send
    /// [`Event::Want`], and try again after [`Action::Ready`].
    pub fn begin(&mut self, now: Time, key: u64, usage: Use) -> Option<Permit> {
        self.expire(now);
        let file = self.files.get_mut(&key)?;
        let permit = file.permit(usage)?;
        file.first_use = FirstUse::Over;
        Some(permit)
    }

    /// Whether an operation may be acknowledged; `standing` is that of the lease after the operation.
    pub fn finish(&mut self, now: Time, key: u64, permit: &Permit, standing: Standing) -> Written {
        self.expire(now);
        let valid = self.files.get(&key).is_some_and(|file| file.is_valid(permit));
        written(standing, !valid)
    }

    /// Sender of requests over the present connection.
    pub fn caller(&self) -> Caller {
        self.session.caller(self.node)
    }

    /// Part of this node in a file.
    pub fn hold(&self, key: u64) -> Option<Hold> {
        self.files.get(&key)?.hold
    }

    /// Whether a file is empty and has no attributes, known from its creation. True once, before the first use.
    pub fn take_new(&mut self, key: u64) -> bool {
        self.files.get_mut(&key).is_some_and(File::take_new)
    }

    /// Files with a hold and without a task, which a node that ends may release at once.
    pub fn releasable(&self) -> Vec<u64> {
        self.files.iter().filter(|(_, file)| file.is_releasable()).map(|(key, _)| *key).collect()
    }

    /// Whether a step or request of the file is under way, or will be repeated.
    pub fn is_busy(&self, key: u64) -> bool {
        self.files.get(&key).is_some_and(File::is_busy)
    }

    /// Lowers the modes that cache once no renewal has confirmed them for a while.
    fn expire(&mut self, now: Time) {
        if self.session.ends_caching(&self.config, now) {
            self.stop_caching();
        }
    }

    fn stop_caching(&mut self) {
        for (key, file) in &mut self.files {
            file.stop_caching();
            self.deadlines.set(*key, file.deadline(&self.config));
        }
    }

    /// A number that no hold or claim of the file has had. A request that was surely refused leaves it free.
    fn number(&self) -> u64 {
        self.last + 1
    }

    fn ready(&mut self, key: u64, usage: Use) {
        self.actions.push_back(Action::Ready { key, usage });
    }

    fn file(&mut self, key: u64) -> &mut File {
        self.files.entry(key).or_default()
    }

    /// Requests other nodes to lower their holds.
    fn recall(&mut self, key: u64, nodes: BTreeMap<Node, u64>, mode: Mode) {
        for (node, number) in nodes {
            self.actions.push_back(Action::Recall { node, key, number, mode });
        }
    }
}

impl Machine for Holder {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.expire(now);
        let (key, reach) = (event.key(), self.session.reach(&self.config, now));
        let mut ahead = Vec::new();
        match event {
            Event::Opened(key) => self.file(key).opened(),
            Event::Made(key, at) => {
                let until = at + self.config.new;
                self.file(key).made(until);
            }
            Event::Closed(key) => self.file(key).closed(now),
            Event::Want(key, usage) => self.file(key).want(usage),
            Event::Gone(key) => self.file(key).gone(),
            Event::Recalled { key, number, mode } => {
                ahead = self.release_ahead(key);
                self.file(key).recalled(number, mode);
            }
            Event::Answered(Some(key), answer) => self.answered(now, key, answer),
            Event::Found(key, found) => self.found(now, key, found),
            Event::Published(key, created) => self.published(now, key, created),
            Event::Done(key, done) => self.done(now, key, done),
            Event::Answered(None, answer) => self.session_answered(now, answer),
            Event::Unanswered => self.disconnected(),
            Event::Connected(run) => self.connected(run),
            Event::Members(members) => self.members(members),
            Event::Over(node) => self.over(node),
            Event::Tick => {}
        }
        self.session_goes_on(now);
        // Without a session a file waits; its begin concerns all files.
        let keys = match key {
            Some(key) => [vec![key], ahead].concat(),
            None if self.session.reach(&self.config, now) == reach => self.deadlines.due(now),
            None => self.files.keys().copied().collect(),
        };
        for key in keys {
            self.files.entry(key).and_modify(|file| file.tick(&self.config, now));
            self.file_goes_on(now, key);
            if self.files.get(&key).is_some_and(File::is_idle) {
                self.files.remove(&key);
            }
            self.deadlines.set(key, self.files.get(&key).and_then(|file| file.deadline(&self.config)));
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().into_iter().chain(self.session.deadline(&self.config)).min()
    }
}

#[cfg(test)]
impl Holder {
    fn open(&mut self, key: u64) {
        self.file(key).opened();
    }

    /// Generation that the operations on a file use.
    fn generation(&self, key: u64) -> Option<u64> {
        self.files.get(&key)?.layout
    }

    /// Whether the last renewal found a session of every member.
    fn is_confirmed(&self) -> bool {
        self.session.is_confirmed()
    }

    fn run(&self) -> Run {
        self.session.caller(self.node).run
    }

    /// Sets each time that no decision of an exploration depends on to the first point of the clock.
    fn forget_times(&mut self, first: Time) {
        self.session.forget_times(first, first + self.config.renew_every);
        self.files.values_mut().for_each(|file| file.forget_times(first));
        self.set_deadlines();
    }

    fn set_deadlines(&mut self) {
        for (key, file) in &self.files {
            self.deadlines.set(*key, file.deadline(&self.config));
        }
    }

    /// The time of a repetition has come.
    fn repeat_now(&mut self) {
        self.session.repeat_now();
        self.files.values_mut().for_each(|file| file.repeat_now());
        self.set_deadlines();
    }

    fn renew_now(&mut self) {
        self.session.renew_now();
    }

    fn holds_nothing(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a file waits for the time of a repetition.
    fn waits(&self) -> bool {
        self.files.values().any(File::waits) || self.session.waits()
    }
}
