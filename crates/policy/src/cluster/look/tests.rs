//! A scan by nodes that answer, in any order, or are over at any step.

use super::*;
use crate::cluster::random::Random;
use std::collections::BTreeSet;

impl Look {
    /// Panics if an invariant is broken.
    fn check(&self) {
        assert!(self.asked.keys().all(|node| self.there.contains(node)), "only those that are there are asked");
        assert!(self.parts.iter().flatten().all(|node| self.there.contains(node)), "a part of one that is gone");
        let accounts = matches!(self.stage, Stage::CatchUp | Stage::Account);
        assert!(!accounts || self.parts.iter().all(Option::is_some), "a part that nobody looks at");
        assert!(self.stage == Stage::Ended || !self.asked.is_empty(), "nobody is asked");
    }
}

fn config() -> Config {
    Config { compares: true, repairs: true, ..Config::default() }
}

/// The machine, and the work of its nodes.
struct World {
    look: Look,
    done: Vec<(Node, Task)>,
    judged: bool,
    /// Nodes lost at that time.
    gone_when_judged: Vec<Node>,
    ended: bool,
}

impl World {
    fn new(config: Config, nodes: u32) -> World {
        let look = Look::new(config, (1..=nodes).map(Node));
        World { look, done: Vec::new(), judged: false, gone_when_judged: Vec::new(), ended: false }
    }

    fn event(&mut self, event: Event) {
        self.look.handle(Time::ZERO, event);
        self.look.check();
    }

    fn run(&mut self, mut answer: impl FnMut(Node, Task) -> Event) {
        while let Some(action) = self.look.poll() {
            match action {
                Action::Ask { node, task } => {
                    let event = answer(node, task);
                    if matches!(event, Event::Done { .. }) {
                        self.done.push((node, task));
                    }
                    self.event(event);
                }
                Action::GiveUp { .. } => {}
                Action::Judge => {
                    self.judged = true;
                    self.gone_when_judged = self.look.gone().to_vec();
                }
                Action::End => self.ended = true,
            }
        }
    }

    fn parts_done(&self, by: impl Fn(Node) -> bool) -> BTreeSet<u32> {
        let part = |(node, task): &(Node, Task)| match task {
            Task::Walk { part, .. } if by(*node) => Some(*part),
            _ => None,
        };
        self.done.iter().filter_map(part).collect()
    }
}

fn answered(node: Node) -> Event {
    Event::Done { node, changed: false }
}

#[test]
fn every_node_does_every_step_and_one_part() {
    let mut world = World::new(config(), 3);
    world.run(|node, _| answered(node));
    assert!(world.look.is_complete() && world.judged && world.ended);
    let steps = |of: Node| world.done.iter().filter(|(node, _)| *node == of).map(|(_, task)| *task).collect::<Vec<_>>();
    for (node, part) in (1..=3).map(Node).zip(0..) {
        let walk = Task::Walk { part, of: 3 };
        assert_eq!(steps(node), [Task::Begin, walk, Task::CatchUp, Task::Account, Task::Compare, Task::Repair]);
    }
}

#[test]
fn no_step_begins_before_all_have_done_the_one_before() {
    let mut look = Look::new(config(), [Node(1), Node(2)]);
    let asked: Vec<Action> = look.drain().collect();
    assert_eq!(asked.len(), 2);
    look.handle(Time(1), answered(Node(1)));
    assert_eq!(look.poll(), None, "the other has not said what it is making");
    look.handle(Time(2), answered(Node(2)));
    let walks: Vec<Action> = look.drain().collect();
    let walk = |n: u32| Action::Ask { node: Node(n), task: Task::Walk { part: n - 1, of: 2 } };
    assert_eq!(walks, [walk(1), walk(2)]);
}

#[test]
fn what_changed_is_looked_at_until_a_round_in_which_nothing_did() {
    let mut rounds = BTreeMap::new();
    let mut world = World::new(config(), 2);
    world.run(|node, task| {
        let round = rounds.entry((node, task)).or_insert(0);
        *round += 1;
        let changed = task == Task::CatchUp && node == Node(2) && *round < 3;
        Event::Done { node, changed }
    });
    assert!(world.look.is_complete());
    assert_eq!(world.done.iter().filter(|(_, task)| *task == Task::CatchUp).count(), 6, "both, three times");
    let mut world = World::new(config(), 2);
    world.run(|node, _| Event::Done { node, changed: true });
    assert!(world.look.is_restless() && !world.look.is_complete() && world.ended);
}

#[test]
fn one_that_is_over_is_given_up_and_another_does_its_part() {
    for at in [Task::Begin, Task::Walk { part: 1, of: 3 }, Task::CatchUp, Task::Account] {
        let mut world = World::new(config(), 3);
        world.run(|node, task| match (node, task == at) {
            (Node(2), true) => Event::Over { node },
            _ => answered(node),
        });
        assert_eq!(world.look.gone(), [Node(2)], "{at:?}");
        assert!(!world.look.is_complete() && world.judged && world.ended);
        let parts = if at == Task::Begin { 2 } else { 3 };
        assert_eq!(world.parts_done(|node| node != Node(2)), (0..parts).collect(), "at {at:?}");
        let accounts = world.done.iter().rev().find(|(_, task)| matches!(task, Task::Walk { .. } | Task::Account));
        assert!(matches!(accounts, Some((_, Task::Account))), "what was looked at later is accounted for");
    }
}

#[test]
fn it_ends_when_nobody_is_left() {
    let mut world = World::new(config(), 2);
    world.run(|node, task| match task {
        Task::Walk { .. } => Event::Over { node },
        _ => answered(node),
    });
    assert!(world.ended && !world.judged && !world.look.is_complete());
}

#[test]
fn whoever_dies_it_ends_and_all_parts_of_it_are_looked_at() {
    for seed in 0..500_u64 {
        let mut random = Random(seed + 1);
        let mut world = World::new(config(), 4);
        let mut dead = BTreeSet::new();
        world.run(|node, _| {
            if node != Node(1) && dead.len() < 3 && random.below(10) == 0 {
                dead.insert(node);
                return Event::Over { node };
            }
            Event::Done { node, changed: random.below(8) == 0 }
        });
        assert!(world.ended, "seed {seed}");
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
