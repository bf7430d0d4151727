//! Three nodes, two files of two blocks, the store, and what can happen next.
//!
//! A step is one request to the store, one operation at the shared file system, or one message, with the decision of
//! the machine after it. The driver around the machine only carries its actions out. Time is three points of each
//! node's clock: modes that cache are valid, they have ended, and the session has surely lapsed.

use super::scenario::{Faults, Guilt, NODES, Scenario};
use crate::cluster::{Node, Standing};
use crate::holders::node::{Action, Config, Event, Holder, Permit};
use crate::holders::table::{Caller, Hold, Mode, Request, Run, Table};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

pub const VALUES: usize = 16;
pub const CONFIG: Config = Config {
    session: Time(60),
    renew_every: Time(5000),
    caching: Time(50),
    margin: Time(10),
    retry: Time(1),
    unused: Time(u64::MAX),
    new: Time(10),
};
/// A node's clock while modes that cache are valid, after that, and once its session has surely lapsed.
const CLOCK: [Time; 3] = [Time(100), Time(200), Time(6000)];
/// The store's clock. Sessions end by a step of their own. It is later than a session after the begin, since when no hold
/// is unknown.
pub const STORE: Time = Time(100);

/// Objects of the files at the start.
pub const FIRST: [[u8; 2]; 2] = [[1, 2], [3, 4]];

/// Record of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Unique number of the publication.
    pub stamp: u64,
    /// Object of each block.
    pub objects: [u8; 2],
}

/// A file in the shared file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stub {
    /// Size in blocks.
    pub size: usize,
    /// Mark of a truncation under way.
    pub cut: bool,
    pub pointer: (u64, u64),
    pub records: BTreeMap<u64, Record>,
    /// The highest generation that was published.
    pub newest: u64,
    pub linked: bool,
}

/// Files as a node has them in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// Generation and objects of the record that was read last.
    pub generation: u64,
    pub objects: [u8; 2],
    pub size: usize,
    /// Content of blocks that were read in a mode that caches.
    pub cached: [Option<u8>; 2],
    /// Whether the size of the stub is to be set.
    pub behind: bool,
    /// Record to be published.
    pub record: Option<(u64, Record)>,
    /// Objects after the change under way.
    pub changed: Option<[u8; 2]>,
}

/// Place of a node in its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Start,
    /// The machine has to permit the operation.
    Try,
    /// The engine has sent what it wants.
    Wait,
    Size,
    Data,
    SetSize,
    Settle,
    Mark,
    CutSize,
    CutObject,
    Unmark,
    Finish,
    Done,
}

/// Operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    pub op: usize,
    pub at: At,
    pub file: usize,
    pub permit: Option<Permit>,
    pub objects: [u8; 2],
    pub size: usize,
    pub block: usize,
    /// Whether the mark of a truncation was seen, so that the size is set at once.
    pub marked: bool,
    /// Writes that a reader must see.
    pub since: u16,
}

pub const START: Running = Running {
    op: 0,
    at: At::Start,
    file: 0,
    permit: None,
    objects: [0; 2],
    size: 0,
    block: 0,
    marked: false,
    since: 0,
};

/// Operation of a frozen node that is carried out at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Late {
    Write {
        object: u8,
        value: u8,
    },
    Create {
        file: usize,
        generation: u64,
        stamp: u64,
        objects: [u8; 2],
    },
    Point {
        file: usize,
        generation: u64,
        stamp: u64,
    },
    Tidy {
        file: usize,
        generation: u64,
    },
    Size {
        file: usize,
        size: usize,
    },
    /// The node does not know that it is over: it registers its hold, and lowers it.
    Lower {
        file: usize,
        caller: Caller,
        hold: Hold,
        generation: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    pub node: Node,
    pub machine: Holder,
    pub crashed: bool,
    /// The node is over, and has not joined again.
    pub over: bool,
    /// No connection to the store.
    pub apart: bool,
    /// Point of the node's clock, and how often it may leave the first.
    pub phase: usize,
    pub lapses: u8,
    pub actions: BTreeSet<Action>,
    pub views: [View; 2],
    pub handles: [Option<usize>; 2],
    /// Removed files whose objects this node has to remove.
    pub removed: BTreeSet<usize>,
    pub running: Running,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub stubs: [Stub; 2],
    pub names: [Option<usize>; 2],
    /// Content of each object; 0: a hole.
    pub objects: BTreeMap<u8, u8>,
    pub next_object: u8,
    pub next_node: u32,
    pub over: BTreeSet<Node>,
    pub table: Table,
    pub copy: Option<Box<Table>>,
    pub server: Run,
    pub hosts: [Host; NODES],
    pub messages: BTreeSet<(Node, u64, u64, Mode)>,
    pub late: BTreeSet<Late>,
    pub faults: Faults,
    /// Writes that have begun, were acknowledged, and must be seen by later readers. A bit per value.
    pub acknowledged: u16,
    pub visible: u16,
    pub begun: u16,
    /// For each write, the writes that were acknowledged when it began.
    pub before: [u16; VALUES],
    /// File and block of each value.
    pub place: [(usize, usize); VALUES],
    pub broken: Option<&'static str>,
}

