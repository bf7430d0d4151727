//! Priorities, budgets, pauses and bounds by hand-checked times, and random lives against the invariants.

use super::*;
use crate::ids::{FileId, TargetId};

impl Maintenance {
    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is broken.
    fn check(&self) {
        assert_eq!(self.waiting.len(), self.queues.iter().map(BTreeSet::len).sum());
        for (row, queue) in self.rows.iter().zip(&self.queues) {
            assert!(queue.iter().all(|(at, task)| self.waiting[task].at == *at));
            assert!(queue.len() <= row.waiting_max && self.of_class(row.class) <= row.class.at_once(), "{row:?}");
        }
        assert!(!self.is_stopped || self.waiting.is_empty());
    }
}

const AT: fn(u64) -> Time = Time::from_secs;
const ZERO: Time = Time::ZERO;

fn file(n: u64) -> Task {
    Task::Resync(FileId(n))
}

struct World {
    machine: Maintenance,
    now: Time,
}

impl World {
    /// The queue of a node that leads.
    fn new() -> World {
        let mut world = World { machine: Maintenance::new(None), now: ZERO };
        world.on(Event::Leads(true));
        world
    }

    fn on(&mut self, event: Event) {
        self.machine.handle(self.now, event);
        self.machine.check();
    }

    fn due(&mut self, task: Task, after: Time) {
        self.on(Event::Due { task, after });
    }

    fn ended(&mut self, task: Task, outcome: Outcome) {
        self.on(Event::Ended { task, outcome });
    }

    /// The actions of now.
    fn actions(&mut self) -> Vec<Action> {
        let actions = self.machine.drain().collect();
        self.machine.check();
        actions
    }

    fn starts(&mut self) -> Vec<Task> {
        let task = |action| match action {
            Action::Start(task) => task,
            Action::GaveUp(task) => panic!("{task:?}"),
        };
        self.actions().into_iter().map(task).collect()
    }

    /// The tasks that start at this time.
    fn starts_at(&mut self, now: Time) -> Vec<Task> {
        self.now = now;
        self.on(Event::Leads(self.machine.leads));
        self.starts()
    }

    /// Goes to the next deadline; the tasks that start there.
    fn next(&mut self) -> (Time, Vec<Task>) {
        let at = self.machine.next_deadline().expect("a deadline");
        assert!(at >= self.now);
        (at, self.starts_at(at))
    }
}

#[test]
fn the_rows_keep_their_bounds() {
    assert!(ROWS.iter().all(|row| row.pause <= row.pause_max && row.waiting_max > 0 && row.runs_max > 0));
    let upkeep = Class::Upkeep.at_once();
    assert!(
        upkeep > 0 && upkeep + Class::Repair.at_once() + Class::Walk.at_once() + Class::Pass.at_once() < 16,
        "threads"
    );
}

#[test]
fn the_most_urgent_of_a_class_comes_first() {
    let mut world = World::new();
    let walks = [Task::Rebuild, Task::Left, Task::Sweep, Task::Usage, Task::Purge];
    walks.iter().rev().for_each(|task| world.due(*task, ZERO));
    assert_eq!(world.starts(), walks[..3]);
    assert_eq!(world.machine.next_deadline(), Some(AT(5)), "the next look for nodes that are over");
    world.ended(Task::Sweep, Outcome::Done);
    assert_eq!(world.starts(), [Task::Usage]);
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!(world.starts(), [Task::Purge]);
    // The rebuild is due again, and finds no room until the purge ends.
    assert_eq!(world.starts_at(AT(3)), []);
    world.ended(Task::Purge, Outcome::Done);
    assert_eq!(world.starts(), [Task::Rebuild]);
}

#[test]
fn the_earliest_of_a_kind_comes_first() {
    let mut world = World::new();
    world.due(file(1), AT(9));
    world.due(file(2), AT(8));
    world.due(file(3), AT(7));
    world.due(file(4), AT(7));
    assert_eq!(world.next(), (AT(7), vec![file(3), file(4)]));
    assert_eq!(world.starts_at(AT(10)), []);
    world.ended(file(4), Outcome::Done);
    assert_eq!(world.starts(), [file(2)]);
    world.ended(file(2), Outcome::Done);
    assert_eq!(world.starts(), [file(1)]);
}

#[test]
fn passes_and_drains_delay_no_repair() {
    let mut world = World::new();
    let long = [Task::Scrub, Task::Balance, Task::Drain(TargetId(1)), Task::Drain(TargetId(2)), Task::Sum(FileId(1))];
    long.iter().for_each(|task| world.due(*task, ZERO));
    world.due(Task::Sum(FileId(2)), ZERO);
    let mut started = world.starts();
    started.sort_unstable();
    assert_eq!(started, [Task::Sum(FileId(1)), Task::Scrub, Task::Balance, long[2], long[3]]);
    world.due(file(7), ZERO);
    world.due(Task::Rebuild, ZERO);
    assert_eq!(world.starts(), [file(7), Task::Rebuild]);
    world.ended(Task::Sum(FileId(1)), Outcome::Done);
    assert_eq!(world.starts(), [Task::Sum(FileId(2))]);
}

