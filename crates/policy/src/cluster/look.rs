//! One look through a volume by all its nodes: who looks at which part of the names, whom to ask again, and whether everything was seen.
//!
//! ```text
//!   Begin    each says what it is making        all lists of objects are older, all layouts are read later
//!   Walk     each looks at its part of the names; the part of one that is gone goes to another
//!   CatchUp  each looks again at directories that changed, until in one round none did
//!   Account  each says what it found, what files name, and what it answers for besides
//!   Compare, Repair   if that is wanted
//! ```
//! A step begins when all who are there have done the one before. So a name that moves from a directory that was not read to one that was
//! changes one of them after all were read, and is seen in `CatchUp`. An object that no layout names, and that nobody was making or answers
//! for, is nobody's: only if everything was seen, which it was not when one node did not answer to the end.

use super::Node;
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// What is wanted, and the patience with those who are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether every byte is to be read.
    pub compares: bool,
    /// Whether what is wrong is to be set right.
    pub repairs: bool,
    /// After so long without a word a node is asked again: a message may get lost.
    pub again: Time,
    /// After so long without a word it does not answer. More than a lease lasts, so that one that is dead is over before.
    pub silent: Time,
    /// Rounds of catching up.
    pub rounds_max: u32,
}

impl Default for Config {
    /// The spans and the rounds are guesses: one that works says so each time it is asked.
    fn default() -> Config {
        Config {
            compares: false,
            repairs: false,
            again: Time::from_millis(500),
            silent: Time::from_millis(15_000),
            rounds_max: 5,
        }
    }
}

/// What a node is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// Say what it is making.
    Begin,
    /// Look at a part of the names.
    Walk {
        /// Which, from 0 on.
        part: u32,
        /// Of how many.
        of: u32,
    },
    /// Look again at directories that changed.
    CatchUp,
    /// Say what it found.
    Account,
    /// Read every byte of its files.
    Compare,
    /// Set right what it found.
    Repair,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node works at what it was asked.
    Works {
        /// The node.
        node: Node,
    },
    /// A page of an answer came.
    Page {
        /// The node.
        node: Node,
        /// What was asked.
        number: u32,
        /// Which page, from 0 on.
        page: u32,
        /// It is the last.
        is_last: bool,
        /// Something was not as it was when the node looked before.
        changed: bool,
    },
    /// A node is over.
    Over {
        /// The node.
        node: Node,
    },
    /// Time went by.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask a node. Whoever is asked twice does it once, and gives the page again.
    Ask {
        /// The node.
        node: Node,
        /// The number of the question, which goes up for each node.
        number: u32,
        /// What for.
        task: Task,
        /// The page of the answer that is wanted.
        page: u32,
    },
    /// A node is not asked any more: it is over, or it does not answer. What it said counts no more.
    GiveUp {
        /// The node.
        node: Node,
    },
    /// All that is there was accounted for.
    Judge,
    /// That is all.
    End,
}

/// Which of so many parts a name belongs to, by its path below the root. The same on all nodes: inode numbers need not be.
pub fn part_of(path: &str, parts: u32) -> u32 {
    // FNV-1a, 64 bits, mixed as MurmurHash3 does it in the end: names often differ in their last byte only.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = path.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    ((hash ^ (hash >> 33)) % u64::from(parts.max(1))) as u32
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Walk,
    CatchUp,
    Account,
    Compare,
    Repair,
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u32,
    task: Task,
    page: u32,
    at: Time,
    heard: Time,
}

/// The machine.
#[derive(Debug)]
pub struct Look {
    config: Config,
    now: Time,
    stage: Stage,
    /// Those that take part, each with the number of the last question.
    there: BTreeMap<Node, u32>,
    gone: Vec<Node>,
    /// Who looked at, or looks at, each part.
    parts: Vec<Option<Node>>,
    asked: BTreeMap<Node, Asked>,
    rounds: u32,
    changed: bool,
    restless: bool,
    actions: VecDeque<Action>,
}

impl Look {
    /// A look by these nodes, of which the one that has it done goes on to the end.
    pub fn new(config: Config, now: Time, nodes: impl IntoIterator<Item = Node>) -> Look {
        let there = nodes.into_iter().map(|node| (node, 0)).collect();
        let mut look = Look {
            config,
            now,
            stage: Stage::Begin,
            there,
            gone: Vec::new(),
            parts: Vec::new(),
            asked: BTreeMap::new(),
            rounds: 0,
            changed: false,
            restless: false,
            actions: VecDeque::new(),
        };
        look.ask_all(Task::Begin);
        look
    }

