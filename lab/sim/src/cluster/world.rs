//! The world: hosts that come and go, their leases and holds, the servers, and the counters.

mod counts;
mod daemons;

use super::demand::Demand;
use super::directory::{Directory, Name};
use super::files::{Files, Part, TaskId};
use super::holds::{self, Holds};
use super::queue::Queue;
use super::{Figures, Setup};
use crate::event::{EventQueue, Rank};
use crate::generate::Rng;
use counts::Counts;
use policy::Time;
use policy::cluster::Node;
use policy::cluster::idle;
use policy::cluster::lease::{Config, Event, Membership};
use policy::holders::node::{Action, Use};
use policy::holders::table::Table;
use std::collections::BTreeMap;

/// Maximum wait for a new leader.
const TAKEOVER_MAX: Time = Time::from_secs(120);

/// Number of a host, from 0 on.
pub(super) type HostId = usize;

#[derive(Clone, Debug)]
pub(super) enum Happens {
    Renamed {
        host: HostId,
        node: Node,
        beat: u64,
        asked: Time,
    },
    Listed {
        host: HostId,
        node: Node,
    },
    Expel {
        host: HostId,
        node: Node,
        whom: Node,
        beat: Option<u64>,
    },
    Tick(HostId),
    Joined(HostId, Node),
    Comes(HostId),
    Fails,
    Opens(HostId),
    Writes(HostId),
    Moves,
    Sends(HostId),
    Task(TaskId, Part),
    /// A deferred size is due.
    Size(HostId, u64),
    /// A call of the store, a step of a file, or a listing for holds has ended.
    Acted {
        host: HostId,
        node: Node,
        action: Action,
    },
    HoldsTick(HostId),
    /// An operator orders a change of a target.
    Orders,
    /// All nodes have received it.
    Ordered {
        asked: Time,
    },
    /// A node that queries idle targets for others reports the results.
    Tells {
        lower: usize,
    },
}

pub(super) struct Host {
    pub machine: Option<Membership>,
    /// Deadline of its state machine.
    tick_at: Option<Time>,
    /// End of its lease, by its latest renewal.
    until: Time,
    /// Whether the host had a number before.
    pub joined: bool,
    pub holds: Option<Holds>,
    /// Lease configuration of its current number.
    lease: Config,
}

pub(super) struct World {
    pub setup: Setup,
    pub queue: EventQueue<Happens>,
    pub rng: Rng,
    pub hosts: Vec<Host>,
    pub files: Files,
    /// Table of holders in the store.
    pub table: Table,
    /// Host that has or had a number.
    pub host_of: BTreeMap<Node, HostId>,
    pub directory: Directory,
    servers: Vec<Queue>,
    pub store: Queue,
    leader: Queue,
    leads: Option<HostId>,
    pub counts: Counts,
}

/// Runs the simulation: the warm-up, the span, then the failure of the leader.
pub fn run(setup: &Setup) -> Figures {
    let mut world = World::new(setup.clone());
    world.start();
    world.until(setup.warm_up);
    world.count_anew();
    world.until(setup.warm_up + setup.span);
    let mut figures = world.figures(setup.span);
    figures.takeover_s = world.takeover().map(Time::as_secs_f64);
    figures
}

impl World {
    pub fn new(setup: Setup) -> World {
        World {
            queue: EventQueue::new(),
            rng: Rng::new(setup.seed, 0),
            hosts: Vec::new(),
            files: Files::new(u64::from(setup.nodes)),
            table: holds::table((1..=setup.nodes).map(|number| Node(setup.past + number))),
            host_of: BTreeMap::new(),
            directory: Directory::new(setup.past, setup.plain),
            servers: vec![Queue::default(); setup.costs.servers.max(1) as usize],
            store: Queue::default(),
            leader: Queue::default(),
            leads: None,
            counts: Counts::default(),
            setup,
        }
    }

