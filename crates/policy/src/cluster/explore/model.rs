//! Three nodes and one file of two blocks, each in an object of its own: every state, and what can happen next.
//!
//! A step is one operation at the shared file system, with all that the node thinks about it. What it thinks comes from
//! [`share`](crate::cluster::share): the model only carries it out. A lease may end at any moment, which stands for a
//! node that freezes or is cut off; its steps go on at any later time. Only then may it be expelled.

mod changer;
mod fingerprint;
mod reader;
mod writer;

use super::scenario::{Faults, Guilt, NODES, Op, Scenario, block_of};
use crate::cluster::share::{self, Begin, Claim, Created, Enter, Mark, Marks, Published, Step, Written};
use crate::cluster::{Node, Standing};
use std::collections::BTreeSet;

/// Generations, objects and lives that the arrays below have room for; a run that needs more panics.
const GENERATIONS: usize = 12;
const OBJECTS: usize = 12;
const NUMBERS: usize = 16;
const WRITES: usize = 8;

/// Where a node is in its program; named by what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    ReadList,
    ReadLoad,
    ReadBlock,
    Done,
}

/// What a node knows besides; what it needs no more is zero, so that equal states are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// What was acknowledged when a read began; 0: it has not begun.
    since: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The writer looks again.
    List,
    /// The changer begins anew.
    Begin,
    /// The change happened.
    DeleteOld,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Record {
    /// The number of the publisher; 0: there is none.
    by: u8,
    objects: [u8; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

const BROKEN: [&str; 7] = [
    "",
    "an acknowledged write is not in the layout",
    "an object holds bytes of another",
    "an object of the layout is gone",
    "a generation was published that is not the next",
    "two changes of one generation happened",
    "a reader sees older bytes than were acknowledged before it opened the file",
];

/// What happened: the node, or `NODES` if none did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub node: u8,
    pub what: &'static str,
    /// Whether it has to happen at all; what can be left out is a fault.
    pub fault: bool,
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
            since: 0,
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
            } else if self.is_replaced(scenario, value, self.acknowledged) {
                self.broken = 1;
            }
        }
    }

    /// Whether one of these writes began after this one was acknowledged.
    fn is_replaced(&self, scenario: &Scenario, value: u8, by: u8) -> bool {
        let write = |value: u8| 1u8 << (value - 1);
        let later = |other: u8| by & write(other) != 0 && self.before[other as usize - 1] & write(value) != 0;
        (3..=WRITES as u8).any(|other| later(other) && block_of(scenario, other) == block_of(scenario, value))
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
        if self.faults.expulsions > 0 && !over {
            push("freezes: its lease ends, and it is expelled", true, &|s| {
                s.faults.expulsions -= 1;
                s.over |= 1 << host.number;
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
            since: 0,
            ..*host
        };
        *host = idle;
        host.at = match op {
            Some(Op::Write { .. }) if host.registered && host.bell => At::Deregister,
            Some(Op::Write { .. }) if host.registered => At::Write,
            Some(Op::Write { .. }) => At::Register,
            _ if host.registered => At::Deregister,
            Some(Op::Move { .. } | Op::Add) => At::Begin,
            Some(Op::Settle) => At::Begin,
            Some(Op::Read { .. }) => At::ReadList,
            None => At::Done,
        };
        if !host.registered {
            (host.layout, host.bell) = ([0; 2], false);
        }
        host.gives_up = matches!(op, Some(Op::Settle));
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
            At::ReadList | At::ReadLoad | At::ReadBlock => Some(self.read(scenario, i)),
            At::Done => None,
        }
    }
}
