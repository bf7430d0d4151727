//! A node renews its lease by renaming its lease file, and expels a node whose file was not renewed in time.
//!
//! ```text
//!   new.ID ----- N is born: rename ---> N.0
//!   N.B -------- N renews: rename ----> N.(B+1)   N holds its lease until `asked` + lease, on its own clock
//!    |
//!    '---------- a watcher: rename ---> N.over    N is over for ever, and every node can see it
//!
//!   own lease      held --(time)--> lapsed --(a late renewal succeeds)--> held
//!                   |  Gone: no such file          |
//!                   v                              v
//!                 unsure --(a listing: N.over)-------------> lost     (it joins again, under a new number)
//!                   '------(a listing: N.(B+1), the answer was lost)--> held
//! ```
//! Every rename names one exact beat, so only one of them finds the file. A node that renewed is not expelled, and an
//! expelled node cannot renew. A watcher waits for the node's lease, plus the drift of clocks, from its first sight of
//! that beat. The renewal was requested before, so the lease has ended on the node's own clock, too.
//!
//! **A node is over only when its `N.over` was seen.** A listing during a rename may have both names or neither. So a
//! missing lease file proves nothing.
//!
//! The leader is the lowest node that is not over and does not *drain*; it leads while it holds its lease. Numbers have
//! no gaps, so a node leads only after it has seen *every* lower number over or draining. A name missing from a listing
//! only delays a takeover. A number is marked as draining before its birth, and never changes. To drain, a node gives
//! its number up and joins again under a draining one. A claimed number without a lease file is ended by a rename of
//! its birth file.
//!
//! If every node listed the lease files every second, the load on the file system would grow with the square of their
//! number. So only the lowest nodes, which lead next, list at that rate; the higher a node's rank, the rarer. A node
//! that waits for another also lists at the high rate, for a while ([`Event::Asked`]).
//!
//! Joining, by the driver: create `new.ID` (ID is random). Take the number after the highest one seen by an exclusive
//! symlink `N -> new.ID` (the next one if that exists). Rename `new.ID` to `N.0`. If that file is gone, the number was
//! ended before its birth: join again.
//!
//! Duties of the driver: its clock runs on while the machine sleeps (`CLOCK_BOOTTIME`). It answers each `Renew` with
//! `Renewed`, `Gone` or `RenewFailed`, each `Look` with `Seen` or `LookFailed`, each `Expel` with `Expelled`,
//! `Survived` or `ExpelFailed`. A listing begins after its `Look`. All writes have ended before it sends `Leave`. It
//! never removes the symlinks or the files `N.over`.
//!
//! Source: C. Gray and D. Cheriton, Leases (SOSP 1989), with a rename in the place of a lock server.

mod config;
mod event;
mod own;

pub use config::Config;
pub use event::{Action, Event, Seen};

use super::{Node, Standing};
use crate::machine::Machine;
use crate::time::Time;
use own::OwnLease;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Last known state of another node's lease.
#[derive(Debug)]
struct Watch {
    beat: u64,
    lease: Time,
    drains: bool,
    /// Time at which this node first saw the beat.
    since: Time,
    expelling: bool,
}

/// One node's view of the cluster.
#[derive(Debug)]
pub struct Membership {
    config: Config,
    node: Node,
    drains: bool,
    own: OwnLease,
    beat: u64,
    /// Time of the last successful renewal's request; the lease ends [`Config::lease`] later.
    asked: Time,
    started: Time,
    renew_at: Time,
    renewing: bool,
    /// Time of the first rename request from the present beat.
    first_asked: Option<Time>,
    look_at: Time,
    /// Time of the request of the outstanding listing.
    looking: Option<Time>,
    /// Time of the latest listing's request, answered or not.
    look_asked: Time,
    looked: bool,
    /// Time of the latest answered listing's request.
    known_at: Option<Time>,
    /// Time of the last [`Event::Asked`].
    wanted_at: Option<Time>,
    others: BTreeMap<Node, Watch>,
    /// Lower numbers never seen, and whether each is being expelled.
    unseen: BTreeMap<Node, bool>,
    over: BTreeSet<Node>,
    /// Leader announced last; `None`: no announcement so far.
    said: Option<Option<Node>>,
    actions: VecDeque<Action>,
}

impl Membership {
    /// Joins as `node`, whose file `N.0` exists; its rename was requested at `asked`.
    pub fn new(config: Config, now: Time, node: Node, asked: Time) -> Membership {
        let mut new = Membership {
            node,
            drains: false,
            own: OwnLease::Held,
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
            config,
        };
        new.go_on(now);
        new
    }

    /// Marks this node as draining: it must not lead.
    #[must_use]
    pub fn draining(mut self) -> Membership {
        self.drains = true;
        self
    }

    /// Own node number.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Whether the node may acknowledge and publish now.
    pub fn holds(&self, now: Time) -> bool {
        now < self.held_until()
    }

    /// End of the lease; zero if it is lost or in doubt.
    pub fn held_until(&self) -> Time {
        if self.own == OwnLease::Held { self.asked + self.config.lease } else { Time::ZERO }
    }

    /// State of the node's own lease now.
    pub fn standing(&self, now: Time) -> Standing {
        match self.own {
            OwnLease::Held if self.holds(now) => Standing::Held,
            OwnLease::Held | OwnLease::Unsure(_) => Standing::Lapsed,
            OwnLease::Leaving | OwnLease::Lost => Standing::Lost,
        }
    }