    /// Starts all nodes as members; their renewals and listings are spread over time.
    pub fn start(&mut self) {
        let spread = self.setup.lease.renew_every.0;
        for host in 0..self.setup.nodes as usize {
            let lease = self.setup.lease_beside(host);
            let node = self.directory.claim(lease.lease);
            self.directory.rename(node, Name::New, Name::Beat(0));
            let (machine, holds, tick_at) = (None, None, None);
            self.hosts.push(Host { machine, tick_at, until: Time::ZERO, joined: false, holds, lease });
            let at = Time(self.rng.below(spread.max(1)));
            self.queue.push(at, Rank::Completion, Happens::Joined(host, node));
        }
        let load = self.setup.load.clone();
        for host in 0..self.hosts.len() {
            self.later(load.opens, Happens::Opens(host));
            self.later(load.writes, Happens::Writes(host));
            self.later(load.batches, Happens::Sends(host));
        }
        self.later(load.moves, Happens::Moves);
        if let Some(every) = load.fail_every {
            self.queue.push(every, Rank::Arrival, Happens::Fails);
        }
        if load.order_every.is_some() {
            // The first order comes within the counted span.
            self.queue.push(self.setup.warm_up + Time(self.setup.span.0 / 2), Rank::Arrival, Happens::Orders);
        }
        let lookers = Demand(&self.setup).lookers(u64::from(self.setup.nodes));
        for lower in 0..lookers {
            // Their reports are spread over the interval.
            let at = Time(idle::EVERY.0 / lookers as u64 * lower as u64);
            self.queue.push(at, Rank::Arrival, Happens::Tells { lower });
        }
    }

    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// Schedules the next event of a process with `rate` events per second.
    fn later(&mut self, rate: f64, what: Happens) {
        if rate > 0.0 {
            let wait = Time((self.rng.exponential(1.0 / rate) * 1e9) as u64);
            self.queue.push(self.now() + wait, Rank::Arrival, what);
        }
    }

    pub fn push(&mut self, at: Time, what: Happens) {
        self.queue.push(at, Rank::Completion, what);
    }

    pub fn until(&mut self, end: Time) {
        while self.queue.next_at().is_some_and(|at| at <= end) {
            let (_, what) = self.queue.pop().expect("one that waits");
            self.happens(what);
        }
    }

    fn happens(&mut self, what: Happens) {
        let load = &self.setup.load;
        match what {
            Happens::Renamed { host, node, beat, asked } => self.renamed(host, node, beat, asked),
            Happens::Listed { host, node } => {
                let listing = self.directory.listing();
                self.hears(host, node, listing);
                if self.leads == Some(host) && !self.setup.plain {
                    self.fold();
                }
            }
            Happens::Expel { host, node, whom, beat } => {
                let done = self.directory.rename(whom, beat.map_or(Name::New, Name::Beat), Name::Over);
                self.counts.expelled += u64::from(done && whom != node);
                let event = if done { Event::Expelled { node: whom } } else { Event::Survived { node: whom } };
                self.hears(host, node, event);
            }
            Happens::Tick(host) if self.hosts[host].tick_at == Some(self.now()) => {
                self.hosts[host].tick_at = None;
                let node = self.hosts[host].machine.as_ref().map(Membership::node);
                node.into_iter().for_each(|node| self.hears(host, node, Event::Tick));
            }
            Happens::Tick(_) => {}
            Happens::Joined(host, node) => self.joined(host, node),
            Happens::Comes(host) => self.comes(host),
            Happens::Fails => {
                let Some(every) = load.fail_every else { return };
                let (host, away) = (self.rng.below(self.hosts.len() as u64) as usize, load.away);
                self.queue.push(self.now() + every, Rank::Arrival, Happens::Fails);
                // The leader's failure is measured separately.
                if self.leads != Some(host) && self.hosts[host].machine.is_some() {
                    self.fail(host);
                    self.push(self.now() + away, Happens::Comes(host));
                }
            }
            Happens::Opens(host) => {
                self.later(load.opens, Happens::Opens(host));
                self.uses(host, Use::Read);
            }
            Happens::Writes(host) => {
                self.later(load.writes, Happens::Writes(host));
                self.uses(host, Use::Grow);
            }
            Happens::Moves => {
                self.later(load.moves, Happens::Moves);
                self.leads.into_iter().for_each(|leader| self.moves(leader));
            }
            Happens::Sends(host) => {
                self.later(load.batches, Happens::Sends(host));
                if self.hosts[host].machine.is_some() {
                    self.sends();
                }
            }
            Happens::Task(task, part) => self.task(task, part),
            Happens::Size(host, key) => self.size(host, key),
            Happens::Acted { host, node, action } => self.acted(host, node, action),
            Happens::HoldsTick(host) => self.holds_tick(host),
            Happens::Orders => {
                let Some(every) = load.order_every else { return };
                self.queue.push(self.now() + every, Rank::Arrival, Happens::Orders);
                let (asked, at) = (self.now(), self.bell());
                self.push(at, Happens::Ordered { asked });
            }
            Happens::Ordered { asked } => {
                let (now, cost) = (self.now(), Demand(&self.setup).follows());
                let last = (0..self.hosts.len()).map(|_| self.store.take(now, cost)).max().unwrap_or_default();
                self.counts.order = self.counts.order.max(last.since(asked) + self.setup.costs.round_trip);
            }
            Happens::Tells { lower } => {
                self.queue.push(self.now() + idle::EVERY, Rank::Arrival, Happens::Tells { lower });
                let now = self.now();
                if let Some(cost) = Demand(&self.setup).tells(lower) {
                    self.store.take(now, cost);
                }
            }
        }
    }

