//! Sessions with clocks of different rates, requests that arrive late, and answers that are lost.

use super::super::{Action, Caller, Config, Event, Holder, Request};
use crate::cluster::Node;
use crate::cluster::random::Random;
use crate::holders::table::{Run, Table};
use crate::machine::Machine;
use crate::time::Time;

/// Clock with an offset, and a rate in millionths.
#[derive(Clone, Copy)]
struct Clock(u64, u64);

impl Clock {
    fn at(self, ms: u64) -> Time {
        Time((self.0 + ms * self.1 / 1_000_000) * 1_000_000 + ms * self.1 % 1_000_000)
    }
}

/// Request on its way: arrival, whether its answer gets back, sender.
type Sent = (u64, bool, usize, Option<u64>, Caller, Request);

struct World {
    random: Random,
    clocks: [Clock; 3],
    nodes: [Holder; 2],
    table: Table,
    sent: Vec<Sent>,
    answers: Vec<(u64, usize, Event)>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let clocks = std::array::from_fn(|_| Clock(random.below(1 << 40), 997_000 + random.below(6_000)));
        let nodes = [1, 2].map(|node| Holder::new(Config::default(), Node(node)));
        let table = Table::new(Config::default().session);
        World { random, clocks, nodes, table, sent: Vec::new(), answers: Vec::new() }
    }

    /// Carries a node's actions out. From `apart` on the first node reaches the store late or never, without an answer.
    fn act(&mut self, i: usize, ms: u64, apart: u64) {
        while let Some(action) = self.nodes[i].poll() {
            let cut = i == 0 && ms >= apart;
            let late = self.random.below(if cut { 60_000 } else { 200 });
            match action {
                Action::Ask { key, caller, request } => self.sent.push((ms + late, !cut, i, key, caller, request)),
                Action::Connect if !cut => self.answers.push((ms + late, i, Event::Connected(Run(1)))),
                Action::Members => {
                    let members = [Node(1), Node(2)].into();
                    self.answers.push((ms, i, Event::Members(members)));
                }
                _ => {}
            }
        }
    }

    fn pass(&mut self, ms: u64, apart: u64) {
        for n in (0..self.sent.len()).rev().filter(|n| self.sent[*n].0 <= ms).collect::<Vec<_>>() {
            let (_, answers, i, key, caller, request) = self.sent.remove(n);
            let answer = self.table.serve(self.clocks[2].at(ms), caller, &request);
            let late = self.random.below(200);
            if answers && !(i == 0 && ms >= apart) && self.random.below(4) > 0 {
                self.answers.push((ms + late, i, Event::Answered(key, answer)));
            } else {
                self.answers.push((ms + 1000, i, Event::Unanswered));
            }
        }
        for n in (0..self.answers.len()).rev().filter(|n| self.answers[*n].0 <= ms).collect::<Vec<_>>() {
            let (_, i, event) = self.answers.remove(n);
            let now = self.clocks[i].at(ms);
            self.nodes[i].handle(now, event);
            self.act(i, ms, apart);
        }
        for i in 0..2 {
            let now = self.clocks[i].at(ms);
            if self.nodes[i].next_deadline().is_some_and(|due| due <= now) {
                self.nodes[i].handle(now, Event::Tick);
            }
            self.act(i, ms, apart);
        }
    }
}

#[test]
fn a_session_that_has_surely_lapsed_is_over_in_the_store_and_no_other_node_caches() {
    let (mut sure, mut caching) = (0, 0);
    for seed in 1..=400 {
        let mut world = World::new(seed * 0x9e37_79b9);
        let config = Config::default();
        let apart = 5_000 + world.random.below(10_000);
        let (mut cached, mut lapsed) = (false, false);
        for ms in (0..130_000).step_by(50) {
            world.pass(ms, apart);
            let [first, other] = [0, 1].map(|i| world.clocks[i].at(ms));
            let caches = world.nodes[1].session.caches(&config, other);
            cached |= caches && ms < apart;
            let surely = world.nodes[0].session.has_surely_lapsed(&config, first);
            lapsed |= surely;
            assert!(!lapsed || surely, "seed {seed}: it stays so");
            let present = world.table.has_session(world.clocks[2].at(ms), Node(1));
            assert!(!surely || !(present || caches), "seed {seed}, {ms} ms after the start");
            let own = world.nodes[0].session.caches(&config, first);
            assert!(present || !own, "seed {seed}: {ms} ms: its own cache ends before its session");
        }
        caching += u32::from(cached);
        sure += u32::from(lapsed);
    }
    assert!(sure == 400 && caching > 300, "{sure} {caching}");
}
