//! Three nodes and one file of two blocks, each in an object of its own: every state, and what can happen next.
//!
//! A step is one operation at the shared file system, with the node's decision after it. The decision comes from
//! [`share`](crate::cluster::share): the model only carries it out. A lease may end at any moment, which stands for a
//! node that freezes or is cut off; its steps go on at any later time. Only then may it be expelled.

mod changer;
mod fates;
mod fingerprint;
mod judge;
mod reader;
mod shared;
mod size;
mod step;
mod writer;

use super::scenario::{Faults, Guilt, NODES, Op, Scenario, Start, block_of};
use crate::cluster::share::{self, Begin, Claim, Created, Enter, Mark, Marks, Published, Step, Written};
use crate::cluster::{Node, Standing};
use std::collections::BTreeSet;

/// Generations, objects and lives that the arrays below have room for; a run that needs more panics.
const GENERATIONS: usize = 12;
const OBJECTS: usize = 12;
const NUMBERS: usize = 16;
const WRITES: usize = 8;
/// Value of a new object of block 1 without content.
const EMPTY: u8 = WRITES as u8 + 1;

/// Place of a node in its program, named by its next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Register,
    List,
    ReadClaim,
    Load,
    AskSize,
    MarkGrowth,
    Write,
    LookAtLease,
    /// A writer sets the size of the file before it removes its mark.
    SaySize,
    Unmark,
    Deregister,
    Await,
    EndLoad,
    EndCreate,
    /// The node lists and removes obsolete marks, then continues at `then`.
    Tidy,
    Remove,
    Begin,
    BeginReadClaim,
    Claim,
    Step,
    Ring,
    Retry,
    /// A node with exclusive use of the file reads the size of growth by nodes that are over.
    AskReach,
    SettleSize,
    SettleMarks,
    ChangeLoad,
    MarkCut,
    CutSize,
    CutObject,
    UnmarkCuts,
    Copy,
    LookBefore,
    Publish,
    LookAfter,
    DeleteOld,
    DeleteNew,
    ReadList,
    ReadLoad,
    ReadSize,
    ReadReach,
    ReadBlock,
    Done,
}

/// Further state of a node; unused fields are zero, so that equal states are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host {
    at: At,
    number: u8,
    op: u8,
    crashed: bool,
    lapsed: bool,
    registered: bool,
    entry: u8,
    /// Whether the node was requested to drain.
    bell: bool,
    /// Layout by which the node writes; zeros: none.
    layout: [u8; 2],
    generation: u8,
    /// The generation of `layout`, until a look has shown that it is the highest; 0: none.
    loaded: u8,
    claim: Option<(u8, u8, bool)>,
    /// Set of node numbers: nodes to ring at, or nodes whose marks of growth it removes.
    ring: u16,
    fresh: u8,
    exists: Option<bool>,
    mark: Option<(u8, u8, u8)>,
    then: Option<Then>,
    gives_up: bool,
    /// Writes acknowledged when a read began; 0: it has not begun.
    since: u8,
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The writer lists the marks again.
    List,
    /// The changer starts again.
    Begin,
    /// The change happened.
    DeleteOld,
    /// The cut is acknowledged.
    Cut,
    /// The objects hold no bytes beyond the end.
    Clean,
}

/// A node's view of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    /// Size in blocks that a writer will set, or that a reader has found.
    known: u8,
    /// Whether the node needs exclusive use to cut bytes that an unfinished cut left beyond the end.
    cleans: bool,
    /// Generation of the layout by which the node writes or reads.
    basis: u8,
    /// Whether the node has set its mark of growth.
    marked: bool,
    /// Whether the objects must be queried for the size, since a listing showed a mark of a cut.
    asks: bool,
    was_cut: bool,
    /// Marks of cuts that the node removes.
    cuts: u16,
    /// Writes cut away before a read began.
    gone: u8,
    /// Listings of a reader that found no byte within the size: the first or the second is due.
    looks: u8,
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
    /// The size in the stub, in blocks.
    size: u8,
    /// Marks of growth by node number: entry and generation as in `code`; 0: none.
    grows: [u8; NUMBERS],
    cuts: u16,
    /// Content of each object; 0: no such object.
    objects: [u8; OBJECTS],
    next_object: u8,
    over: u16,
    /// Removal that the file system carries out late.
    late: Option<(u8, u8, u8)>,
    faults: Faults,
    begun: u8,
    acknowledged: u8,
    /// For each write, the writes that were acknowledged when it began.
    before: [u8; WRITES],
    /// Generations whose changer got the result that its change happened.
    happened: u16,
    /// Cuts that have set the size, and the writes that they removed.
    shortened: u8,
    gone: u8,
    /// Writes that nodes did after they were over.
    stray: u8,
    broken: u8,
}

const BROKEN: [&str; 13] = [
    "",
    "an acknowledged write is not in the layout",
    "an object holds bytes of another",
    "an object of the layout is gone",
    "a generation was published that is not the next",
    "two changes of one generation happened",
    "a reader sees older bytes than were acknowledged before it opened the file",
    "the file is shorter than what was acknowledged",
    "the file is longer than what was written",
    "bytes that were cut come back",
    "growth of a node that is not over is settled",
    "bytes lie beyond the end, and no mark says so",
    "a reader gets zeros that were never written",
];

/// Event of a step: the node, or `NODES` if none did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub node: u8,
    pub what: &'static str,
    /// Whether the step is a fault; all other steps have to happen.
    pub fault: bool,
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
            sizes: Sizes::default(),
        };
        let mut state = State {
            hosts: std::array::from_fn(host),
            layouts: [Record::default(); GENERATIONS],
            claims: [(0, false); GENERATIONS],
            writers: [0; NUMBERS],
            size: 2,
            grows: [0; NUMBERS],
            cuts: 0,
            objects: [0; OBJECTS],
            next_object: 3,
            over: 0,
            late: None,
            faults: scenario.faults,
            begun: 0b11,
            acknowledged: 0b11,
            before: [0; WRITES],
            happened: 0,
            shortened: 0,
            gone: 0,
            stray: 0,
            broken: 0,
        };
        state.layouts[1] = Record { by: NUMBERS as u8, objects: [1, 2] };
        (state.objects[1], state.objects[2]) = (1, 2);
        if scenario.start == Start::Short {
            (state.size, state.objects[2], state.begun, state.acknowledged) = (1, EMPTY, 0b1, 0b1);
        }
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

    /// Adds all possible next steps and their states.
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
}
