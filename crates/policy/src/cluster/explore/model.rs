//! Three nodes and one file of two blocks, each in an object of its own: every state, and what can happen next.
//!
//! A step is one operation at the shared file system, with all that the node thinks about it. What it thinks comes from
//! [`share`](crate::cluster::share): the model only carries it out. A lease may end at any moment, which stands for a
//! node that freezes or is cut off; its steps go on at any later time. Only then may it be expelled.

use crate::cluster::share::{self, Begin, Claim, Created, Enter, Mark, Marks, Published, Step, Written};
use crate::cluster::{Node, Standing};
use std::collections::BTreeSet;

pub const NODES: usize = 3;
/// Generations, objects and lives that the arrays below have room for; a run that needs more panics.
const GENERATIONS: usize = 12;
const OBJECTS: usize = 12;
const NUMBERS: usize = 16;
const WRITES: usize = 8;

/// What a node is to do.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Write this value into this block.
    Write { block: u8, value: u8 },
    /// Move this block to a new object.
    Move { block: u8 },
    /// Add to the layout, beside writers.
    Add,
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guilt {
    None,
    /// A write is acknowledged without a look at the lease.
    NoLook,
    /// A new object gets the lowest number that is free.
    NumbersReused,
    /// A dead node's claim is removed without the next generation.
    ClaimJustRemoved,
    /// Registrations are in a store that may forget its last writes.
    Forgetful,
    /// A registration has the name of the one before.
    OneEntry,
    /// A node whose lease file was missing in one listing is taken for over.
    MissingIsOver,
    /// A changer that gives up just removes its claim.
    GivesUpByRemoving,
    /// A writer does not look again once it has loaded the layout.
    LoadedUnseen,
}

/// How much may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Leases that end while their node goes on.
    pub lapses: u8,
    pub crashes: u8,
    /// Doorbells that ring at any time.
    pub bells: u8,
    /// Doorbells that do not ring.
    pub silent: u8,
    /// Creates whose answer is lost.
    pub doubts: u8,
    /// Removals that are carried out once more at any later time.
    pub late: u8,
    /// Changers that give up.
    pub give_ups: u8,
}

