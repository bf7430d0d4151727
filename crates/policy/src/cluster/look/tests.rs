//! A scan by nodes that answer, lose messages, crash at any step, or stand still.

use super::*;
use std::collections::BTreeSet;

fn config() -> Config {
    Config { compares: true, repairs: true, ..Config::default() }
}

/// The machine, and the work of its nodes.
struct World {
    look: Look,
    now: Time,
    done: Vec<(Node, Task)>,
    judged: bool,
    /// Nodes lost at that time.
    gone_when_judged: Vec<Node>,
    ended: bool,
}

/// Random numbers below a bound: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

impl World {
    fn new(config: Config, nodes: u32) -> World {
        let look = Look::new(config, Time::ZERO, (1..=nodes).map(Node));
        World { look, now: Time::ZERO, done: Vec::new(), judged: false, gone_when_judged: Vec::new(), ended: false }
    }

    fn event(&mut self, event: Event) {
        self.look.handle(self.now, event);
        self.look.check();
    }

    fn run(&mut self, mut answer: impl FnMut(Node, Task, u32) -> Option<Event>) {
        for _ in 0..10_000 {
            if let Some(action) = self.look.poll() {
                match action {
                    Action::Ask { node, number, task, page } => {
                        let event = answer(node, task, page);
                        if let Some(Event::Page { is_last: true, .. }) = event {
                            self.done.push((node, task));
                        }
                        let numbered = |event| match event {
                            Event::Page { node, page, is_last, changed, .. } => {
                                Event::Page { node, number, page, is_last, changed }
                            }
                            other => other,
                        };
                        if let Some(event) = event {
                            self.event(numbered(event));
                        }
                    }
                    Action::GiveUp { .. } => {}
                    Action::Judge => {
                        self.judged = true;
                        self.gone_when_judged = self.look.gone().to_vec();
                    }
                    Action::End => {
                        self.ended = true;
                        return;
                    }
                }
            } else {
                self.now = self.look.next_deadline().expect("somebody is asked");
                self.event(Event::Tick);
            }
        }
        panic!("it never ends: {:?}", self.look);
    }

    fn parts_done(&self, by: impl Fn(Node) -> bool) -> BTreeSet<u32> {
        let part = |(node, task): &(Node, Task)| match task {
            Task::Walk { part, .. } if by(*node) => Some(*part),
            _ => None,
        };
        self.done.iter().filter_map(part).collect()
    }
}

fn answered(node: Node, page: u32) -> Option<Event> {
    Some(Event::Page { node, number: 0, page, is_last: true, changed: false })
}

#[test]
fn every_node_does_every_step_and_one_part() {
    let mut world = World::new(config(), 3);
    world.run(|node, _, page| answered(node, page));
    assert!(world.look.is_complete() && world.judged && world.ended);
    let steps = |of: Node| world.done.iter().filter(|(node, _)| *node == of).map(|(_, task)| *task).collect::<Vec<_>>();
    for (node, part) in (1..=3).map(Node).zip(0..) {
        let walk = Task::Walk { part, of: 3 };
        assert_eq!(steps(node), [Task::Begin, walk, Task::CatchUp, Task::Account, Task::Compare, Task::Repair]);
    }
}

#[test]
fn no_step_begins_before_all_have_done_the_one_before() {
    let mut look = Look::new(config(), Time::ZERO, [Node(1), Node(2)]);
    let asked: Vec<Action> = look.drain().collect();
    assert_eq!(asked.len(), 2);
    look.handle(Time(1), Event::Page { node: Node(1), number: 1, page: 0, is_last: true, changed: false });
    assert_eq!(look.poll(), None, "the other has not said what it is making");
    look.handle(Time(2), Event::Page { node: Node(2), number: 1, page: 0, is_last: true, changed: false });
    let walks: Vec<Action> = look.drain().collect();
    let walk = |n: u32| Action::Ask { node: Node(n), number: 2, task: Task::Walk { part: n - 1, of: 2 }, page: 0 };
    assert_eq!(walks, [walk(1), walk(2)]);
}

#[test]
fn what_changed_is_looked_at_until_a_round_in_which_nothing_did() {
    let mut rounds = BTreeMap::new();
    let mut world = World::new(config(), 2);
    world.run(|node, task, page| {
        let round = rounds.entry((node, task)).or_insert(0);
        *round += 1;
        let changed = task == Task::CatchUp && node == Node(2) && *round < 3;
        Some(Event::Page { node, number: 0, page, is_last: true, changed })
    });
    assert!(world.look.is_complete());
    assert_eq!(world.done.iter().filter(|(_, task)| *task == Task::CatchUp).count(), 6, "both, three times");
    let mut world = World::new(config(), 2);
    world.run(|node, _, page| Some(Event::Page { node, number: 0, page, is_last: true, changed: true }));
    assert!(world.look.is_restless() && !world.look.is_complete() && world.ended);
}