    /// Whether the node leads now.
    pub fn leads(&self, now: Time) -> bool {
        self.leader() == Some(self.node) && self.holds(now)
    }

    /// Lowest node that neither is over nor drains, once every lower number was seen. It leads while it holds its
    /// lease.
    pub fn leader(&self) -> Option<Node> {
        // Runs after each event: only the lowest of the others is examined.
        let own = (self.own != OwnLease::Lost && !self.drains).then_some(self.node);
        let other = self.others.iter().find(|(_, watch)| !watch.drains).map(|(node, _)| *node);
        let lowest = own.into_iter().chain(other).min().filter(|_| self.looked);
        lowest.filter(|lowest| self.unseen.keys().next().is_none_or(|unseen| unseen > lowest))
    }

    /// Known members: this node, and all nodes seen that are not over.
    pub fn members(&self) -> BTreeSet<Node> {
        let own = (self.own != OwnLease::Lost).then_some(self.node);
        self.others.keys().copied().chain(own).collect()
    }

    /// Whether a node is known to be over. False for a node never seen: it may have just joined.
    pub fn is_over(&self, node: Node) -> bool {
        self.over.contains(&node)
    }

    /// Newest node known to be over.
    pub fn last_over(&self) -> Option<Node> {
        self.over.last().copied()
    }

    /// Request time of the listing behind the present state; `None` before the first.
    pub fn known_at(&self) -> Option<Time> {
        self.known_at
    }

    fn seen(&mut self, now: Time, leases: &[Seen], over: &[Node]) {
        let Some(asked) = self.looking.take() else { return };
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
        // The listing revealed this node's rank, or changed it.
        let due = self.look_asked + self.look_every(now);
        self.look_at = if is_first { due } else { self.look_at.min(due) };
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
        // The node may have crashed before its birth. If it was born, the rename finds no file.
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

    /// Keeps a node that was not expelled. Lists again soon, and expels it only if its beat still stands still.
    fn stays(&mut self, now: Time, node: Node) {
        self.not_expelled(node);
        if let Some(watch) = self.others.get_mut(&node) {
            watch.since = now;
            self.look_at = self.look_at.min(now);
        }
    }

    /// Allows another expulsion after the next listing.
    fn not_expelled(&mut self, node: Node) {
        if let Some(watch) = self.others.get_mut(&node) {
            watch.expelling = false;
        }
        if let Some(expelling) = self.unseen.get_mut(&node) {
            *expelling = false;
        }
    }

    /// Sends due requests, and announces a change of the leader.
    fn go_on(&mut self, now: Time) {
        if self.own == OwnLease::Lost {
            return self.say(now);
        }
        if self.own == OwnLease::Held && !self.renewing && now >= self.renew_at {
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

    /// Interval of listings: short while a caller waits or the own state is in doubt, otherwise by rank.
    fn look_every(&self, now: Time) -> Time {
        let is_asked = self.wanted_at.is_some_and(|at| now.since(at) <= self.config.patience(self.config.lease));
        if is_asked || !self.looked || self.own != OwnLease::Held || !self.unseen.is_empty() {
            return self.config.look_every;
        }
        self.config.look_every_at(self.others.range(..self.node).count())
    }

    fn asked(&mut self, now: Time) {
        self.wanted_at = Some(now);
        self.look_at = self.look_at.min(now.max(self.look_asked + self.config.look_every));
    }

    /// Time of the next listing; earlier, at a high rate, when a node's beat will have stood still for too long.
    fn look_due(&self) -> Time {
        if self.look_at > self.look_asked + self.config.look_every {
            return self.look_at;
        }
        let ends = |watch: &Watch| watch.since + self.config.patience(watch.lease);
        let waits = self.others.values().filter(|watch| !watch.expelling).map(ends);
        waits.filter(|end| *end > self.look_asked).min().map_or(self.look_at, |end| end.min(self.look_at))
    }

    fn say(&mut self, now: Time) {
        if !self.looked && self.own != OwnLease::Lost {
            return;
        }
        let leader = if self.leads(now) {
            Some(self.node)
        } else {
            self.leader().filter(|leader| *leader != self.node && self.own != OwnLease::Lost)
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
        if self.own == OwnLease::Lost {
            return;
        }
        match event {
            Event::Renewed { beat, asked } => self.renewed(beat, asked),
            Event::Gone => self.gone(now),
            Event::RenewFailed => self.renew_later(now),
            Event::Seen { leases, over } => self.seen(now, &leases, &over),
            Event::LookFailed => self.looking = None,
            Event::Expelled { node } => self.is_gone(node),
            Event::Survived { node } | Event::ExpelFailed { node } if node == self.node => self.lose(),
            Event::Survived { node } => self.stays(now, node),
            Event::ExpelFailed { node } => self.not_expelled(node),
            Event::Leave if self.own != OwnLease::Leaving => self.leave(),
            Event::Asked => self.asked(now),
            Event::Leave | Event::Tick => {}
        }
        self.go_on(now);
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.own == OwnLease::Lost {
            return None;
        }
        let renew = (self.own == OwnLease::Held && !self.renewing).then_some(self.renew_at);
        let look = self.looking.is_none().then(|| self.look_due());
        let leading = self.said == Some(Some(self.node));
        let lapse = leading.then(|| self.held_until());
        [renew, look, lapse].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