#[test]
fn a_task_runs_once_at_a_time_and_again_if_requested_during_the_run() {
    let mut world = World::new();
    world.due(Task::Rebuild, ZERO);
    assert_eq!(world.starts(), [Task::Rebuild]);
    world.due(Task::Rebuild, ZERO);
    assert_eq!((world.starts(), world.machine.next_deadline()), (vec![], None), "no deadline wakes in vain");
    world.ended(Task::Rebuild, Outcome::Done);
    assert_eq!(world.starts(), [Task::Rebuild]);
    world.ended(Task::Rebuild, Outcome::Done);
    assert_eq!((world.starts(), world.machine.next_deadline()), (vec![], None));
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!(world.machine.next_deadline(), None, "it does not run");
}

#[test]
fn pauses_double_up_to_a_maximum_and_a_request_starts_them_over() {
    let mut world = World::new();
    world.due(Task::Rebuild, ZERO);
    assert_eq!(world.starts(), [Task::Rebuild]);
    let mut pauses = Vec::new();
    for _ in 0..13 {
        world.ended(Task::Rebuild, Outcome::Again);
        let before = world.now;
        assert_eq!(world.next().1, [Task::Rebuild]);
        pauses.push(world.now.since(before).0 / AT(1).0);
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]);
    world.ended(Task::Rebuild, Outcome::Again);
    world.due(Task::Rebuild, AT(7200));
    assert_eq!(world.next().1, [Task::Rebuild], "a request delays nothing");
    world.due(Task::Rebuild, AT(1));
    let now = world.now;
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!(world.next(), (now + AT(1), vec![Task::Rebuild]), "a request of the run");
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!(world.next(), (now + AT(3), vec![Task::Rebuild]));
    world.ended(Task::Rebuild, Outcome::Done);
    world.due(Task::Rebuild, ZERO);
    assert_eq!(world.starts(), [Task::Rebuild]);
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!(world.next(), (now + AT(5), vec![Task::Rebuild]), "an end without a rest");
}

#[test]
fn a_period_counts_from_start_to_start_unless_a_run_takes_longer() {
    let mut world = World::new();
    world.on(Event::Wanted(Task::Names));
    assert_eq!(world.next(), (AT(20), vec![Task::Names]));
    world.now = AT(25);
    world.ended(Task::Names, Outcome::Done);
    assert_eq!(world.next(), (AT(40), vec![Task::Names]));
    assert_eq!(world.machine.next_deadline(), Some(AT(60)));
    assert_eq!(world.starts_at(AT(60)), []);
    assert_eq!(world.machine.next_deadline(), None, "it still runs");
    world.now = AT(70);
    world.ended(Task::Names, Outcome::Done);
    assert_eq!(world.next(), (AT(90), vec![Task::Names]));
}

#[test]
fn an_incomplete_run_of_a_period_rests_longer_than_the_period() {
    let mut world = World::new();
    world.on(Event::Wanted(Task::Left));
    assert_eq!(world.next(), (AT(1), vec![Task::Left]));
    let mut at = AT(1);
    for pause in [3, 6, 12, 24] {
        world.ended(Task::Left, Outcome::Again);
        at = at + AT(pause);
        assert_eq!(world.next(), (at, vec![Task::Left]));
    }
    world.ended(Task::Left, Outcome::Done);
    assert_eq!(world.next(), (at + AT(5), vec![Task::Left]));
    world.ended(Task::Left, Outcome::Again);
    assert_eq!(world.next(), (at + AT(8), vec![Task::Left]));
}

#[test]
fn purges_have_the_interval_of_the_volume() {
    let mut machine = Maintenance::new(Some(AT(60)));
    machine.handle(ZERO, Event::Leads(true));
    machine.handle(ZERO, Event::Wanted(Task::Purge));
    assert_eq!(machine.next_deadline(), Some(AT(60)));
    machine.handle(AT(60), Event::Leads(true));
    assert_eq!(machine.poll(), Some(Action::Start(Task::Purge)));
    machine.handle(AT(61), Event::Ended { task: Task::Purge, outcome: Outcome::Done });
    assert_eq!((machine.poll(), machine.next_deadline()), (None, Some(AT(120))));
}

#[test]
fn only_the_leader_repairs() {
    let mut world = World::new();
    world.on(Event::Leads(false));
    world.due(file(1), ZERO);
    world.due(Task::Rebuild, AT(1));
    world.due(Task::Usage, AT(30));
    assert_eq!((world.starts(), world.machine.next_deadline()), (vec![], Some(AT(30))));
    assert_eq!(world.starts_at(AT(30)), [Task::Usage]);
    world.on(Event::Leads(true));
    assert_eq!(world.starts(), [file(1), Task::Rebuild]);
    // A started task ends by itself, and only the next leader repeats it.
    world.on(Event::Leads(false));
    world.ended(file(1), Outcome::Again);
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!((world.starts_at(AT(99)), world.machine.next_deadline()), (vec![], None));
    world.on(Event::Leads(true));
    assert_eq!(world.starts(), [file(1), Task::Rebuild]);
}

