//! The driver over a queue and copies in memory.

use super::*;
use crate::queue::told::FixedQueue;
use crate::queue::{QueuedJob, Snapshot, State, WaitsFor};
use parking_lot::Condvar;
use policy::machine::Machine;
use policy::protect::replica::{Action, Config, Removal, Replication as Replicas, Share, Stats, Strategy};
use std::collections::BTreeSet;

/// A volume that makes copies at once; the log lists the orders.
struct Memory {
    machine: Mutex<Replicas>,
    log: Mutex<Vec<String>>,
    changed: Condvar,
    /// Pairs of a job and a file that the job had open and closed.
    closed: Mutex<BTreeSet<(String, String, FileId)>>,
    asked: Mutex<u64>,
}

impl Memory {
    /// Creates the volume with copies that an earlier daemon left.
    fn new(strategy: Strategy, removal: Removal, there: &[u64]) -> Arc<Memory> {
        let mut machine = Replicas::new(Config { strategy, alpha: Share::ZERO, removal, ..Config::new(0) });
        there.iter().for_each(|file| machine.handle(Time::ZERO, Event::Adopted(FileId(*file))));
        Arc::new(Memory {
            machine: Mutex::new(machine),
            log: Mutex::default(),
            changed: Condvar::new(),
            closed: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    fn until(&self, what: &str) {
        let mut log = self.log.lock();
        while !log.iter().any(|entry| entry == what) {
            let waited = self.changed.wait_for(&mut log, Duration::from_secs(20));
            assert!(!waited.timed_out(), "{what} did not happen: {log:?}");
        }
    }

    fn stats(&self) -> Stats {
        self.machine.lock().stats()
    }
}

impl Copies for Memory {
    fn is_here(&self) -> bool {
        true
    }
    fn files_of(&self, inputs: &[PathBuf]) -> Vec<FileId> {
        inputs.iter().filter_map(|path| Some(FileId(path.file_name()?.to_str()?.parse().ok()?))).collect()
    }
    fn tell(&self, events: Vec<Event>) {
        let mut machine = self.machine.lock();
        events.into_iter().for_each(|event| machine.handle(Time::ZERO, event));
        while let Some(action) = machine.poll() {
            let (what, event) = match action {
                Action::Create { file, .. } => (format!("create {}", file.0), Event::Created(file)),
                Action::Remove { file, .. } => (format!("remove {}", file.0), Event::Removed(file)),
            };
            machine.handle(Time::ZERO, event);
            self.log.lock().push(what);
        }
        drop(machine);
        self.changed.notify_all();
    }
    fn any(&self) -> bool {
        self.stats().copies > 0
    }
    fn protection(&self, job: JobId) -> (Vec<Protection>, Time) {
        (self.machine.lock().protection(job), Time::ZERO)
    }
    fn has_closed(&self, job: &str, user: &str, file: FileId) -> bool {
        *self.asked.lock() += 1;
        self.closed.lock().contains(&(job.to_string(), user.to_string(), file))
    }
}

fn job(id: &str, state: State, nodes: u32, input: &str) -> QueuedJob {
    QueuedJob {
        id: id.into(),
        user: "ann".into(),
        queue: "batch".into(),
        nodes,
        state,
        waits_for: if state == State::Pending { WaitsFor::Nodes } else { WaitsFor::Nothing },
        reason: String::new(),
        start_ms: None,
        time_limit_s: None,
        submitted_ms: None,
        inputs: vec![format!("/scratch/{input}").into()],
    }
}

fn replication(copies: &Arc<Memory>) -> (Replication, Arc<FixedQueue>) {
    let queue = Arc::new(FixedQueue::default());
    let settings = (true, Duration::from_millis(5));
    (Replication::start(settings, queue.clone(), copies.clone(), &crate::threads(1)).expect("a thread"), queue)
}

fn show(queue: &FixedQueue, jobs: Vec<QueuedJob>) {
    *queue.0.lock() = Snapshot { taken_ms: 1, nodes: 10, jobs };
}

/// [S-070]
#[test]
fn the_window_is_copied_and_removed_at_the_end_of_its_jobs() {
    let copies = Memory::new(Strategy::Window, Removal::JobEnd, &[]);
    let (replication, queue) = replication(&copies);
    let waiting =
        [job("1", State::Pending, 4, "11"), job("2", State::Pending, 4, "22"), job("3", State::Pending, 1, "33")];
    show(&queue, waiting.to_vec());
    copies.until("create 11");
    show(&queue, vec![job("1", State::Running, 4, "11"), waiting[1].clone(), waiting[2].clone()]);
    // R is 4 now: it needs jobs 2 and 3, too.
    copies.until("create 22");
    copies.until("create 33");
    let kept = replication.kept("2", FileId(22)).expect("known");
    assert!(kept.why.contains("replication window") && !kept.at_risk, "{kept:?}");
    show(&queue, waiting[1..].to_vec());
    copies.until("remove 11");
    replication.stop();
    assert!(!copies.log.lock().contains(&"remove 22".to_string()));
    let stats = copies.stats();
    assert_eq!((stats.dispatched, stats.at_risk), (1, 0), "its copy was complete when it was dispatched");
}

/// [S-070] Slurm shows a job as waiting for its turn before it requests its data.
#[test]
fn input_that_comes_later_is_copied_too() {
    let copies = Memory::new(Strategy::All, Removal::JobEnd, &[]);
    let (replication, queue) = replication(&copies);
    let without = QueuedJob { inputs: Vec::new(), ..job("1", State::Pending, 4, "11") };
    show(&queue, vec![without, job("2", State::Pending, 4, "22")]);
    copies.until("create 22");
    show(&queue, vec![job("1", State::Pending, 4, "11"), job("2", State::Pending, 4, "22")]);
    copies.until("create 11");
    replication.stop();
}

/// [S-070] [S-186]
#[test]
fn a_copy_goes_when_the_last_running_job_that_reads_it_has_closed_it() {
    let copies = Memory::new(Strategy::All, Removal::Eager, &[]);
    let (replication, queue) = replication(&copies);
    let jobs = |state| vec![job("1", state, 4, "11"), job("2", state, 4, "11"), job("3", state, 1, "33")];
    show(&queue, jobs(State::Pending));
    copies.until("create 11");
    copies.until("create 33");
    let close = |id: &str, user: &str, file| copies.closed.lock().insert((id.into(), user.into(), FileId(file)));
    let look_on = || {
        let asked = *copies.asked.lock();
        while *copies.asked.lock() < asked + 6 {
            std::thread::yield_now();
        }
    };
    show(&queue, jobs(State::Running));
    // Only another user's job of that number, or one of the two jobs that share the input.
    close("3", "bob", 33);
    close("1", "ann", 11);
    look_on();
    assert!(!copies.log.lock().iter().any(|entry| entry.starts_with("remove")));
    close("2", "ann", 11);
    copies.until("remove 11");
    assert!(!copies.log.lock().contains(&"remove 33".to_string()));
    replication.stop();
}

#[test]
fn what_an_earlier_daemon_left_is_taken_over_or_removed() {
    let copies = Memory::new(Strategy::All, Removal::JobEnd, &[11, 99]);
    let (replication, queue) = replication(&copies);
    show(&queue, vec![job("1", State::Running, 4, "11")]);
    copies.until("remove 99");
    replication.stop();
    assert!(!copies.log.lock().contains(&"create 11".to_string()), "it is there");
}

#[test]
fn a_job_that_starts_before_its_copy_is_complete_is_at_risk() {
    let copies = Memory::new(Strategy::All, Removal::JobEnd, &[]);
    let (replication, queue) = replication(&copies);
    show(&queue, vec![job("1", State::Running, 4, "11")]);
    copies.until("create 11");
    assert!(replication.kept("1", FileId(11)).expect("known").at_risk);
    replication.stop();
    assert_eq!((copies.stats().dispatched, copies.stats().at_risk), (1, 1));
}