impl Faults {
    /// So many more of each kind that there is.
    pub fn more(self, depth: u8) -> Faults {
        let more = |n: u8| if n > 0 { n + depth } else { 0 };
        Faults {
            lapses: more(self.lapses),
            crashes: more(self.crashes),
            bells: more(self.bells),
            silent: more(self.silent),
            doubts: more(self.doubts),
            late: more(self.late),
            give_ups: more(self.give_ups),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub programs: [&'static [Op]; NODES],
    pub faults: Faults,
    pub guilt: Guilt,
}

/// Where a node is in its program; named by what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Register,
    List,
    ReadClaim,
    Load,
    Write,
    LookAtLease,
    Deregister,
    Await,
    EndLoad,
    EndCreate,
    /// Lists what may go, and removes it; then goes where `then` says.
    Tidy,
    Remove,
    Begin,
    BeginReadClaim,
    Claim,
    Step,
    Ring,
    Retry,
    ChangeLoad,
    Copy,
    LookBefore,
    Publish,
    LookAfter,
    DeleteOld,
    DeleteNew,
    Done,
}

/// What a node knows besides; what it needs no more is zero, so that equal states are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Host {
    at: At,
    number: u8,
    op: u8,
    crashed: bool,
    lapsed: bool,
    registered: bool,
    entry: u8,
    /// It was asked to drain.
    bell: bool,
    /// The layout that it writes by; zeros: none.
    layout: [u8; 2],
    generation: u8,
    /// The generation of `layout`, until a look has shown that it is the highest; 0: none.
    loaded: u8,
    claim: Option<(u8, u8, bool)>,
    ring: u16,
    fresh: u8,
    exists: Option<bool>,
    mark: Option<(u8, u8, u8)>,
    then: Option<Then>,
    gives_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    /// The writer looks again.
    List,
    /// The changer begins anew.
    Begin,
    /// The change happened.
    DeleteOld,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Record {
    /// The number of the publisher; 0: there is none.
    by: u8,
    objects: [u8; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    hosts: [Host; NODES],
    layouts: [Record; GENERATIONS],
    /// Node and whether it drains; 0: none.
    claims: [(u8, bool); GENERATIONS],
    /// A bit per entry, by number.
    writers: [u8; NUMBERS],
    /// What each object holds; 0: it is not there.
    objects: [u8; OBJECTS],
    next_object: u8,
    over: u16,
    /// A removal that comes late.
    late: Option<(u8, u8, u8)>,
    faults: Faults,
    begun: u8,
    acknowledged: u8,
    /// By write: those that were acknowledged when it began.
    before: [u8; WRITES],
    /// Generations whose changer was told that its change happened.
    happened: u16,
    broken: u8,
}

const BROKEN: [&str; 6] = [
    "",
    "an acknowledged write is not in the layout",
    "an object holds bytes of another",
    "an object of the layout is gone",
    "a generation was published that is not the next",
    "two changes of one generation happened",
];

/// What happened: the node, or `NODES` if none did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub node: u8,
    pub what: &'static str,
    /// Whether it has to happen at all; what can be left out is a fault.
    pub fault: bool,
}

/// Values 1 and 2 are what the blocks hold at the start.
fn block_of(scenario: &Scenario, value: u8) -> u8 {
    let of = |op: &Op| match op {
        Op::Write { block, value: v } if *v == value => Some(*block),
        _ => None,
    };
    if value <= 2 { value - 1 } else { scenario.programs.iter().flat_map(|p| p.iter()).find_map(of).unwrap() }
}

fn code(mark: Mark) -> (u8, u8, u8) {
    match mark {
        Mark::Layout(generation) => (0, generation as u8, 0),
        Mark::Change(generation) => (1, generation as u8, 0),
        Mark::Writer { node, entry } => (2, node.0 as u8, entry as u8),
    }
}

impl State {
    pub fn start(scenario: &Scenario) -> State {
        let host = |number: usize| Host {
            at: At::Done,
            number: number as u8 + 1,
            op: 0,
            crashed: false,
            lapsed: false,
            registered: false,
            entry: 0,
            bell: false,
            layout: [0; 2],
            generation: 0,
            loaded: 0,
            claim: None,
            ring: 0,
            fresh: 0,
            exists: None,
            mark: None,
            then: None,
            gives_up: false,
        };
        let mut state = State {
            hosts: std::array::from_fn(host),
            layouts: [Record::default(); GENERATIONS],
            claims: [(0, false); GENERATIONS],
            writers: [0; NUMBERS],
            objects: [0; OBJECTS],
            next_object: 3,
            over: 0,
            late: None,
            faults: scenario.faults,
            begun: 0b11,
            acknowledged: 0b11,
            before: [0; WRITES],
            happened: 0,
            broken: 0,
        };
        state.layouts[1] = Record { by: NUMBERS as u8, objects: [1, 2] };
        (state.objects[1], state.objects[2]) = (1, 2);
        for i in 0..NODES {
            state.next_op(scenario, i);
        }
        state
    }

    pub fn broken(&self) -> Option<&'static str> {
        (self.broken > 0).then(|| BROKEN[self.broken as usize])
    }

    pub fn is_done(&self) -> bool {
        self.hosts.iter().all(|host| host.crashed || host.at == At::Done)
    }

    /// All that can happen next.
    pub fn next(&self, scenario: &Scenario, out: &mut Vec<(Label, State)>) {
        for i in 0..NODES {
            if !self.hosts[i].crashed {
                self.steps(scenario, i, out);
            }
            self.fates(scenario, i, out);
        }
        if let Some(mark) = self.late {
            let mut next = *self;
            next.remove(mark);
            next.late = None;
            out.push((Label { node: NODES as u8, what: "the late removal is carried out", fault: false }, next));
        }
        for (_, state) in out {
            state.judge(scenario);
        }
    }

    fn is_over(&self, node: Node) -> bool {
        self.over & (1 << node.0) != 0
    }

    fn standing(&self, i: usize) -> Standing {
        match &self.hosts[i] {
            host if self.is_over(Node(u32::from(host.number))) => Standing::Lost,
            host if host.lapsed => Standing::Lapsed,
            _ => Standing::Held,
        }
    }

    fn listed(&self) -> BTreeSet<Mark> {
        let mut listed = BTreeSet::new();
        for generation in 1..GENERATIONS {
            if self.layouts[generation].by > 0 {
                listed.insert(Mark::Layout(generation as u64));
            }
            if self.claims[generation].0 > 0 {
                listed.insert(Mark::Change(generation as u64));
            }
        }
        for (number, entries) in self.writers.iter().enumerate().filter(|(_, entries)| **entries > 0) {
            for entry in (0..4).filter(|entry| entries & (1 << entry) != 0) {
                listed.insert(Mark::Writer { node: Node(number as u32), entry });
            }
        }
        listed
    }

    fn claim(&self, generation: u8) -> Option<Claim> {
        let (node, drains) = self.claims[generation as usize];
        let node = Node(u32::from(node));
        (node.0 > 0).then_some(Claim { node, generation: u64::from(generation), drains })
    }

    fn marks(&self) -> Marks {
        let listed = self.listed();
        let claim = share::claimed(&listed).and_then(|generation| self.claim(generation as u8));
        Marks::new(&listed, claim)
    }

    fn highest(&self) -> usize {
        (1..GENERATIONS).rev().find(|generation| self.layouts[*generation].by > 0).unwrap()
    }

    fn remove(&mut self, mark: (u8, u8, u8)) {
        let at = mark.1 as usize;
        match mark.0 {
            0 => self.layouts[at] = Record::default(),
            1 => self.claims[at] = (0, false),
            _ => self.writers[at] &= !(1 << mark.2),
        }
    }

    /// Whether the record is there now, and if not whose is.
    fn publish(&mut self, generation: u8, record: Record) -> Created {
        let highest = self.highest();
        let there = &mut self.layouts[generation as usize];
        if there.by > 0 {
            return Created::Exists { mine: *there == record };
        }
        *there = record;
        if generation as usize > highest + 1 {
            self.broken = 4;
        }
        Created::Yes
    }

    fn judge(&mut self, scenario: &Scenario) {
        if self.broken > 0 {
            return;
        }
        let objects = self.layouts[self.highest()].objects;
        for (block, object) in objects.iter().enumerate() {
            let value = self.objects[*object as usize];
            if value == 0 {
                self.broken = 3;
            } else if block_of(scenario, value) != block as u8 {
                self.broken = 2;
            } else if self.is_replaced(scenario, value, block as u8) {
                self.broken = 1;
            }
        }
    }

    /// Whether a write that began after this one was acknowledged is acknowledged, too.
    fn is_replaced(&self, scenario: &Scenario, value: u8, block: u8) -> bool {
        let write = |value: u8| 1u8 << (value - 1);
        let later =
            |other: u8| self.acknowledged & write(other) != 0 && self.before[other as usize - 1] & write(value) != 0;
        (3..=WRITES as u8).any(|other| later(other) && block_of(scenario, other) == block)
    }

    /// What befalls a node.
    fn fates(&self, scenario: &Scenario, i: usize, out: &mut Vec<(Label, State)>) {
        let host = &self.hosts[i];
        let over = self.is_over(Node(u32::from(host.number)));
        let mut push = |what, fault, change: &dyn Fn(&mut State)| {
            let mut next = *self;
            change(&mut next);
            out.push((Label { node: i as u8, what, fault }, next));
        };
        if (host.lapsed || host.crashed) && !over {
            push("is expelled", false, &|s| s.over |= 1 << host.number);
        }
        if host.crashed || (host.at == At::Done && !host.registered) {
            return;
        }
        if host.lapsed && !over {
            push("renews its lease after all", false, &|s| s.hosts[i].lapsed = false);
        }
        if self.faults.lapses > 0 && !host.lapsed {
            push("freezes: its lease ends", true, &|s| {
                s.faults.lapses -= 1;
                s.hosts[i].lapsed = true;
            });
        }
        if self.faults.crashes > 0 {
            push("crashes", true, &|s| {
                s.faults.crashes -= 1;
                // Nothing of what it knew matters any more.
                s.hosts[i] = Host { crashed: true, number: host.number, ..State::start(scenario).hosts[i] };
                s.hosts[i].at = At::Done;
            });
        }
        if self.faults.bells > 0 && host.registered && !host.bell {
            push("hears a doorbell that nobody rang", true, &|s| {
                s.faults.bells -= 1;
                s.hosts[i].bell = true;
            });
        }
        if scenario.guilt == Guilt::Forgetful && host.registered && self.writers[host.number as usize] != 0 {
            push("is forgotten by the store", true, &|s| s.writers[host.number as usize] = 0);
        }
    }

    /// Goes to the next operation, as far as it needs no look at anything shared.
    fn next_op(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        let op = scenario.programs[i].get(host.op as usize);
        let idle = Host {
            generation: 0,
            loaded: 0,
            claim: None,
            ring: 0,
            fresh: 0,
            exists: None,
            mark: None,
            then: None,
            gives_up: false,
            ..*host
        };
        *host = idle;
        host.at = match op {
            Some(Op::Write { .. }) if host.registered && host.bell => At::Deregister,
            Some(Op::Write { .. }) if host.registered => At::Write,
            Some(Op::Write { .. }) => At::Register,
            _ if host.registered => At::Deregister,
            Some(Op::Move { .. } | Op::Add) => At::Begin,
            None => At::Done,
        };
        if !host.registered {
            (host.layout, host.bell) = ([0; 2], false);
        }
        let starts = host.at != At::Deregister;
        if let Some(Op::Write { value, .. }) = op.filter(|_| starts) {
            self.begin_write(*value);
        }
    }

    fn begin_write(&mut self, value: u8) {
        let bit = 1u8 << (value - 1);
        if self.begun & bit == 0 {
            self.begun |= bit;
            self.before[value as usize - 1] = self.acknowledged;
        }
    }

    /// The node joins again under a new number, and does what it was at once more.
    fn rejoin(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        host.number += NODES as u8;
        assert!((host.number as usize) < NUMBERS, "room for the lives of a node");
        (host.lapsed, host.registered, host.bell, host.entry) = (false, false, false, 0);
        self.next_op(scenario, i);
    }

    /// What one node can do next; several outcomes are as many states.
    fn steps(&self, scenario: &Scenario, i: usize, out: &mut Vec<(Label, State)>) {
        let mut next = *self;
        let node = i as u8;
        let host = self.hosts[i];
        let (fault, fine) = (|what| Label { node, what, fault: true }, |what| Label { node, what, fault: false });
        let removal = match host.at {
            At::Deregister => Some((2, host.number, host.entry)),
            At::Remove => host.mark,
            At::Retry => host.claim.map(|(_, generation, _)| (1, generation, 0)),
            _ => None,
        };
        let doubtful = matches!(host.at, At::Claim | At::Publish) && host.exists.is_none() && self.faults.doubts > 0;
        let what = next.step(scenario, i);
        let Some(what) = what else { return };
        out.push((fine(what), next));
        if let Some(mark) = removal.filter(|_| self.faults.late > 0 && self.late.is_none()) {
            let mut again = next;
            again.late = Some(mark);
            again.faults.late -= 1;
            out.push((fault("removes twice, for the first answer was lost; once is yet to come"), again));
        }
        if doubtful {
            let mut unheard = *self;
            unheard.faults.doubts -= 1;
            unheard.step(scenario, i);
            unheard.hosts[i] = host;
            out.push((fault("creates, and the answer is lost"), unheard));
        }
        if host.at == At::Ring && self.faults.silent > 0 {
            let mut silent = *self;
            silent.faults.silent -= 1;
            (silent.hosts[i].at, silent.hosts[i].ring) = (At::Step, 0);
            out.push((fault("rings, and nobody hears it"), silent));
        }
        if host.at == At::Ring && self.faults.give_ups > 0 {
            let mut tired = *self;
            tired.faults.give_ups -= 1;
            let h = &mut tired.hosts[i];
            (h.gives_up, h.ring) = (true, 0);
            if scenario.guilt == Guilt::GivesUpByRemoving {
                h.at = At::Retry;
            } else {
                (h.at, h.claim) = (At::Begin, None);
            }
            out.push((fault("gives its change up"), tired));
        }
        if scenario.guilt == Guilt::MissingIsOver && host.at == At::Ring {
            let mut wrong = *self;
            (wrong.hosts[i].at, wrong.hosts[i].ring) = (At::ChangeLoad, 0);
            out.push((fault("misses the writers' lease files in a listing"), wrong));
        }
    }

    fn step(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let me = self.hosts[i].number;
        match self.hosts[i].at {
            At::Register => Some(self.register(scenario, i)),
            At::List | At::ReadClaim | At::Load => Some(self.enter(scenario, i)),
            At::Write => Some(self.write(scenario, i)),
            At::LookAtLease => self.acknowledge(scenario, i),
            At::Deregister => {
                self.remove((2, me, self.hosts[i].entry));
                let waits = self.hosts[i].claim.is_some();
                let host = &mut self.hosts[i];
                (host.registered, host.bell, host.layout, host.entry) = (false, false, [0; 2], 0);
                if waits {
                    host.at = At::Await
                } else {
                    self.next_op(scenario, i)
                }
                Some("removes its registration")
            }
            At::Await => {
                let (node, generation, drains) = self.hosts[i].claim.unwrap();
                let claim = Claim { node: Node(u32::from(node)), generation: u64::from(generation), drains };
                if share::stands(&claim, &self.marks(), |node| self.is_over(node)) {
                    return None;
                }
                self.next_op(scenario, i);
                Some("sees that the claim stands no more")
            }
            At::EndLoad | At::EndCreate | At::Tidy | At::Remove => Some(self.end(scenario, i)),
            At::Begin | At::BeginReadClaim | At::Claim => self.begin(scenario, i),
            At::Step | At::Ring | At::Retry => Some(self.drain(scenario, i)),
            At::ChangeLoad | At::Copy => Some(self.copy(scenario, i)),
            At::LookBefore | At::Publish | At::LookAfter => self.finish(scenario, i),
            At::DeleteOld | At::DeleteNew => Some(self.delete(scenario, i)),
            At::Done => None,
        }
    }

    fn register(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let me = self.hosts[i].number;
        // A name that was never there: in the model, one that no late removal is about to hit.
        let late = |entry: &u8| self.late == Some((2, me, *entry)) && scenario.guilt != Guilt::OneEntry;
        let entry = (0..4).find(|entry| !late(entry)).unwrap();
        self.writers[me as usize] |= 1 << entry;
        let host = &mut self.hosts[i];
        (host.registered, host.entry, host.at) = (true, entry, At::List);
        "registers"
    }

    /// The writer looks, reads the claim, and loads the layout.
    fn enter(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let (marks, what) = match host.at {
            At::List => {
                let listed = self.listed();
                let marks = Marks::new(&listed, None);
                self.hosts[i].generation = marks.generation as u8;
                if share::claimed(&listed).is_some() {
                    self.hosts[i].at = At::ReadClaim;
                    return "lists the marks, with a claim";
                }
                (marks, "lists the marks")
            }
            At::ReadClaim => {
                let Some(claim) = self.claim(host.generation + 1) else {
                    (self.hosts[i].at, self.hosts[i].generation) = (At::List, 0);
                    return "finds the claim gone";
                };
                let generation = u64::from(host.generation);
                (Marks { generation, claim: Some(claim), ..Marks::default() }, "reads the claim")
            }
            _ => {
                let record = self.layouts[host.generation as usize];
                let found = record.by > 0;
                let host = &mut self.hosts[i];
                (host.at, host.layout) = (At::List, record.objects);
                host.loaded = if found { host.generation } else { 0 };
                if found && scenario.guilt == Guilt::LoadedUnseen {
                    (host.at, host.loaded) = (At::Write, 0);
                }
                host.generation = 0;
                return if found { "loads the layout" } else { "finds the layout gone" };
            }
        };
        let loaded = (host.loaded > 0).then_some(u64::from(host.loaded));
        let decision = share::enter(loaded, &marks, |node| self.is_over(node));
        let host = &mut self.hosts[i];
        host.loaded = 0;
        match decision {
            Enter::Load(_) => (host.at, host.layout) = (At::Load, [0; 2]),
            Enter::Go => (host.at, host.generation) = (At::Write, 0),
            Enter::Wait(claim) => {
                (host.at, host.generation) = (At::Deregister, 0);
                host.claim = Some((claim.node.0 as u8, claim.generation as u8, claim.drains));
            }
            Enter::End(_) => (host.at, host.then, host.layout) = (At::EndLoad, Some(Then::List), [0; 2]),
        }
        what
    }

    fn write(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let Some(Op::Write { block, value }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        let object = &mut self.objects[host.layout[*block as usize] as usize];
        if *object == 0 {
            (self.hosts[i].at, self.hosts[i].layout) = (At::List, [0; 2]);
            return "writes, and the object is gone";
        }
        *object = *value;
        self.hosts[i].at = At::LookAtLease;
        "writes"
    }

    fn acknowledge(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let Some(Op::Write { value, .. }) = scenario.programs[i].get(self.hosts[i].op as usize) else { panic!() };
        let standing = if scenario.guilt == Guilt::NoLook { Standing::Held } else { self.standing(i) };
        match share::written(standing, !self.hosts[i].registered) {
            Written::Acknowledge => {
                self.acknowledged |= 1 << (value - 1);
                self.hosts[i].op += 1;
                self.next_op(scenario, i);
                Some("holds its lease and acknowledges the write")
            }
            Written::Wait => None,
            Written::Again => {
                self.rejoin(scenario, i);
                Some("has lost its lease: it joins again and writes again")
            }
        }
    }

    /// Ends a claim by publishing the next generation, and takes litter away.
    fn end(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        match host.at {
            At::EndLoad if scenario.guilt == Guilt::ClaimJustRemoved => {
                self.remove((1, host.generation + 1, 0));
                self.tidied(scenario, i);
                "removes the claim of a node that is over"
            }
            At::EndLoad => {
                let record = self.layouts[host.generation as usize];
                if record.by == 0 {
                    self.tidied(scenario, i);
                    return "finds the layout gone";
                }
                self.hosts[i].at = At::EndCreate;
                self.hosts[i].layout = record.objects;
                "loads the layout to end a claim"
            }
            At::EndCreate => {
                let record = Record { by: host.number, objects: host.layout };
                let created = self.publish(host.generation + 1, record);
                (self.hosts[i].at, self.hosts[i].layout, self.hosts[i].generation) = (At::Tidy, [0; 2], 0);
                if created == Created::Yes { "ends the claim: the next generation" } else { "finds the claim ended" }
            }
            At::Tidy => {
                self.find_litter(scenario, i);
                "lists litter"
            }
            _ => {
                self.remove(host.mark.unwrap());
                self.find_litter(scenario, i);
                "removes litter"
            }
        }
    }

    fn find_litter(&mut self, scenario: &Scenario, i: usize) {
        match share::litter(&self.listed(), |node| self.is_over(node)).first() {
            Some(mark) => (self.hosts[i].at, self.hosts[i].mark) = (At::Remove, Some(code(*mark))),
            None => self.tidied(scenario, i),
        }
    }

    fn tidied(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        host.mark = None;
        match host.then.take().unwrap() {
            Then::List => (host.at, host.layout, host.generation) = (At::List, [0; 2], 0),
            Then::Begin => self.begin_anew(scenario, i),
            Then::DeleteOld => host.at = At::DeleteOld,
        }
    }

    fn begin_anew(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        if host.gives_up {
            host.op += 1;
        }
        (host.layout, host.gives_up) = ([0; 2], false);
        self.next_op(scenario, i);
    }

    fn drains(&self, scenario: &Scenario, i: usize) -> bool {
        matches!(scenario.programs[i].get(self.hosts[i].op as usize), Some(Op::Move { .. }))
    }

    fn begin(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let host = self.hosts[i];
        let me = Node(u32::from(host.number));
        let (marks, what) = match host.at {
            At::Begin if self.standing(i) == Standing::Lost => {
                self.rejoin(scenario, i);
                return Some("has lost its lease: it joins again");
            }
            At::Begin => {
                let listed = self.listed();
                let marks = Marks::new(&listed, None);
                self.hosts[i].generation = marks.generation as u8;
                if share::claimed(&listed).is_some() {
                    self.hosts[i].at = At::BeginReadClaim;
                    return Some("lists the marks, with a claim");
                }
                (marks, "lists the marks")
            }
            At::BeginReadClaim => {
                let Some(claim) = self.claim(host.generation + 1) else {
                    (self.hosts[i].at, self.hosts[i].generation) = (At::Begin, 0);
                    return Some("finds the claim gone");
                };
                let generation = u64::from(host.generation);
                (Marks { generation, claim: Some(claim), ..Marks::default() }, "reads the claim")
            }
            _ => {
                let (_, generation, drains) = host.claim.unwrap();
                let free = self.claims[generation as usize].0 == 0;
                if free {
                    self.claims[generation as usize] = (host.number, drains);
                    self.hosts[i].at = At::Step;
                } else {
                    (self.hosts[i].at, self.hosts[i].claim) = (At::Begin, None);
                }
                return Some(if free { "claims the next generation" } else { "finds it claimed" });
            }
        };
        let decision = share::begin(me, self.drains(scenario, i), &marks, |node| self.is_over(node));
        let gives_up = host.gives_up;
        let host = &mut self.hosts[i];
        let seen = |claim: Claim| Some((claim.node.0 as u8, claim.generation as u8, claim.drains));
        match decision {
            // Its claim is gone: there is nothing to end.
            Begin::Claim(_) | Begin::Wait(_) if gives_up => self.begin_anew(scenario, i),
            Begin::Claim(claim) => (host.at, host.claim, host.generation) = (At::Claim, seen(claim), 0),
            Begin::Wait(claim) => (host.at, host.claim, host.generation) = (At::Await, seen(claim), 0),
            Begin::End(_) => (host.at, host.then) = (At::EndLoad, Some(Then::Begin)),
        }
        Some(what)
    }

    fn drain(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let (node, generation, drains) = host.claim.unwrap();
        let claim = Claim { node: Node(u32::from(node)), generation: u64::from(generation), drains };
        match host.at {
            At::Step => {
                let marks = self.marks();
                let step = share::step(&claim, &marks, |node| self.is_over(node));
                let host = &mut self.hosts[i];
                match step {
                    Step::Go => (host.at, host.generation) = (At::ChangeLoad, marks.generation as u8),
                    Step::Drain(nodes) => {
                        host.at = At::Ring;
                        host.ring = nodes.iter().fold(0, |ring, node| ring | 1 << node.0);
                    }
                    Step::Retry => host.at = At::Retry,
                }
                "looks who writes"
            }
            At::Ring => {
                for other in &mut self.hosts {
                    other.bell |= host.ring & (1 << other.number) != 0 && other.registered;
                }
                (self.hosts[i].at, self.hosts[i].ring) = (At::Step, 0);
                "rings at the writers"
            }
            _ => {
                self.remove((1, generation, 0));
                self.begin_anew(scenario, i);
                "removes its claim"
            }
        }
    }

    fn copy(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let (_, generation, _) = host.claim.unwrap();
        if host.at == At::ChangeLoad {
            let record = self.layouts[generation as usize - 1];
            let found = record.by > 0;
            let moves = self.drains(scenario, i);
            let next = if moves { At::Copy } else { At::LookBefore };
            (self.hosts[i].at, self.hosts[i].generation) = (if found { next } else { At::Step }, 0);
            self.hosts[i].layout = record.objects;
            return if found { "loads the layout to change it" } else { "finds the layout gone" };
        }
        let Some(Op::Move { block }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        let value = self.objects[host.layout[*block as usize] as usize];
        if value == 0 {
            (self.hosts[i].at, self.hosts[i].layout) = (At::Step, [0; 2]);
            return "finds the object gone";
        }
        let lowest = (1..OBJECTS).find(|object| self.objects[*object] == 0).unwrap() as u8;
        let fresh = if scenario.guilt == Guilt::NumbersReused { lowest } else { self.next_object };
        self.next_object += 1;
        assert!((self.next_object as usize) < OBJECTS, "room for objects");
        self.objects[fresh as usize] = value;
        (self.hosts[i].at, self.hosts[i].fresh) = (At::LookBefore, fresh);
        "copies the block into a new object"
    }

    fn finish(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let host = self.hosts[i];
        let (_, generation, _) = host.claim.unwrap();
        let standing = self.standing(i);
        match (host.at, standing) {
            (At::LookBefore, Standing::Lapsed) => None,
            (At::LookBefore, Standing::Lost) => {
                self.rejoin(scenario, i);
                Some("has lost its lease: it joins again")
            }
            (At::LookBefore, Standing::Held) => {
                self.hosts[i].at = At::Publish;
                Some("holds its lease")
            }
            (At::Publish, _) => {
                let mut objects = host.layout;
                if let Some(Op::Move { block }) = scenario.programs[i].get(host.op as usize) {
                    objects[*block as usize] = host.fresh;
                }
                let created = self.publish(generation, Record { by: host.number, objects });
                self.hosts[i].exists = (created != Created::Yes).then_some(created == Created::Exists { mine: true });
                self.hosts[i].at = At::LookAfter;
                Some(if created == Created::Yes { "publishes" } else { "finds the generation published" })
            }
            _ => {
                let created = host.exists.map_or(Created::Yes, |mine| Created::Exists { mine });
                self.conclude(scenario, i, generation, share::published(created, standing))
            }
        }
    }

    fn conclude(&mut self, scenario: &Scenario, i: usize, generation: u8, end: Published) -> Option<&'static str> {
        self.hosts[i].exists = None;
        match end {
            Published::Happened => {
                if self.happened & (1 << generation) != 0 {
                    self.broken = 5;
                }
                self.happened |= 1 << generation;
                (self.hosts[i].at, self.hosts[i].then) = (At::Tidy, Some(Then::DeleteOld));
                self.hosts[i].claim = None;
                Some("holds its lease: the change happened")
            }
            Published::Not => {
                self.hosts[i].at = At::DeleteNew;
                self.hosts[i].claim = None;
                Some("sees that its change did not happen")
            }
            Published::Wait => None,
            Published::Unknown => {
                self.hosts[i].op += 1;
                self.rejoin(scenario, i);
                Some("has lost its lease, and leaves its change to a check")
            }
        }
    }

    fn delete(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let moved = match scenario.programs[i].get(host.op as usize) {
            Some(Op::Move { block }) => Some(host.layout[*block as usize]),
            _ => None,
        };
        let old = host.at == At::DeleteOld;
        let gone = if old { moved } else { moved.map(|_| host.fresh) };
        if let Some(object) = gone {
            self.objects[object as usize] = 0;
        }
        self.hosts[i].op += u8::from(old);
        self.begin_anew(scenario, i);
        if old { "deletes the old object" } else { "deletes its new object" }
    }
}
