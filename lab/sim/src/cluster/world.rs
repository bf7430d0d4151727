//! The world: hosts that come and go, their leases, the servers, and the counters.

use super::demand::{CALLS_OF_BATCH, Demand};
use super::directory::{Directory, Name};
use super::files::{Files, Step, TaskId};
use super::queue::Queue;
use super::{CALLS_OF_OPEN, Figures, Setup};
use crate::event::{EventQueue, Rank};
use crate::generate::Rng;
use crate::latency::Latencies;
use policy::Time;
use policy::cluster::idle::{self, Share};
use policy::cluster::lease::{Action, Config, Event, Membership};
use policy::cluster::{Node, Standing};
use policy::machine::Machine;

/// Maximum wait for a new leader.
const TAKEOVER_MAX: Time = Time::from_secs(120);
/// Calls for the text of a lease file that a node sees for the first time.
const CALLS_OF_TEXT: u32 = 3;

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
    Opened {
        asked: Time,
    },
    Writes(HostId),
    Moves,
    Sends(HostId),
    Step(TaskId, Step),
    Rung {
        file: usize,
        nodes: Vec<Node>,
    },
    /// An operator gives an order.
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
    /// Generation of its daemon; tasks of an earlier one are void.
    pub life: u32,
    /// Lease configuration of its current number.
    lease: Config,
}

/// Counters from some moment on.
#[derive(Default)]
pub(super) struct Counts {
    renewals: u64,
    looks: u64,
    names: u64,
    lapses: u64,
    expelled: u64,
    events: u64,
    lease_work: Time,
    open: Latencies,
    enter: Latencies,
    change: Latencies,
    order: Time,
    pub moves_failed: u64,
}

impl Counts {
    pub fn entered(&mut self, span: Time) {
        self.enter.add(span);
    }

    pub fn moved(&mut self, span: Time) {
        self.change.add(span);
    }
}

pub(super) struct World {
    pub setup: Setup,
    pub queue: EventQueue<Happens>,
    pub rng: Rng,
    pub hosts: Vec<Host>,
    pub files: Files,
    directory: Directory,
    servers: Vec<Queue>,
    store: Queue,
    leader: Queue,
    leads: Option<HostId>,
    pub counts: Counts,
}