/// Event of a step.
#[derive(Clone, Debug)]
pub struct Label {
    pub node: usize,
    pub what: String,
    /// Whether the step is a fault; all other steps have to happen.
    pub fault: bool,
}

pub type Next = Vec<(Label, World)>;

impl World {
    pub fn start(scenario: &Scenario) -> World {
        let stub = |file: usize| {
            let record = Record { stamp: 1, objects: FIRST[file] };
            // A new file has bytes and no record: its blocks stand for those of the stub.
            let (size, newest) = if scenario.creates(file) { (0, 0) } else { (scenario.size, 1) };
            let records = BTreeMap::from([(newest, record)]);
            Stub { size, cut: false, pointer: (newest, newest), records, newest, linked: true }
        };
        let host = |i: usize| {
            let node = Node(i as u32 + 1);
            Host {
                node,
                machine: Holder::new(CONFIG, node),
                crashed: false,
                over: false,
                apart: false,
                phase: 0,
                lapses: scenario.faults.partitions + 1,
                actions: BTreeSet::new(),
                views: [View::default(); 2],
                handles: [None; 2],
                removed: BTreeSet::new(),
                running: START,
            }
        };
        let size = |object: u8| if scenario.creates((usize::from(object) - 1) / 2) { 0 } else { scenario.size };
        let content = |object: u8| if (usize::from(object) - 1) % 2 < size(object) { object } else { 0 };
        let first: u16 = (1..=4).filter(|object| content(*object) > 0).fold(0, |bits, object| bits | 1 << object);
        let mut place = [(9, 9); VALUES];
        (1..=4).for_each(|object: usize| place[object] = ((object - 1) / 2, (object - 1) % 2));
        let mut world = World {
            stubs: std::array::from_fn(stub),
            names: [0, 1].map(|file| Some(file).filter(|file| !scenario.creates(*file))),
            objects: (1..=4).map(|object| (object, content(object))).collect(),
            next_object: 5,
            next_node: NODES as u32 + 1,
            over: BTreeSet::new(),
            table: Table::new(CONFIG.session),
            copy: None,
            server: Run(1),
            hosts: std::array::from_fn(host),
            messages: BTreeSet::new(),
            late: BTreeSet::new(),
            faults: Faults::default(),
            acknowledged: first,
            visible: first,
            begun: first,
            before: [0; VALUES],
            place,
            broken: None,
        };
        world.join(scenario);
        world.copy = (scenario.faults.returns > 0).then(|| Box::new(world.table.clone()));
        world.faults = scenario.faults;
        world
    }

    /// All nodes register, the run is opened, and the volume counts as checked.
    fn join(&mut self, scenario: &Scenario) {
        (0..NODES).for_each(|i| self.drain(scenario, i));
        for _ in 0..8 {
            for i in 0..NODES {
                for action in self.hosts[i].actions.clone() {
                    self.act(scenario, i, &action);
                }
            }
        }
        (0..NODES).for_each(|i| self.renew(scenario, i));
        for i in 0..NODES {
            for action in self.hosts[i].actions.clone() {
                self.act(scenario, i, &action);
            }
        }
        let caller = Caller { node: Node(1), run: self.server, link: 1 };
        self.table.serve(STORE, caller, &Request::Trust);
        self.table.be_sure();
        assert!(self.hosts.iter().all(|host| host.actions.is_empty()), "every node has a session");
        (0..NODES).for_each(|i| self.begin_op(scenario, i, 0));
    }

    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    pub fn is_done(&self) -> bool {
        let rests = |host: &Host| !host.over && host.running.at == At::Done && host.removed.is_empty();
        self.hosts.iter().all(|host| host.crashed || rests(host))
    }

    pub fn standing(&self, i: usize) -> Standing {
        if self.hosts[i].over { Standing::Lost } else { Standing::Held }
    }

    pub fn now(&self, scenario: &Scenario, i: usize) -> Time {
        // A node that ignores the bound goes on as if its last renewal were recent.
        let phase = self.hosts[i].phase;
        if scenario.guilt == Guilt::CachesOn && phase == 1 { CLOCK[0] } else { CLOCK[phase] }
    }

    /// Sends an event to a machine, and takes its actions.
    pub fn send(&mut self, scenario: &Scenario, i: usize, event: Event) {
        let now = self.now(scenario, i);
        self.hosts[i].machine.handle(now, event);
        self.hosts[i].machine.forget_times(CLOCK[0]);
        self.drain(scenario, i);
        self.act_at_once(scenario, i);
    }