#[test]
fn an_answer_is_fetched_page_by_page_and_a_page_that_comes_twice_counts_once() {
    let mut look = Look::new(config(), Time::ZERO, [Node(1)]);
    let ask = |page| Action::Ask { node: Node(1), number: 1, task: Task::Begin, page };
    assert_eq!(look.drain().collect::<Vec<_>>(), [ask(0)]);
    let page = |page, is_last| Event::Page { node: Node(1), number: 1, page, is_last, changed: false };
    for (event, then) in [(page(0, false), Some(ask(1))), (page(0, false), None), (page(1, false), Some(ask(2)))] {
        look.handle(Time(1), event);
        assert_eq!(look.poll(), then);
    }
    look.handle(Time(1), page(2, true));
    assert!(matches!(look.poll(), Some(Action::Ask { task: Task::Walk { .. }, number: 2, .. })));
    look.handle(Time(1), page(2, true));
    assert_eq!(look.poll(), None, "an answer to an earlier question");
}

#[test]
fn one_that_stands_still_is_given_up_and_another_does_its_part() {
    for at in [Task::Begin, Task::Walk { part: 1, of: 3 }, Task::CatchUp, Task::Account] {
        for is_over in [false, true] {
            let mut world = World::new(config(), 3);
            world.run(|node, task, page| match (node, task == at) {
                (Node(2), true) if is_over => Some(Event::Over { node }),
                (Node(2), true) => None,
                _ => answered(node, page),
            });
            assert_eq!(world.look.gone(), [Node(2)], "{at:?}");
            assert!(!world.look.is_complete() && world.judged && world.ended);
            let parts = if at == Task::Begin { 2 } else { 3 };
            assert_eq!(world.parts_done(|node| node != Node(2)), (0..parts).collect(), "at {at:?}");
            let accounts = world.done.iter().rev().find(|(_, task)| matches!(task, Task::Walk { .. } | Task::Account));
            assert!(matches!(accounts, Some((_, Task::Account))), "what was looked at later is accounted for");
            assert!(is_over || world.now >= config().silent, "it had its time");
        }
    }
}

#[test]
fn it_ends_when_nobody_is_left() {
    let mut world = World::new(config(), 2);
    world.run(|node, task, page| match task {
        Task::Walk { .. } => Some(Event::Over { node }),
        _ => answered(node, page),
    });
    assert!(world.ended && !world.judged && !world.look.is_complete());
}

#[test]
fn one_that_works_for_long_is_waited_for() {
    let mut asked = 0;
    let mut world = World::new(config(), 2);
    world.run(|node, task, page| {
        let long = task == Task::CatchUp && node == Node(2);
        asked += u32::from(long);
        if long && asked < 100 { Some(Event::Works { node }) } else { answered(node, page) }
    });
    assert!(world.look.is_complete());
    assert!(world.now.0 > 2 * config().silent.0);
}

#[test]
fn whatever_gets_lost_and_whoever_dies_it_ends_and_all_parts_of_it_are_looked_at() {
    for seed in 0..500_u64 {
        let mut random = Random(seed + 1);
        let mut world = World::new(config(), 4);
        let mut dead = BTreeSet::new();
        world.run(|node, _, page| {
            if node != Node(1) && dead.len() < 3 && random.below(40) == 0 {
                dead.insert(node);
            }
            match random.below(4) {
                _ if dead.contains(&node) => (random.below(2) == 0).then_some(Event::Over { node }),
                0 => None,
                1 => Some(Event::Works { node }),
                2 if page < 3 => {
                    Some(Event::Page { node, number: 0, page, is_last: false, changed: random.below(2) == 0 })
                }
                _ => Some(Event::Page { node, number: 0, page, is_last: true, changed: random.below(8) == 0 }),
            }
        });
        let gone: BTreeSet<Node> = world.look.gone().iter().copied().collect();
        assert!(dead.is_superset(&gone), "seed {seed}");
        let of = world.done.iter().find_map(|(_, task)| match task {
            Task::Walk { of, .. } => Some(*of),
            _ => None,
        });
        // A node that crashed after `Judge` has done its part.
        let judged = world.parts_done(|node| !world.gone_when_judged.contains(&node));
        assert_eq!(judged, (0..of.unwrap_or(0)).collect(), "seed {seed}");
    }
}

#[test]
fn parts_are_of_like_size_and_a_name_has_one() {
    for parts in [1, 2, 3, 7, 16] {
        let mut counts = vec![0_u32; parts as usize];
        for n in 0..10_000 {
            counts[part_of(&format!("run/{}/rank-{n:05}", n % 13), parts) as usize] += 1;
        }
        let mean = 10_000 / parts;
        assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 4), "{counts:?}");
    }
    assert_eq!(part_of("a", 0), 0);
}
