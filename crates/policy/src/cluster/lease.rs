//! A node renews its lease by renaming its lease file, and expels a node whose file has stood still for too long.
//!
//! ```text
//!   new.ID ----- N is born: rename ---> N.0
//!   N.B -------- N renews: rename ----> N.(B+1)   N holds its lease until `asked` + lease, on its own clock
//!    |
//!    '---------- a watcher: rename ---> N.over    N is over for ever, and everybody can see it
//!
//!   own lease      held --(time)--> lapsed --(a renewal succeeds after all)--> held
//!                   |  Gone: no such file          |
//!                   v                              v
//!                 unsure --(a look: N.over)-------------> lost     (it joins again, under a new number)
//!                   '------(a look: N.(B+1), the answer was lost)--> held
//! ```
//! All renames are of one exact name, so only one of them finds it: a node that renewed is not expelled, and one that
//! was expelled can't renew. A watcher waits for the node's lease, and the drift of clocks, from when it first saw that
//! beat. That is after the renewal was asked for, so the lease has ended on the node's own clock.
//!
//! **A node is over only when its `N.over` was seen.** A directory that is listed while a file in it is renamed may
//! show both names or neither, so a missing lease file says nothing.
//!
//! The leader is the lowest node that is not over and does not *drain*; it leads while it holds its lease. Numbers leave
//! none out, so a node leads only when it has seen *every* lower number over or draining: what a listing misses delays a
//! takeover, and no more. Whether a number drains is written before it is born and never changes: a node that is to
//! drain gives its number up and joins again under one that does. A
//! number that was claimed and shows no lease file is ended like any other, by a rename of the file that it was to
//! begin with.
//!
//! Were each node to list the others' files every second, the file system's work would grow with the square of their
//! number. So only the lowest look that often, from among whom the next leader comes; the higher a node's rank, the
//! rarer. A node that waits for another looks often, too, for as long ([`Event::Asked`]).
//!
//! How a node joins, by the driver: it creates `new.ID` (ID is random), takes the number after the highest that it sees
//! by an exclusive symlink `N -> new.ID` (the next one if that is there), and renames `new.ID` to `N.0`. If that file
//! is gone, the number was ended before it was born: it joins anew.
//!
//! Duties of the driver: its clock counts on while the machine sleeps (`CLOCK_BOOTTIME`). It answers each `Renew` with
//! `Renewed`, `Gone` or `RenewFailed`, each `Look` with `Seen` or `LookFailed`, each `Expel` with `Expelled`,
//! `Survived` or `ExpelFailed`; a listing begins after its `Look`. Writes have ended before it says `Leave`. The
//! symlinks and the files `N.over` stay.
//!
//! Source: C. Gray and D. Cheriton, Leases (SOSP 1989), with a rename in the place of a lock server.

mod config;

pub use config::Config;

use super::{Node, Standing};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A lease file in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whose it is.
    pub node: Node,
    /// How often it was renewed.
    pub beat: u64,
    /// How long that node's lease lasts, as its file says.
    pub lease: Time,
    /// It is not to lead, as its file says.
    pub drains: bool,
}

/// Events of [`Membership`]: answers to its actions, and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lease file has its new name.
    Renewed {
        /// The beat in the new name.
        beat: u64,
        /// The moment before the rename was asked for.
        asked: Time,
    },
    /// There was no file of the old name: expelled, or an earlier rename had succeeded without an answer.
    Gone,
    /// The rename could not be tried, or nobody knows whether it happened.
    RenewFailed,
    /// A listing of the lease files.
    Seen {
        /// Lease files, in any order; a node may be missing or there twice.
        leases: Vec<Seen>,
        /// The nodes that are over, whose files are never renamed again.
        over: Vec<Node>,
    },
    /// The files could not be listed.
    LookFailed,
    /// The node's lease file was renamed to that of a node that is over.
    Expelled {
        /// The node that is over.
        node: Node,
    },
    /// The file had another name already.
    Survived {
        /// A node that renewed its lease, or that another watcher expelled.
        node: Node,
    },
    /// The rename could not be tried, or nobody knows whether it happened.
    ExpelFailed {
        /// The node that was to be expelled.
        node: Node,
    },
    /// The node ends: it gives its lease up at once, so that nobody waits for it.
    Leave,
    /// Somebody waits for another node, or asks what is known of them: for a while it looks as often as the lowest do.
    Asked,
    /// Time passed; to be sent at [`Membership::next_deadline`].
    Tick,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Rename the own lease file from this beat to the next.
    Renew {
        /// The beat in the present name.
        beat: u64,
    },
    /// List the lease files.
    Look,
    /// Rename exactly this lease file to that of a node that is over.
    Expel {
        /// The node to expel; this node itself when it leaves.
        node: Node,
        /// The beat that the file has; `None` if it was never seen to have one: the file that its number points to.
        beat: Option<u64>,
        /// So long its beat has stood still.
        silent: Time,
    },
    /// This node leads from now on.
    Lead,
    /// This node does not lead.
    Follow {
        /// The node that does, as far as is known.
        leader: Option<Node>,
    },
    /// This node's number is over; join again under a new one.
    Lost,
    /// A node is there that was not.
    Came {
        /// The new member.
        node: Node,
    },
    /// A node is over.
    Left {
        /// It was a member.
        node: Node,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Renewals that succeeded.
    pub renewals: u64,
    /// Renewals that could not be tried, or whose outcome nobody knew.
    pub renewals_failed: u64,
    /// Listings of the lease files.
    pub looks: u64,
    /// Nodes that this node expelled.
    pub expelled: u64,
    /// Nodes that were to be expelled and had renewed, or were expelled by another.
    pub survived: u64,
}