    /// The nodes that did not answer to the end.
    pub fn gone(&self) -> &[Node] {
        &self.gone
    }

    /// Whether names came and went faster than they could be read.
    pub fn is_restless(&self) -> bool {
        self.restless
    }

    /// Whether all nodes answered, and every name was seen.
    pub fn is_complete(&self) -> bool {
        self.gone.is_empty() && !self.restless
    }

    /// What must hold after every event.
    pub fn check(&self) {
        assert!(self.asked.keys().all(|node| self.there.contains_key(node)), "only those that are there are asked");
        assert!(self.parts.iter().flatten().all(|node| self.there.contains_key(node)), "a part of one that is gone");
        let accounts = matches!(self.stage, Stage::CatchUp | Stage::Account);
        assert!(!accounts || self.parts.iter().all(Option::is_some), "a part that nobody looks at");
        assert!(self.stage == Stage::Ended || !self.asked.is_empty(), "nobody is asked");
    }

    fn ask(&mut self, node: Node, task: Task) {
        let Some(number) = self.there.get_mut(&node) else { return };
        *number += 1;
        let (number, now) = (*number, self.now);
        self.asked.insert(node, Asked { number, task, page: 0, at: now, heard: now });
        self.actions.push_back(Action::Ask { node, number, task, page: 0 });
    }

    fn ask_all(&mut self, task: Task) {
        let nodes: Vec<Node> = self.there.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.ask(node, task));
    }

    fn give_up(&mut self, node: Node) {
        if self.there.remove(&node).is_none() {
            return;
        }
        self.asked.remove(&node);
        self.gone.push(node);
        self.actions.push_back(Action::GiveUp { node });
        let mut lost = false;
        for part in self.parts.iter_mut().filter(|part| **part == Some(node)) {
            (*part, lost) = (None, true);
        }
        // What was judged stays judged: it is said that not everything was seen.
        if lost && matches!(self.stage, Stage::CatchUp | Stage::Account) {
            (self.stage, self.rounds) = (Stage::Walk, 0);
        }
    }

    /// Those with the fewest parts get what nobody has, one each at a time. Whether there was something.
    fn deal(&mut self) -> bool {
        let of = self.parts.len() as u32;
        let mut free: Vec<(usize, Node)> = self.there.keys().map(|node| (self.parts_of(*node), *node)).collect();
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

    /// All who were asked have answered, or are gone.
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

    fn page(&mut self, node: Node, number: u32, page: u32, is_last: bool, changed: bool) {
        let now = self.now;
        let Some(asked) = self.asked.get_mut(&node) else { return };
        asked.heard = now;
        if (asked.number, asked.page) != (number, page) {
            return; // it came twice
        }
        if is_last {
            self.changed |= changed && asked.task == Task::CatchUp;
            self.asked.remove(&node);
            return;
        }
        (asked.page, asked.at) = (page + 1, now);
        let (task, page) = (asked.task, asked.page);
        self.actions.push_back(Action::Ask { node, number, task, page });
    }

    fn tick(&mut self) {
        let (now, silent, again) = (self.now, self.config.silent, self.config.again);
        let is_silent = |asked: &Asked| now.since(asked.heard) >= silent;
        let gone: Vec<Node> = self.asked.iter().filter(|(_, asked)| is_silent(asked)).map(|(node, _)| *node).collect();
        gone.into_iter().for_each(|node| self.give_up(node));
        for (node, asked) in &mut self.asked {
            if now.since(asked.at) >= again {
                asked.at = now;
                let Asked { number, task, page, .. } = *asked;
                self.actions.push_back(Action::Ask { node: *node, number, task, page });
            }
        }
    }
}

impl Machine for Look {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::Works { node } => {
                if let Some(asked) = self.asked.get_mut(&node) {
                    asked.heard = self.now;
                }
            }
            Event::Page { node, number, page, is_last, changed } => self.page(node, number, page, is_last, changed),
            Event::Over { node } => self.give_up(node),
            Event::Tick => self.tick(),
        }
        self.go_on();
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.asked.values().map(|asked| asked.at + self.config.again).min()
    }
}

#[cfg(test)]
mod tests;