#[test]
fn a_further_error_of_a_file_puts_its_resync_off() {
    let mut world = World::new();
    world.on(Event::Wanted(file(1)));
    world.now = AT(1);
    world.on(Event::Wanted(file(1)));
    assert_eq!(world.next(), (AT(3), vec![file(1)]));
    world.on(Event::Wanted(Task::Rebuild));
    world.now = AT(4);
    world.on(Event::Wanted(Task::Rebuild));
    assert_eq!(world.next(), (AT(8), vec![Task::Rebuild]));
}

#[test]
fn waiting_files_are_bounded() {
    let mut world = World::new();
    for n in 0..10_002 {
        world.machine.handle(ZERO, Event::Wanted(file(n)));
    }
    world.machine.check();
    assert_eq!((world.machine.waiting.len(), world.machine.running.len()), (10_000, 0));
    world.on(Event::Wanted(file(5)));
    world.due(Task::Rebuild, ZERO);
    assert_eq!((world.machine.waiting.len(), world.machine.running.len()), (10_001, 0));
}

#[test]
fn a_file_in_use_is_given_up_after_some_tries() {
    let mut world = World::new();
    let sum = Task::Sum(FileId(1));
    world.on(Event::Wanted(sum));
    for run in 0..5 {
        assert_eq!(world.next(), (AT(2 + 20 * run), vec![sum]));
        if run < 4 {
            world.ended(sum, Outcome::Again);
        }
    }
    world.ended(sum, Outcome::Again);
    assert_eq!((world.actions(), world.machine.next_deadline()), (vec![Action::GaveUp(sum)], None));
    world.due(sum, ZERO);
    for _ in 0..4 {
        assert_eq!(world.starts(), [sum]);
        world.ended(sum, Outcome::Again);
        world.now = world.machine.next_deadline().expect("again");
        world.on(Event::Leads(world.machine.leads));
    }
    assert_eq!(world.starts(), [sum]);
    world.on(Event::Wanted(sum));
    world.ended(sum, Outcome::Again);
    assert_eq!(world.next().1, [sum], "it was closed once more");
}

#[test]
fn nothing_starts_after_the_stop() {
    let mut world = World::new();
    world.due(Task::Rebuild, ZERO);
    world.due(Task::Names, AT(1));
    assert_eq!(world.starts(), [Task::Rebuild]);
    world.on(Event::Stop);
    world.due(Task::Accounts, ZERO);
    world.ended(Task::Rebuild, Outcome::Again);
    assert_eq!((world.starts_at(AT(99)), world.machine.next_deadline()), (vec![], None));
    assert!(world.machine.waiting.is_empty() && world.machine.running.is_empty());
}

/// All orders of a seeded run keep the invariants, and every requested task of the leader starts at last.
#[test]
fn a_random_life_keeps_the_invariants_and_starves_no_task() {
    for seed in 1..=10u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let of = |n: u64| match n {
            0..8 => file(n),
            8..12 => Task::Sum(FileId(n)),
            12..16 => Task::Drain(TargetId(n as u16)),
            16 => Task::Garbage(TargetId(1)),
            _ => {
                let singles = [Task::Rebuild, Task::Left, Task::Sweep, Task::Usage, Task::Purge, Task::Scrub];
                let others = [Task::Balance, Task::Accounts, Task::Quotas, Task::Names, Task::Places];
                [&singles[..], &others].concat()[(n - 17) as usize]
            }
        };
        let mut world = World::new();
        let (mut running, mut owed) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..2000 {
            match random(6) {
                0 | 1 => {
                    let task = of(random(28));
                    owed.insert(task);
                    world.due(task, Time::from_millis(random(9000)));
                }
                2 => world.on(Event::Leads(random(3) > 0)),
                3 => world.now = world.now + Time::from_millis(random(5000)),
                _ => {
                    if let Some(task) = running.iter().nth(random(4) as usize).copied() {
                        running.remove(&task);
                        let outcome = if random(3) == 0 { Outcome::Again } else { Outcome::Done };
                        world.ended(task, outcome);
                    }
                }
            }
            world.on(Event::Leads(world.machine.leads));
            for action in world.actions() {
                let (Action::Start(task) | Action::GaveUp(task)) = action;
                owed.remove(&task);
                if matches!(action, Action::Start(_)) {
                    assert!(running.insert(task), "seed {seed}: {task:?} runs twice");
                }
            }
        }
        world.on(Event::Leads(true));
        for _ in 0..200 {
            world.now = world.now + AT(60);
            std::mem::take(&mut running).into_iter().for_each(|task| world.ended(task, Outcome::Done));
            for action in world.actions() {
                let (Action::Start(task) | Action::GaveUp(task)) = action;
                owed.remove(&task);
                running.extend(matches!(action, Action::Start(_)).then_some(task));
            }
        }
        assert!(owed.is_empty(), "seed {seed}: {owed:?}");
    }
}