/// What is known about another node's lease.
#[derive(Debug)]
struct Watch {
    beat: u64,
    lease: Time,
    drains: bool,
    /// When this beat was first seen here.
    since: Time,
    expelling: bool,
}

/// The own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// It is renewed in time, or late.
    Held,
    /// Its file was not found under the name it had, as of this time.
    Unsure(Time),
    /// This node gives it up.
    Leaving,
    /// This number is over.
    Lost,
}

/// One node's view of the cluster.
#[derive(Debug)]
pub struct Membership {
    config: Config,
    node: Node,
    drains: bool,
    own: Own,
    beat: u64,
    /// The lease ends so long after this.
    asked: Time,
    started: Time,
    renew_at: Time,
    renewing: bool,
    /// When the first rename from the present beat was asked for.
    first_asked: Option<Time>,
    look_at: Time,
    /// When the listing was asked for that is not answered yet.
    looking: Option<Time>,
    /// When the latest listing was asked for.
    look_asked: Time,
    looked: bool,
    /// When the latest listing was asked for that was answered.
    known_at: Option<Time>,
    /// When somebody asked last.
    wanted_at: Option<Time>,
    others: BTreeMap<Node, Watch>,
    /// Lower numbers that were not seen yet, and whether they are being expelled.
    unseen: BTreeMap<Node, bool>,
    over: BTreeSet<Node>,
    /// What was said last about the leader; before that, nothing was.
    said: Option<Option<Node>>,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Membership {
    /// The node's file `N.0` is there, and was asked for at `asked`.
    pub fn new(config: Config, now: Time, node: Node, asked: Time) -> Membership {
        let mut new = Membership {
            node,
            drains: false,
            own: Own::Held,
            beat: 0,
            asked,
            started: now,
            renew_at: asked + config.renew_every,
            renewing: false,
            first_asked: None,
            look_at: now,
            looking: None,
            look_asked: Time::ZERO,
            looked: false,
            known_at: None,
            wanted_at: None,
            others: BTreeMap::new(),
            unseen: (1..node.0).map(|number| (Node(number), false)).collect(),
            over: BTreeSet::new(),
            said: None,
            actions: VecDeque::new(),
            stats: Stats::default(),
            config,
        };
        new.go_on(now);
        new
    }

    /// The node's file says that it is not to lead.
    #[must_use]
    pub fn draining(mut self) -> Membership {
        self.drains = true;
        self
    }

    /// This node.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Whether the node may acknowledge and publish now.
    pub fn holds(&self, now: Time) -> bool {
        now < self.held_until()
    }

    /// The end of the lease as it is now; long ago if it is lost or in doubt.
    pub fn held_until(&self) -> Time {
        if self.own == Own::Held { self.asked + self.config.lease } else { Time::ZERO }
    }

    /// How the node stands with its lease now.
    pub fn standing(&self, now: Time) -> Standing {
        match self.own {
            Own::Held if self.holds(now) => Standing::Held,
            Own::Held | Own::Unsure(_) => Standing::Lapsed,
            Own::Leaving | Own::Lost => Standing::Lost,
        }
    }

    /// Whether the node leads now.
    pub fn leads(&self, now: Time) -> bool {
        self.leader() == Some(self.node) && self.holds(now)
    }

    /// The node that leads if it holds its lease: the lowest that is not over and does not drain, once that was seen.
    pub fn leader(&self) -> Option<Node> {
        // Asked after each event: of the others only the lowest are looked at.
        let own = (self.own != Own::Lost && !self.drains).then_some(self.node);
        let other = self.others.iter().find(|(_, watch)| !watch.drains).map(|(node, _)| *node);
        let lowest = own.into_iter().chain(other).min().filter(|_| self.looked);
        lowest.filter(|lowest| self.unseen.keys().next().is_none_or(|unseen| unseen > lowest))
    }

    /// The nodes that are there: this one, and those that were seen and are not over.
    pub fn members(&self) -> BTreeSet<Node> {
        let own = (self.own != Own::Lost).then_some(self.node);
        self.others.keys().copied().chain(own).collect()
    }

    /// Whether a node is over for ever, as far as is known. One that was never seen is not: it may have just come.
    pub fn is_over(&self, node: Node) -> bool {
        self.over.contains(&node)
    }

    /// When the listing was asked for that all this is known by; `None` before the first.
    pub fn known_at(&self) -> Option<Time> {
        self.known_at
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        assert!(!self.others.contains_key(&self.node), "a node does not watch itself");
        assert!(self.others.keys().all(|node| !self.over.contains(node)), "what is over is watched no more");
        let known = |node: &Node| self.others.contains_key(node) || self.over.contains(node);
        assert!(!self.unseen.keys().any(known), "what was seen is not unseen");
        assert!(self.own != Own::Lost || self.held_until() == Time::ZERO, "a number that is over holds nothing");
        assert!(!self.renewing || self.first_asked.is_some(), "a renewal was asked for at some time");
    }

    fn renewed(&mut self, beat: u64, asked: Time) {
        if beat != self.beat + 1 {
            return;
        }
        self.stats.renewals += 1;
        (self.beat, self.asked, self.renewing, self.first_asked) = (beat, self.asked.max(asked), false, None);
        self.renew_at = self.asked + self.config.renew_every;
        match self.own {
            Own::Unsure(_) => self.own = Own::Held,
            Own::Leaving => self.leave(),
            Own::Held | Own::Lost => {}
        }
    }

    fn renew_later(&mut self, now: Time) {
        let answered = std::mem::take(&mut self.renewing);
        self.renew_at = now + Time(self.config.renew_every.0 / 8);
        if answered && self.own == Own::Leaving {
            self.leave();
        }
    }

    fn gone(&mut self, now: Time) {
        if self.renewing && self.own == Own::Held {
            self.own = Own::Unsure(now);
            self.look_at = now;
        }
        self.renew_later(now);
    }

    /// Gives the lease up: from here on it holds nothing, and once no renewal is under way the file goes, too.
    fn leave(&mut self) {
        self.own = Own::Leaving;
        if !self.renewing {
            let (node, beat) = (self.node, Some(self.beat));
            self.actions.push_back(Action::Expel { node, beat, silent: Time::ZERO });
        }
    }

    fn lose(&mut self) {
        if self.own != Own::Lost {
            self.own = Own::Lost;
            self.actions.push_back(Action::Lost);
        }
    }

    fn seen(&mut self, now: Time, leases: &[Seen], over: &[Node]) {
        let Some(asked) = self.looking.take() else { return };
        self.stats.looks += 1;
        let is_first = self.known_at.is_none();
        (self.looked, self.known_at) = (true, Some(asked));
        over.iter().for_each(|node| self.is_gone(*node));
        self.resolve(now, asked, leases);
        for seen in leases {
            if seen.node != self.node && !self.over.contains(&seen.node) {
                self.watch(now, seen);
            }
        }
        self.expel(now);
        // Its rank is known now, or may be another.
        let due = self.look_asked + self.look_every(now);
        self.look_at = if is_first { due } else { self.look_at.min(due) };
    }

    /// The own file was not found: only a listing that was asked for since then tells whether it has the next beat.
    fn resolve(&mut self, now: Time, asked: Time, leases: &[Seen]) {
        let Own::Unsure(since) = self.own else { return };
        if asked < since {
            return;
        }
        let own = leases.iter().filter(|seen| seen.node == self.node).map(|seen| seen.beat).max();
        match own {
            Some(beat) if beat == self.beat + 1 => self.renewed(beat, self.first_asked.unwrap_or(self.asked)),
            _ if now >= since + self.config.patience(self.config.lease) => self.lose(),
            _ => {}
        }
    }

    fn watch(&mut self, now: Time, seen: &Seen) {
        self.unseen.remove(&seen.node);
        let fresh = || Watch { beat: seen.beat, lease: seen.lease, drains: seen.drains, since: now, expelling: false };
        match self.others.get_mut(&seen.node) {
            None => {
                self.others.insert(seen.node, fresh());
                self.actions.push_back(Action::Came { node: seen.node });
            }
            Some(watch) if seen.beat > watch.beat => {
                *watch = Watch { expelling: watch.expelling, ..fresh() };
            }
            Some(_) => {}
        }
    }

    fn expel(&mut self, now: Time) {
        let config = &self.config;
        for (node, watch) in &mut self.others {
            let silent = now.since(watch.since);
            if !watch.expelling && silent >= config.patience(watch.lease) {
                watch.expelling = true;
                self.actions.push_back(Action::Expel { node: *node, beat: Some(watch.beat), silent });
            }
        }
        // It may have crashed before it was born. If it was, the rename finds nothing.
        let silent = now.since(self.started);
        if silent < config.patience(config.lease) {
            return;
        }
        for (node, expelling) in &mut self.unseen {
            if !std::mem::replace(expelling, true) {
                self.actions.push_back(Action::Expel { node: *node, beat: None, silent });
            }
        }
    }

    fn is_gone(&mut self, node: Node) {
        if !self.over.insert(node) {
            return;
        }
        self.unseen.remove(&node);
        if node == self.node {
            self.lose();
        } else if self.others.remove(&node).is_some() {
            self.actions.push_back(Action::Left { node });
        }
    }

    /// One that was seen is looked at again soon, and expelled only after its beat has stood still for as long once
    /// more.
    fn stays(&mut self, now: Time, node: Node) {
        self.not_expelled(node);
        if let Some(watch) = self.others.get_mut(&node) {
            watch.since = now;
            self.look_at = self.look_at.min(now);
        }
    }

    /// It is tried again after the next look.
    fn not_expelled(&mut self, node: Node) {
        if let Some(watch) = self.others.get_mut(&node) {
            watch.expelling = false;
        }
        if let Some(expelling) = self.unseen.get_mut(&node) {
            *expelling = false;
        }
    }

    /// Asks for what is due, and says who leads if that changed.
    fn go_on(&mut self, now: Time) {
        if self.own == Own::Lost {
            return self.say(now);
        }
        if self.own == Own::Held && !self.renewing && now >= self.renew_at {
            self.renewing = true;
            self.first_asked.get_or_insert(now);
            self.actions.push_back(Action::Renew { beat: self.beat });
        }
        if self.looking.is_none() && now >= self.look_due() {
            (self.looking, self.look_asked) = (Some(now), now);
            self.look_at = now + self.look_every(now);
            self.actions.push_back(Action::Look);
        }
        self.say(now);
    }

    /// Often while it matters to somebody here, else by its rank.
    fn look_every(&self, now: Time) -> Time {
        let is_asked = self.wanted_at.is_some_and(|at| now.since(at) <= self.config.patience(self.config.lease));
        if is_asked || !self.looked || self.own != Own::Held || !self.unseen.is_empty() {
            return self.config.look_every;
        }
        self.config.look_every_at(self.others.range(..self.node).count())
    }

    fn asked(&mut self, now: Time) {
        self.wanted_at = Some(now);
        self.look_at = self.look_at.min(now.max(self.look_asked + self.config.look_every));
    }

    /// The next look, or earlier, for one that looks often, the moment when a beat has stood still for too long.
    fn look_due(&self) -> Time {
        if self.look_at > self.look_asked + self.config.look_every {
            return self.look_at;
        }
        let ends = |watch: &Watch| watch.since + self.config.patience(watch.lease);
        let waits = self.others.values().filter(|watch| !watch.expelling).map(ends);
        waits.filter(|end| *end > self.look_asked).min().map_or(self.look_at, |end| end.min(self.look_at))
    }

    fn say(&mut self, now: Time) {
        if !self.looked && self.own != Own::Lost {
            return;
        }
        let leader = if self.leads(now) {
            Some(self.node)
        } else {
            self.leader().filter(|leader| *leader != self.node && self.own != Own::Lost)
        };
        if self.said == Some(leader) {
            return;
        }
        self.said = Some(leader);
        let leads = leader == Some(self.node);
        self.actions.push_back(if leads { Action::Lead } else { Action::Follow { leader } });
    }
}

impl Machine for Membership {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        if self.own == Own::Lost {
            return;
        }
        match event {
            Event::Renewed { beat, asked } => self.renewed(beat, asked),
            Event::Gone => self.gone(now),
            Event::RenewFailed => {
                self.stats.renewals_failed += 1;
                self.renew_later(now);
            }
            Event::Seen { leases, over } => self.seen(now, &leases, &over),
            Event::LookFailed => self.looking = None,
            Event::Expelled { node } => {
                self.stats.expelled += u64::from(node != self.node);
                self.is_gone(node);
            }
            Event::Survived { node } | Event::ExpelFailed { node } if node == self.node => self.lose(),
            Event::Survived { node } => {
                self.stats.survived += 1;
                self.stays(now, node);
            }
            Event::ExpelFailed { node } => self.not_expelled(node),
            Event::Leave if self.own != Own::Leaving => self.leave(),
            Event::Asked => self.asked(now),
            Event::Leave | Event::Tick => {}
        }
        self.go_on(now);
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.own == Own::Lost {
            return None;
        }
        let renew = (self.own == Own::Held && !self.renewing).then_some(self.renew_at);
        let look = self.looking.is_none().then(|| self.look_due());
        let leading = self.said == Some(Some(self.node));
        let lapse = leading.then(|| self.held_until());
        [renew, look, lapse].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