/// Runs the simulation: half the span as warm-up, the span, then the failure of the leader.
pub fn run(setup: &Setup) -> Figures {
    let mut world = World::new(setup.clone());
    world.start();
    let warm = Time(setup.span.0 / 2);
    world.until(warm);
    world.count_anew();
    let end = warm + setup.span;
    world.until(end);
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
            files: Files::new(setup.nodes as usize),
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
            self.hosts.push(Host { machine: None, tick_at: None, until: Time::ZERO, life: 0, lease });
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
            self.queue.push(self.setup.span, Rank::Arrival, Happens::Orders);
        }
        for lower in 0..self.hosts.len() {
            if Demand(&self.setup).share(lower) != Share::None {
                let at = Time(idle::EVERY.0 / self.hosts.len() as u64 * lower as u64);
                self.queue.push(at, Rank::Arrival, Happens::Tells { lower });
            }
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
                let file = self.files.any(&mut self.rng);
                let (asked, at) = (self.now(), self.attributes(file, CALLS_OF_OPEN));
                self.push(at, Happens::Opened { asked });
            }
            Happens::Opened { asked } => self.counts.open.add(self.now().since(asked)),
            Happens::Writes(host) => {
                self.later(load.writes, Happens::Writes(host));
                self.writes(host);
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
            Happens::Step(task, step) => self.step(task, step),
            Happens::Rung { file, nodes } => self.rung(file, &nodes),
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
        let at = (0..CALLS_OF_BATCH).map(|_| self.store.take(self.queue.now(), costs.store)).max();
        let cost = Time(costs.event.0 * u64::from(events));
        // Once delivered, a batch waits for its turn; the order of batches does not matter.
        self.leader.take(at.unwrap_or_default(), cost);
        self.counts.events += u64::from(events);
    }

    /// Makes calls for a stub one after the other; returns the time of the last answer.
    pub fn attributes(&mut self, file: usize, calls: u32) -> Time {
        let (cost, way) = (self.setup.costs.attribute, self.setup.costs.round_trip);
        let server = file % self.servers.len();
        let now = self.now();
        // One turn for all of them, and a round trip for each.
        self.servers[server].take(now, Time(cost.0 * u64::from(calls))) + Time(way.0 * u64::from(calls))
    }

    /// Asks nodes to leave a file; the notification goes to all nodes.
    pub fn ring(&mut self, file: usize, nodes: Vec<Node>) {
        let at = self.bell();
        self.push(at, Happens::Rung { file, nodes });
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
    fn list(&mut self) -> Time {
        let (names, count) = (self.directory.names(), self.servers.len() as u64);
        self.counts.names += names;
        let cost = self.setup.costs.list + Time(self.setup.costs.name.0 * names / count);
        (0..count as usize).map(|server| self.lease_call(server, cost)).max().unwrap_or_default()
    }

    fn renamed(&mut self, host: HostId, node: Node, beat: u64, asked: Time) {
        let done = self.directory.rename(node, Name::Beat(beat), Name::Beat(beat + 1));
        self.counts.renewals += 1;
        let now = self.now();
        let of = &mut self.hosts[host];
        if done && of.machine.as_ref().is_some_and(|machine| machine.node() == node) {
            self.counts.lapses += u64::from(now > of.until);
            of.until = asked + of.lease.lease;
        }
        let event = if done { Event::Renewed { beat: beat + 1, asked } } else { Event::Gone };
        self.hears(host, node, event);
    }

    fn joined(&mut self, host: HostId, node: Node) {
        let now = self.now();
        // A node that is up from the start has the other leases in its state.
        let is_first = self.hosts[host].life == 0;
        let lease = self.hosts[host].lease.clone();
        self.hosts[host].until = now + lease.lease;
        let mut machine = Membership::new(lease, now, node, now);
        if is_first {
            while machine.poll().is_some() {}
            self.hosts[host].life = 1;
            let listing = self.directory.listing();
            machine.handle(now, listing);
            self.hosts[host].machine = Some(machine);
            return self.carry(host, true);
        }
        self.hosts[host].machine = Some(machine);
        self.carry(host, false);
    }

    /// Starts a daemon: it lists, takes a number, and renames its file.
    fn comes(&mut self, host: HostId) {
        let listed = self.list();
        let lease = self.setup.lease_beside(self.directory.leases());
        let node = self.directory.claim(lease.lease);
        self.hosts[host].lease = lease;
        let at = (0..3).map(|_| self.rename(node)).max().unwrap_or(listed);
        self.directory.rename(node, Name::New, Name::Beat(0));
        self.hosts[host].life += 1;
        self.push(at.max(listed), Happens::Joined(host, node));
    }

    pub fn fail(&mut self, host: HostId) {
        let of = &mut self.hosts[host];
        (of.machine, of.tick_at) = (None, None);
        of.life += 1;
        if self.leads == Some(host) {
            self.leads = None;
        }
    }

    fn hears(&mut self, host: HostId, node: Node, event: Event) {
        let now = self.now();
        let Some(machine) = self.hosts[host].machine.as_mut().filter(|machine| machine.node() == node) else { return };
        machine.handle(now, event);
        self.carry(host, false);
    }

    fn carry(&mut self, host: HostId, knows: bool) {
        let Some(machine) = self.hosts[host].machine.as_mut() else { return };
        let (node, actions) = (machine.node(), machine.drain().collect::<Vec<_>>());
        for action in actions {
            match action {
                Action::Renew { beat } => {
                    let (asked, at) = (self.now(), self.rename(node));
                    self.push(at, Happens::Renamed { host, node, beat, asked });
                }
                Action::Look => {
                    self.counts.looks += 1;
                    let at = self.list();
                    self.push(at, Happens::Listed { host, node });
                }
                Action::Expel { node: whom, beat, .. } => {
                    let at = self.rename(whom);
                    self.push(at, Happens::Expel { host, node, whom, beat });
                }
                Action::Lead => self.leads = Some(host),
                Action::Follow { .. } => {
                    self.leads = self.leads.filter(|leader| *leader != host);
                }
                Action::Lost => {
                    self.fail(host);
                    return self.comes(host);
                }
                Action::Came { node: other } if !knows => {
                    let server = other.0 as usize % self.servers.len();
                    let cost = Time(self.setup.costs.attribute.0 * u64::from(CALLS_OF_TEXT));
                    self.lease_call(server, cost);
                }
                Action::Came { .. } | Action::Left { .. } => {}
            }
        }
        let now = self.now();
        let of = &mut self.hosts[host];
        let due = of.machine.as_ref().and_then(Membership::next_deadline).map(|at| at.max(now));
        if let Some(at) = due.filter(|_| of.tick_at != due) {
            of.tick_at = Some(at);
            self.queue.push(at, Rank::Timer, Happens::Tick(host));
        }
    }

    /// Returns whether a node is over, by a host's state; if not, its machine is asked to check.
    pub fn over(&mut self, host: HostId, node: Node) -> bool {
        let Some(machine) = &self.hosts[host].machine else { return false };
        let (me, is_over) = (machine.node(), machine.is_over(node));
        if !is_over && me != node {
            self.hears(host, me, Event::Asked);
        }
        is_over
    }

    pub fn standing(&self, host: HostId, node: Node) -> Standing {
        let machine = self.hosts[host].machine.as_ref().filter(|machine| machine.node() == node);
        machine.map_or(Standing::Lost, |machine| machine.standing(self.now()))
    }

    fn count_anew(&mut self) {
        self.counts = Counts::default();
        self.servers.iter_mut().chain([&mut self.store, &mut self.leader]).for_each(Queue::count_anew);
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

    fn figures(&self, span: Time) -> Figures {
        let (demand, counts, span) = (Demand(&self.setup), &self.counts, span.as_secs_f64());
        let servers = self.servers.len() as f64;
        let nodes = u64::from(self.setup.nodes);
        let per_second = |count: u64| count as f64 / span;
        let asked: f64 = self.servers.iter().map(|server| server.asked().as_secs_f64()).sum();
        let most = self.servers.iter().map(|server| server.asked().as_secs_f64()).fold(0.0, f64::max);
        Figures {
            nodes: self.setup.nodes,
            renewals: per_second(counts.renewals),
            looks: per_second(counts.looks),
            names: per_second(counts.names),
            lapses: counts.lapses,
            expelled: counts.expelled,
            lease_share: demand.leases(nodes) / servers,
            namespace_share: asked / span / servers,
            namespace_busy: (most / span).min(1.0),
            open_ms: counts.open.mean_ms(),
            enter_ms: counts.enter.mean_ms(),
            moves: counts.change.count(),
            moves_failed: counts.moves_failed,
            move_ms: counts.change.mean_ms(),
            store_calls: per_second(self.store.calls()),
            store_share: self.store.asked().as_secs_f64() / span,
            events: per_second(counts.events),
            leader_share: self.leader.asked().as_secs_f64() / span,
            leader_lag_s: self.leader.lag(self.now()).as_secs_f64(),
            takeover_s: None,
            lease_nodes: demand.most(Demand::leases, servers),
            namespace_nodes: demand.most(Demand::namespace, servers),
            store_nodes: demand.most(Demand::store, 1.0),
            leader_nodes: demand.most(Demand::leader, 1.0),
            space_looks: demand.looks_at_target(),
            order_s: counts.order.as_secs_f64(),
            back_s: demand.asks().as_secs_f64() * nodes as f64,
            start_s: demand.turn().as_secs_f64() * nodes as f64,
        }
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
