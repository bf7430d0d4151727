//! The pool against tasks that wait for the test.

use super::*;
use policy::{FileId, TargetId};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Tasks that end when the test sends their results.
struct World {
    maintenance: Arc<Maintenance>,
    tasks: Arc<Waits>,
    started: Receiver<Task>,
}

struct Waits {
    leads: Mutex<bool>,
    started: Mutex<Sender<Task>>,
    results: Mutex<BTreeMap<Task, Outcome>>,
    ended: Condvar,
}

impl Tasks for Waits {
    fn leads(&self) -> bool {
        *self.leads.lock()
    }

    fn run(self: Arc<Self>, task: Task) -> Outcome {
        self.started.lock().send(task).expect("the test goes on");
        let mut results = self.results.lock();
        loop {
            if let Some(outcome) = results.remove(&task) {
                return outcome;
            }
            self.ended.wait(&mut results);
        }
    }

    fn gave_up(&self, task: Task) {
        panic!("{task:?}");
    }
}

impl World {
    fn new() -> World {
        let (started, receiver) = channel();
        let (started, leads) = (Mutex::new(started), Mutex::new(true));
        let tasks = Arc::new(Waits { leads, started, results: Mutex::default(), ended: Condvar::new() });
        World { maintenance: Maintenance::new(Duration::ZERO), tasks, started: receiver }
    }

    fn start(&self) {
        let weak = Arc::downgrade(&self.tasks);
        self.maintenance.start(weak);
    }

    fn due(&self, task: Task) {
        self.maintenance.due(task, Duration::ZERO);
    }

    fn next(&self) -> Task {
        self.started.recv_timeout(Duration::from_secs(60)).expect("a start")
    }

    fn end(&self, task: Task, outcome: Outcome) {
        self.tasks.results.lock().insert(task, outcome);
        self.tasks.ended.notify_all();
    }
}

#[test]
fn tasks_run_beside_each_other_and_again_after_a_pause() {
    let world = World::new();
    let resyncs = [1, 2, 3].map(|n| Task::Resync(FileId(n)));
    world.due(resyncs[0]);
    world.start();
    assert_eq!(world.next(), resyncs[0]);
    world.due(resyncs[1]);
    assert_eq!(world.next(), resyncs[1]);
    world.due(resyncs[2]);
    let drain = Task::Drain(TargetId(1));
    world.due(drain);
    assert_eq!(world.next(), drain, "a third file finds no room");
    world.end(resyncs[0], Outcome::Done);
    assert_eq!(world.next(), resyncs[2]);
    [drain, resyncs[1], resyncs[2]].into_iter().for_each(|task| world.end(task, Outcome::Done));
    // A pause of an ended task is noticed.
    world.due(Task::Quotas);
    assert_eq!(world.next(), Task::Quotas);
    world.end(Task::Quotas, Outcome::Again);
    assert_eq!(world.next(), Task::Quotas);
    world.end(Task::Quotas, Outcome::Done);
    world.maintenance.stop();
}

#[test]
fn a_node_that_begins_to_lead_starts_what_waits() {
    let world = World::new();
    *world.tasks.leads.lock() = false;
    world.start();
    world.due(Task::Rebuild);
    world.due(Task::Usage);
    assert_eq!(world.next(), Task::Usage);
    *world.tasks.leads.lock() = true;
    assert_eq!(world.next(), Task::Rebuild);
    [Task::Usage, Task::Rebuild].into_iter().for_each(|task| world.end(task, Outcome::Done));
    world.maintenance.stop();
}

#[test]
fn the_stop_ends_what_rests_and_waits_for_what_runs() {
    let world = World::new();
    world.start();
    world.due(Task::Rebuild);
    assert_eq!(world.next(), Task::Rebuild);
    let maintenance = world.maintenance.clone();
    let rests = std::thread::spawn(move || maintenance.rests(Duration::from_secs(3600)));
    let maintenance = world.maintenance.clone();
    let stops = std::thread::spawn(move || maintenance.stop());
    assert!(!rests.join().expect("no panic"), "it does not go on");
    assert!(world.maintenance.stop_flag().is_set() && !stops.is_finished());
    world.end(Task::Rebuild, Outcome::Again);
    stops.join().expect("no panic");
    assert_eq!(world.maintenance.threads.threads(), 0);
}