    /// Lets the leader fold the names of nodes that are over, one after the other.
    fn fold(&mut self) {
        for number in 0..self.directory.fold() as u32 {
            for _ in 0..2 {
                self.rename(Node(number));
            }
        }
    }

    /// Notifies all nodes with a short message; returns the time at which all have received it.
    fn bell(&mut self) -> Time {
        let cost = self.setup.costs.store + Time(self.setup.costs.delivery.0 * self.hosts.len() as u64);
        self.store.take(self.now(), cost) + self.setup.costs.round_trip
    }

    fn sends(&mut self) {
        let (costs, events) = (&self.setup.costs, self.setup.load.events);
        // Once delivered, a batch waits for its turn; the order of batches does not matter.
        self.leader.take(self.queue.now() + costs.round_trip, Time(costs.event.0 * u64::from(events)));
        self.counts.events += u64::from(events);
    }

    /// Makes calls for a stub one after the other; returns the time of the last answer.
    pub fn attributes(&mut self, key: u64, calls: u32) -> Time {
        let (cost, way, now) = (self.setup.costs.attribute, self.setup.costs.round_trip, self.now());
        if calls == 0 {
            return now;
        }
        let server = key as usize % self.servers.len();
        // One turn for all of them, and a round trip for each.
        self.servers[server].take(now, Time(cost.0 * u64::from(calls))) + Time(way.0 * u64::from(calls))
    }

    /// Makes a call on one lease file.
    fn rename(&mut self, node: Node) -> Time {
        let server = node.0 as usize % self.servers.len();
        self.lease_call(server, self.setup.costs.rename)
    }

    fn lease_call(&mut self, server: usize, cost: Time) -> Time {
        self.counts.lease_work = self.counts.lease_work + cost;
        let now = self.now();
        self.servers[server].take(now, cost) + self.setup.costs.round_trip
    }

    /// Lets every server list its names.
    pub fn list(&mut self) -> Time {
        let (names, count) = (self.directory.names(), self.servers.len() as u64);
        self.counts.names += names;
        let cost = self.setup.costs.list + Time(self.setup.costs.name.0 * names / count);
        (0..count as usize).map(|server| self.lease_call(server, cost)).max().unwrap_or_default()
    }

    /// Lets the lowest nodes fail at once; returns the time until another node leads.
    pub fn takeover(&mut self) -> Option<Time> {
        let node = |host: &HostId| self.hosts[*host].machine.as_ref().map(Membership::node);
        let mut alive: Vec<HostId> = (0..self.hosts.len()).filter(|host| node(host).is_some()).collect();
        alive.sort_by_key(node);
        alive.truncate(self.setup.gone as usize);
        self.leads?;
        alive.iter().for_each(|host| self.fail(*host));
        if self.leads.is_some() || self.setup.gone == 0 {
            return None;
        }
        let from = self.now();
        while self.leads.is_none() && self.now() < from + TAKEOVER_MAX {
            let (_, what) = self.queue.pop()?;
            self.happens(what);
        }
        self.leads.map(|_| self.now().since(from))
    }

    #[cfg(test)]
    pub fn leads(&self) -> Option<HostId> {
        self.leads
    }

    #[cfg(test)]
    pub fn names(&self) -> u64 {
        self.directory.names()
    }

    /// Returns whether a number is over, by the state of the namespace.
    #[cfg(test)]
    pub fn is_over(&self, node: Node) -> bool {
        self.directory.is_over(node)
    }
}