    /// Carries out what no other node can tell from a later step.
    pub fn act_at_once(&mut self, scenario: &Scenario, i: usize) {
        if self.hosts[i].crashed || self.hosts[i].over {
            return;
        }
        if self.hosts[i].running.at == At::Try {
            return self.go_on(scenario, i);
        }
        let plain = |action: &&Action| scenario.is_plain(action) && self.is_possible(scenario, i, action);
        let action = self.hosts[i].actions.iter().find(plain).cloned();
        if let Some(action) = action {
            self.act(scenario, i, &action);
        }
    }

    pub fn drain(&mut self, scenario: &Scenario, i: usize) {
        while let Some(action) = self.hosts[i].machine.poll() {
            match action {
                Action::Recall { node, key, number, mode } => drop(self.messages.insert((node, key, number, mode))),
                Action::Ready { key, .. } => {
                    let running = &mut self.hosts[i].running;
                    if running.at == At::Wait && running.file as u64 == key {
                        running.at = At::Try;
                    }
                }
                action => {
                    self.prepare(scenario, i, &action);
                    self.hosts[i].actions.insert(action);
                }
            }
        }
    }

    /// The node's clock is at its first point again, and it renews its session.
    pub fn renew(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        host.machine.handle(CLOCK[host.phase], Event::Tick);
        host.phase = 0;
        host.machine.renew_now();
        host.machine.handle(CLOCK[0], Event::Tick);
        host.machine.forget_times(CLOCK[0]);
        self.drain(scenario, i);
    }

    /// Whether modes that cache have ended at a node, with the operations that used them.
    pub fn has_stopped_caching(&self, i: usize) -> bool {
        let host = &self.hosts[i];
        let uses = host.running.permit.is_some_and(|permit| permit.mode.caches()) && host.running.at != At::Wait;
        host.crashed || host.over || self.rests(i) || (host.phase > 0 && !uses)
    }

    /// Whether a node holds nothing and does nothing.
    pub fn rests(&self, i: usize) -> bool {
        self.hosts[i].running.at == At::Done && self.hosts[i].machine.holds_nothing()
    }

    /// Adds all possible next steps.
    pub fn next(&self, scenario: &Scenario, out: &mut Next) {
        for i in 0..NODES {
            if !self.hosts[i].crashed && !self.hosts[i].over {
                self.steps(scenario, i, out);
            }
            self.fates(scenario, i, out);
        }
        for message in &self.messages {
            self.deliver(scenario, *message, out);
        }
        for late in &self.late {
            let mut next = self.clone();
            next.late.remove(late);
            next.carry_out_late(scenario, *late);
            out.push((label(NODES, format!("late: {late:?}"), false), next));
        }
        self.store(scenario, out);
    }

    fn steps(&self, scenario: &Scenario, i: usize, out: &mut Next) {
        for action in &self.hosts[i].actions {
            if !self.is_possible(scenario, i, action) {
                continue;
            }
            let mut next = self.clone();
            next.act(scenario, i, action);
            out.push((label(i, format!("{action:?}"), false), next));
            self.mishaps(scenario, i, action, out);
        }
        if let Some(what) = self.can_go_on(scenario, i) {
            let mut next = self.clone();
            next.go_on(scenario, i);
            out.push((label(i, what, false), next));
        }
        let reaches = !self.hosts[i].apart && self.hosts[i].machine.run() == self.server;
        let closed = |file: &&usize| !self.hosts[i].handles.contains(&Some(**file));
        for file in self.hosts[i].removed.iter().filter(|_| reaches).filter(closed) {
            let mut next = self.clone();
            next.remove_objects(scenario, i, *file);
            out.push((label(i, format!("looks for other holders of removed file {file}"), false), next));
        }
        let host = &self.hosts[i];
        let waits = host.machine.waits();
        if waits {
            let mut next = self.clone();
            next.hosts[i].machine.repeat_now();
            next.send(scenario, i, Event::Tick);
            for action in &host_asks(&next.hosts[i]) {
                next.act(scenario, i, action);
            }
            out.push((label(i, "asks again".into(), false), next));
        }
        let idle = !host.actions.iter().any(|action| matches!(action, Action::Ask { key: None, .. } | Action::Connect));
        let stale = host.phase > 0 || !host.machine.is_confirmed();
        let lapsed = self.table.lapsed(STORE);
        let helps = lapsed.is_none_or(|node| node == host.node || self.over.contains(&node));
        let lost = self.server != host.machine.run() || !self.table.has_session(STORE, host.node);
        let useful = lost || (stale && helps && !self.rests(i));
        if idle && useful && !host.apart && host.phase < 2 {
            let mut next = self.clone();
            next.renew(scenario, i);
            next.act_at_once(scenario, i);
            out.push((label(i, "renews its session".into(), false), next));
        }
        if scenario.faults.partitions > 0 {
            self.time(scenario, i, out);
        }
    }
}

/// Requests of a host for files.
fn host_asks(host: &Host) -> Vec<Action> {
    let asks = host.actions.iter().filter(|action| matches!(action, Action::Ask { key: Some(_), .. }));
    asks.cloned().collect()
}

pub fn label(node: usize, what: String, fault: bool) -> Label {
    Label { node, what, fault }
}
