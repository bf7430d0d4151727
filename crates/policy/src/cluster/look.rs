//! Scan of a volume by all its nodes: assigns parts, and records whether the scan is complete.
//!
//! ```text
//!   Begin    each node reports the objects in creation   all lists of objects are older, all layouts are read later
//!   Walk     each node reads its parts of the names; parts of a lost node go to another
//!   CatchUp  each node reads again directories that changed, until a round finds no change
//!   Account  each node reports its findings, the objects that files name, and other objects in use
//!   Compare, Repair   if configured
//! ```
//! A step begins when all nodes have finished the one before. A name may move from an unread directory to one already
//! read. The later change of the read directory makes `CatchUp` read it again.
//!
//! An object is an orphan if no layout names it and no node creates or uses it. This holds only for a complete scan, so
//! not if a node stopped answering.

use super::Node;
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Options of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether every byte is read and compared.
    pub compares: bool,
    /// Whether errors found are repaired.
    pub repairs: bool,
    /// Limit on rounds of `CatchUp`.
    pub rounds_max: u32,
}

impl Default for Config {
    /// The number of rounds is a guess.
    fn default() -> Config {
        Config { compares: false, repairs: false, rounds_max: 5 }
    }
}

/// Step that a node is requested to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// Report the objects in creation.
    Begin,
    /// Read one part of the names.
    Walk {
        /// Part number, from 0.
        part: u32,
        /// Number of parts.
        of: u32,
    },
    /// Read again the directories that changed.
    CatchUp,
    /// Report the findings.
    Account,
    /// Read every byte of the node's files.
    Compare,
    /// Repair the errors found.
    Repair,
}

/// Input of [`Look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node has done its step.
    Done {
        /// Node that answers.
        node: Node,
        /// Whether anything changed since the node's last read.
        changed: bool,
    },
    /// A node's number is over, or the node does not answer.
    Over {
        /// Node to drop.
        node: Node,
    },
}

/// Output of [`Look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Request a step from a node. It ends with one event about the node.
    Ask {
        /// Node that shall answer.
        node: Node,
        /// Step to do.
        task: Task,
    },
    /// Drop a node that is over or does not answer, with all that it reported.
    GiveUp {
        /// Node to drop.
        node: Node,
    },
    /// All nodes have accounted: compare their reports.
    Judge,
    /// The scan has ended.
    End,
}

/// Returns the part that a path below the root belongs to. Inode numbers may differ between nodes; paths do not.
pub fn part_of(path: &str, parts: u32) -> u32 {
    // FNV-1a, 64 bits, with the finalizer of MurmurHash3: names often differ in their last byte only.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = path.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    ((hash ^ (hash >> 33)) % u64::from(parts.max(1))) as u32
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Begin,
    Walk,
    CatchUp,
    Account,
    Compare,
    Repair,
    Ended,
}

/// State machine of a scan, run by one node.
#[derive(Debug, Default)]
pub struct Look {
    config: Config,
    stage: Stage,
    /// Nodes that take part.
    there: BTreeSet<Node>,
    gone: Vec<Node>,
    /// Node that read, or reads, each part; `None`: to be assigned.
    parts: Vec<Option<Node>>,
    /// Steps under way.
    asked: BTreeMap<Node, Task>,
    rounds: u32,
    changed: bool,
    restless: bool,
    actions: VecDeque<Action>,
}

impl Look {
    /// Begins a scan by these nodes.
    pub fn new(config: Config, nodes: impl IntoIterator<Item = Node>) -> Look {
        let mut look = Look { config, there: nodes.into_iter().collect(), ..Look::default() };
        look.ask_all(Task::Begin);
        look
    }

    /// Nodes that were dropped before the end.
    pub fn gone(&self) -> &[Node] {
        &self.gone
    }

    /// Whether names changed in every round of `CatchUp`, so that some may have been missed.
    pub fn is_restless(&self) -> bool {
        self.restless
    }

    /// Whether all nodes answered to the end and every name was read.
    pub fn is_complete(&self) -> bool {
        self.gone.is_empty() && !self.restless
    }

    fn ask(&mut self, node: Node, task: Task) {
        self.asked.insert(node, task);
        self.actions.push_back(Action::Ask { node, task });
    }

    fn ask_all(&mut self, task: Task) {
        let nodes = self.there.clone();
        nodes.into_iter().for_each(|node| self.ask(node, task));
    }

    fn give_up(&mut self, node: Node) {
        if !self.there.remove(&node) {
            return;
        }
        self.asked.remove(&node);
        self.gone.push(node);
        self.actions.push_back(Action::GiveUp { node });
        let mut lost = false;
        for part in self.parts.iter_mut().filter(|part| **part == Some(node)) {
            (*part, lost) = (None, true);
        }
        // After `Judge` the result stays as it is, and is reported as incomplete.
        if lost && matches!(self.stage, Stage::CatchUp | Stage::Account) {
            (self.stage, self.rounds) = (Stage::Walk, 0);
        }
    }

    /// Assigns one free part each to the nodes with the fewest parts. Returns whether a part was free.
    fn deal(&mut self) -> bool {
        let of = self.parts.len() as u32;
        let mut free: Vec<(usize, Node)> = self.there.iter().map(|node| (self.parts_of(*node), *node)).collect();
        free.sort_unstable();
        let open: Vec<usize> = (0..self.parts.len()).filter(|part| self.parts[*part].is_none()).collect();
        for (part, (_, node)) in open.iter().zip(free) {
            self.parts[*part] = Some(node);
            self.ask(node, Task::Walk { part: *part as u32, of });
        }
        !open.is_empty()
    }

    fn parts_of(&self, node: Node) -> usize {
        self.parts.iter().filter(|of| **of == Some(node)).count()
    }

    /// Begins the next step if no request is outstanding.
    fn go_on(&mut self) {
        if !self.asked.is_empty() {
            return;
        }
        if self.there.is_empty() && self.stage != Stage::Ended {
            self.stage = Stage::Ended;
            self.actions.push_back(Action::End);
        }
        match self.stage {
            Stage::Begin => {
                (self.stage, self.parts) = (Stage::Walk, vec![None; self.there.len()]);
                self.deal();
            }
            Stage::Walk => {
                if !self.deal() {
                    self.stage = Stage::CatchUp;
                    self.catch_up();
                }
            }
            Stage::CatchUp if self.changed && self.rounds < self.config.rounds_max => self.catch_up(),
            Stage::CatchUp => {
                (self.restless, self.stage) = (self.changed, Stage::Account);
                self.ask_all(Task::Account);
            }
            Stage::Account => {
                self.actions.push_back(Action::Judge);
                self.stage = Stage::Compare;
                if self.config.compares { self.ask_all(Task::Compare) } else { self.go_on() }
            }
            Stage::Compare => {
                self.stage = Stage::Repair;
                if self.config.repairs { self.ask_all(Task::Repair) } else { self.go_on() }
            }
            Stage::Repair => {
                self.stage = Stage::Ended;
                self.actions.push_back(Action::End);
            }
            Stage::Ended => {}
        }
    }

    fn catch_up(&mut self) {
        (self.rounds, self.changed) = (self.rounds + 1, false);
        self.ask_all(Task::CatchUp);
    }
}

impl Machine for Look {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, _: Time, event: Event) {
        match event {
            Event::Done { node, changed } => {
                let task = self.asked.remove(&node);
                self.changed |= changed && task == Some(Task::CatchUp);
            }
            Event::Over { node } => self.give_up(node),
        }
        self.go_on();
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

#[cfg(test)]
mod tests;
