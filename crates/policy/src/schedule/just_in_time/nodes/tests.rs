//! Tests of the table by example, and with three nodes in any order: they never promise more than the free space.

use super::*;
use crate::schedule::just_in_time::{Answer, JobId, Ledger, Space, WhenFull};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn s(secs: u64) -> Time {
    Time::from_secs(secs)
}

fn table(life: &str, nodes: &[(&str, u32, u64)]) -> Table {
    let entry = |(name, node, bytes): &(&str, u32, u64)| ((*name).into(), Entry { node: Node(*node), bytes: *bytes });
    Table { life: life.into(), turn: 7, nodes: nodes.iter().map(entry).collect() }
}

#[test]
fn a_node_writes_what_is_not_as_it_promised_and_nothing_else() {
    let mut reader = Reader::new(Config::default(), "a");
    let read = table("1", &[("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]);
    let seen = reader.read(s(0), read.clone(), "1", |_| false);
    assert_eq!((seen.elsewhere, seen.settles_in), (50, Time::ZERO));
    let entry = |node, bytes| Entry { node: Node(node), bytes };
    assert_eq!(seen.clone().with("a", entry(1, 10), false), None);
    let again = seen.clone().with("a", entry(1, 10), true).expect("a promise is written whatever was there");
    assert_eq!((again.turn, &again.nodes), (8, &read.nodes));
    assert_eq!(seen.clone().with("a", entry(4, 10), false).expect("its number").nodes["a"], entry(4, 10));
    assert!(!seen.with("a", entry(1, 0), false).expect("nothing is promised").nodes.contains_key("a"));
}

#[test]
fn what_a_node_promised_that_is_over_counts_for_a_while() {
    let mut reader = Reader::new(Config::default(), "a");
    let read = || table("1", &[("a", 1, 10), ("b", 2, 20)]);
    let over = |node| node == Node(2);
    assert_eq!(reader.read(s(100), read(), "1", |_| false).elsewhere, 20);
    assert_eq!(reader.read(s(200), read(), "1", over).elsewhere, 20);
    assert_eq!(reader.read(s(229), read(), "1", over).elsewhere, 20);
    let seen = reader.read(s(230), read(), "1", over);
    assert_eq!(seen.elsewhere, 0);
    let next = seen.with("a", Entry { node: Node(1), bytes: 10 }, false).expect("it goes");
    assert_eq!(next.nodes.keys().collect::<Vec<_>>(), ["a"]);
    // The daemon was restarted under another number.
    assert_eq!(reader.read(s(231), table("1", &[("b", 5, 20)]), "1", over).elsewhere, 20);
    assert_eq!(reader.read(s(300), table("1", &[("b", 5, 20)]), "1", |_| true).elsewhere, 20, "that one is over now");
    assert_eq!(reader.read(s(330), table("1", &[("b", 5, 20)]), "1", |_| true).elsewhere, 0);
}

#[test]
fn after_the_server_was_started_anew_nothing_is_promised_until_all_had_time_to_say_what_they_have() {
    let mut reader = Reader::new(Config::default(), "a");
    assert_eq!(reader.read(s(0), table("1", &[]), "1", |_| false).settles_in, Time::ZERO);
    assert_eq!(reader.read(s(9), table("1", &[]), "2", |_| false).settles_in, s(30));
    let seen = reader.read(s(38), table("1", &[]), "2", |_| false);
    assert_eq!(seen.settles_in, s(1));
    let next = seen.with("a", Entry { node: Node(1), bytes: 5 }, false).expect("it says what it has");
    assert_eq!(next.life, "1", "and not that the table is whole");
    let seen = reader.read(s(39), table("1", &[]), "2", |_| false);
    assert_eq!(seen.settles_in, Time::ZERO);
    let next = seen.with("a", Entry { node: Node(1), bytes: 0 }, false).expect("the table is whole");
    assert_eq!(next.life, "2");
    // A later node need not wait again.
    let mut other = Reader::new(Config::default(), "b");
    assert_eq!(other.read(s(0), next, "2", |_| false).settles_in, Time::ZERO);
}

/// The generator splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Injected mistake of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// Space is measured before the table is read.
    MeasuresFirst,
    /// A node reads its own promises after the space was measured.
    TakesOwnLast,
    /// The table is replaced, whatever its content.
    Overwrites,
    /// A table with equal content counts as unchanged.
    NoTurn,
    /// A node trusts a server that lost changes at once.
    NeverSettles,
    /// No check whether the server lost changes during the decision.
    NoSecondLook,
    /// A node's promises end with the node.
    ForgetsAtOnce,
}

/// Progress of a node's decision.
#[derive(Clone, Debug, Default)]
struct Look {
    step: u32,
    ledger: Option<Ledger>,
    seen: Option<(String, Table, Seen)>,
    free: u64,
    decided: Vec<(JobId, u64)>,
}

struct Daemon {
    number: u32,
    runs: bool,
    /// Restart time of a killed node.
    back_at: Time,
    ledger: Ledger,
    reader: Reader,
    look: Look,
    looked_at: Time,
    asks: Vec<(JobId, u64)>,
    /// Bytes yet to arrive, for jobs whose transfers run even without the node's daemon.
    coming: BTreeMap<JobId, u64>,
}

struct World {
    random: Random,
    mistake: Mistake,
    now: Time,
    free: u64,
    data: Vec<u64>,
    table: Table,
    /// Tables that the server may return with.
    before: Vec<Table>,
    life: u32,
    next_number: u32,
    next_job: u64,
    daemons: Vec<Daemon>,
    granted: u32,
}

const KEPT: u64 = 3;

impl World {
    fn new(seed: u64, mistake: Mistake) -> World {
        let daemon = |n: usize| Daemon {
            number: n as u32 + 1,
            runs: true,
            back_at: Time::ZERO,
            ledger: Ledger::new(WhenFull::Wait, KEPT),
            reader: Reader::new(Config::default(), NAMES[n]),
            look: Look::default(),
            looked_at: Time::ZERO,
            asks: Vec::new(),
            coming: BTreeMap::new(),
        };
        World {
            random: Random(seed),
            mistake,
            now: Time::ZERO,
            free: 100,
            data: Vec::new(),
            table: Table::default(),
            before: vec![Table::default()],
            life: 1,
            next_number: 4,
            next_job: 1,
            daemons: (0..3).map(daemon).collect(),
            granted: 0,
        }
    }

    fn is_over(&self, node: Node) -> bool {
        self.daemons.iter().all(|daemon| !daemon.runs || daemon.number != node.0)
    }

    /// Executes one step of a node's decision. Returns whether the decision is complete.
    fn step(&mut self, n: usize) -> bool {
        let order = match self.mistake {
            Mistake::MeasuresFirst => [2, 0, 1],
            Mistake::TakesOwnLast => [1, 2, 0],
            _ => [0, 1, 2],
        };
        let step = self.daemons[n].look.step;
        self.daemons[n].look.step += 1;
        match order.get(step as usize).copied() {
            Some(0) => {
                let daemon = &mut self.daemons[n];
                daemon.coming.iter().for_each(|(job, left)| daemon.ledger.comes(*job, *left));
                daemon.look.ledger = Some(daemon.ledger.clone());
            }
            Some(1) => {
                let (table, life) = (self.table.clone(), self.life.to_string());
                let (now, known) = (self.now, self.daemons.iter().map(|d| d.runs.then_some(d.number)));
                let known: Vec<u32> = known.flatten().collect();
                let daemon = &mut self.daemons[n];
                let mut seen = daemon.reader.read(now, table.clone(), &life, |node| !known.contains(&node.0));
                if self.mistake == Mistake::ForgetsAtOnce {
                    let gone = |(name, e): (&String, &Entry)| (name != NAMES[n] && !known.contains(&e.node.0), e.bytes);
                    let gone = table.nodes.iter().map(gone).filter(|(gone, _)| *gone).map(|(_, bytes)| bytes);
                    seen.elsewhere = seen.elsewhere.saturating_sub(gone.sum());
                }
                daemon.look.seen = Some((life, table, seen));
            }
            Some(2) => self.daemons[n].look.free = self.free,
            Some(_) => unreachable!("three steps"),
            None if step == 3 => return !self.swap(n),
            None => {
                self.confirm(n);
                return true;
            }
        }
        false
    }

    /// Decides and replaces the table. Returns whether the decision goes on.
    fn swap(&mut self, n: usize) -> bool {
        let mistake = self.mistake;
        let daemon = &mut self.daemons[n];
        let Some((_, read, seen)) = daemon.look.seen.clone() else { unreachable!("it was read") };
        let Some(mut ledger) = daemon.look.ledger.clone() else { unreachable!("it was taken") };
        let space = Space { free: daemon.look.free, elsewhere: seen.elsewhere };
        let may = seen.settles_in == Time::ZERO || mistake == Mistake::NeverSettles;
        let asks = daemon.asks.iter().filter(|_| may).copied();
        let decided: Vec<_> = asks.filter(|(job, bytes)| ledger.ask(*job, *bytes, space) == Answer::Granted).collect();
        let entry = Entry { node: Node(daemon.number), bytes: ledger.promised() };
        let next = seen.with(NAMES[n], entry, !decided.is_empty());
        daemon.look.decided = decided;
        let Some(next) = next else { return true };
        let is_same = match mistake {
            Mistake::Overwrites => true,
            Mistake::NoTurn => Table { turn: 0, ..read } == Table { turn: 0, ..self.table.clone() },
            _ => read == self.table,
        };
        if !is_same {
            daemon.look = Look::default();
            return true; // from the start
        }
        self.before.push(std::mem::replace(&mut self.table, next));
        true
    }

    fn confirm(&mut self, n: usize) {
        let (now, life, daemon) = (self.now, self.life.to_string(), &mut self.daemons[n]);
        let look = std::mem::take(&mut daemon.look);
        daemon.looked_at = now;
        if look.seen.is_some_and(|(read_in, ..)| read_in != life) && self.mistake != Mistake::NoSecondLook {
            return;
        }
        for (job, bytes) in look.decided {
            daemon.ledger.adopt(job, bytes);
            daemon.asks.retain(|(other, _)| *other != job);
            daemon.coming.insert(job, bytes);
            self.granted += 1;
        }
    }

    fn whole_look(&mut self, n: usize) {
        while !self.step(n) {}
    }

    /// Some bytes of a transfer arrive; its last byte settles the promise.
    fn land(&mut self, n: usize) {
        let all = self.random.below(2) == 0;
        let daemon = &mut self.daemons[n];
        let Some((&job, &left)) = daemon.coming.iter().next() else { return };
        let bytes = if all { left } else { left.min(7) };
        self.free = self.free.saturating_sub(bytes);
        self.data.push(bytes);
        match left - bytes {
            0 if daemon.runs => {
                daemon.coming.remove(&job);
                daemon.ledger.settle(job);
            }
            left => drop(daemon.coming.insert(job, left)),
        }
    }

    /// A node completes a promise while the others do nothing.
    fn is_quick(&mut self, n: usize) {
        self.daemons[n].look = Look::default();
        self.daemons[n].asks = vec![(JobId(self.next_job), 30)];
        self.next_job += 1;
        self.whole_look(n);
        while self.daemons[n].coming.values().sum::<u64>() > 0 {
            self.land(n);
        }
        self.whole_look(n);
    }

    fn kill(&mut self, n: usize) {
        let for_good = self.random.below(2) == 0;
        let span = self.random.below(20);
        let daemon = &mut self.daemons[n];
        if !daemon.runs {
            return;
        }
        (daemon.runs, daemon.look, daemon.asks) = (false, Look::default(), Vec::new());
        daemon.back_at = self.now + s(span);
        if for_good {
            daemon.coming.clear();
            daemon.back_at = self.now + s(100);
        }
    }

    fn start(&mut self, n: usize) {
        let daemon = &mut self.daemons[n];
        (daemon.runs, daemon.number, daemon.looked_at) = (true, self.next_number, self.now);
        daemon.ledger = Ledger::new(WhenFull::Wait, KEPT);
        daemon.coming.iter().for_each(|(job, bytes)| daemon.ledger.adopt(*job, *bytes));
        daemon.reader = Reader::new(Config::default(), NAMES[n]);
        self.next_number += 1;
    }

    /// Restarts the server with a table from some changes ago.
    fn forget(&mut self) {
        let back = self.random.below(4).min(self.before.len() as u64 - 1) as usize;
        self.before.truncate(self.before.len() - back);
        if back > 0 {
            self.table = self.before.last().cloned().unwrap_or_default();
        }
        self.life += 1;
    }

    /// Advances time; each daemon polls in time.
    fn pass(&mut self) {
        let late = |daemon: &Daemon, now: Time| daemon.runs && now.since(daemon.looked_at) >= s(4);
        for n in 0..3 {
            if late(&self.daemons[n], self.now) {
                self.whole_look(n);
            }
            if !self.daemons[n].runs && self.now >= self.daemons[n].back_at {
                self.start(n);
            }
        }
        self.now = self.now + s(1);
    }

    /// Whether the bytes yet to arrive exceed the free space.
    fn over_promised(&self) -> bool {
        let coming: u64 = self.daemons.iter().flat_map(|daemon| daemon.coming.values()).sum();
        coming > 0 && coming + KEPT > self.free
    }

    /// Returns the number of promises after so many steps; `None` if too much was promised.
    fn run(mut self, steps: u32) -> Option<u32> {
        let mut fast = 0;
        for _ in 0..steps {
            // For a while one is faster than the others.
            if self.random.below(30) == 0 {
                fast = self.random.below(3);
            }
            let n = if self.random.below(8) == 0 { self.random.below(3) } else { fast } as usize;
            match self.random.below(24) {
                0..=9 if self.daemons[n].runs => drop(self.step(n)),
                0..=12 => self.land(n),
                13..=15 if self.daemons[n].runs && self.daemons[n].asks.len() < 3 => {
                    let (job, bytes) = (JobId(self.next_job), 1 + self.random.below(60));
                    self.daemons[n].asks.push((job, bytes));
                    self.next_job += 1;
                }
                16..=18 => self.free += self.data.pop().unwrap_or(0),
                19 if self.random.below(20) == 0 => self.kill(n),
                20 if self.random.below(20) == 0 => self.forget(),
                21 if self.daemons[n].runs && self.random.below(4) == 0 => self.is_quick(n),
                _ => self.pass(),
            }
            if self.over_promised() {
                return None;
            }
        }
        assert!(self.daemons.iter().all(|d| !d.runs || !self.is_over(Node(d.number))));
        Some(self.granted)
    }
}

/// [S-332] Any order of steps, with nodes that crash and restart and a server that loses writes.
#[test]
fn no_order_of_steps_over_three_nodes_promises_more_than_there_is() {
    let mut granted = 0;
    for seed in 0..600 {
        granted += World::new(seed, Mistake::None).run(1500).unwrap_or_else(|| panic!("seed {seed}"));
    }
    assert!(granted > 6000, "they go on: {granted}");
}

/// Checks that the test above detects each mistake.
#[test]
fn every_part_of_the_order_is_needed() {
    let mistakes = [
        Mistake::MeasuresFirst,
        Mistake::TakesOwnLast,
        Mistake::Overwrites,
        Mistake::NoTurn,
        Mistake::NeverSettles,
        Mistake::NoSecondLook,
        Mistake::ForgetsAtOnce,
    ];
    for mistake in mistakes {
        let found = (0..4000).find(|seed| World::new(*seed, mistake).run(1500).is_none());
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}
