//! Checks the input of waiting jobs, and restores losses before the jobs start: the live driver of
//! `policy::protect::availability`.
//!
//! ```text
//!   queues --waiting jobs--> machine --check, repair--> Inputs (the volume)
//!                               ^--lost, repaired--+
//! ```
//! The queues are polled every few seconds, and files are checked when the machine requests it. Repairs run beside that,
//! as many as the machine allows. A queue that does not answer keeps its last snapshot. Repairs
//! interrupted by the daemon's end are found again at the next start.

use crate::queue::{Queue, State, WaitsFor};
use object::now_ms;
use object::workers::{END_SPAN, Periodic, Pool};
use parking_lot::Mutex;
use policy::machine::Machine;
use policy::protect::availability::{Action, Availability, Config, Event, JobId, Lost, Waiting};
use policy::{FileId, ObjectId, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// State of the input of one job.
pub struct Looked<L> {
    /// Input files of the job.
    pub files: Vec<FileId>,
    /// Losses found in those files.
    pub lost: Vec<(Lost, L)>,
}

/// The files of the volume. All calls may block.
pub trait Inputs: Send + Sync + 'static {
    /// A loss, as the volume names it.
    type Lost: Clone + Send + std::fmt::Display;
    /// Number that changes whenever a target fails or returns.
    fn target_changes(&self) -> u64;
    /// Checks the files at or below the paths of each job.
    fn look(&self, jobs: &[Vec<PathBuf>]) -> Result<Vec<Looked<Self::Lost>>, String>;
    /// Repairs one loss. No effect if it is repaired already.
    fn repair(&self, lost: &Self::Lost) -> Result<(), String>;
    /// Replaces the order of files by the starts of the jobs that read them.
    fn starts(&self, starts: BTreeMap<FileId, Time>);
}

/// Handle of the checks. They end with [`Guard::stop`].
pub struct Guard(Arc<Periodic>);

impl Guard {
    /// Starts the checks over some queues, which are polled at the interval `poll`. Jobs with equal numbers in two
    /// queues are different jobs.
    pub fn start(
        machine: Config,
        poll: Duration,
        queues: Vec<Arc<dyn Queue>>,
        inputs: Arc<impl Inputs>,
        threads: &Pool,
    ) -> std::io::Result<Guard> {
        let checks = Arc::new_cyclic(|checks: &Weak<Periodic>| {
            let (tell, repairs) = channel();
            let driver = Mutex::new(Driver {
                machine: Availability::new(machine),
                pictures: queues.iter().map(|_| Picture::default()).collect(),
                queues,
                changes: inputs.target_changes(),
                inputs,
                threads: threads.clone(),
                checks: checks.clone(),
                tell,
                repairs,
                poll,
                queues_at: None,
                jobs: BTreeMap::new(),
                lost: BTreeMap::new(),
                next_job: 0,
                began: Instant::now(),
            });
            Periodic::new(threads, move || Some(driver.lock().work()))
        });
        checks.wake()?;
        Ok(Guard(checks))
    }

    /// Ends the checks. Running repairs continue until the volume's mover stops.
    pub fn stop(&self) {
        self.0.stop(END_SPAN);
    }
}

/// The waiting jobs of a queue, in its order: their numbers there, expected starts and inputs.
#[derive(Default)]
struct Picture {
    jobs: Vec<(String, Option<Time>, Vec<PathBuf>)>,
    complained: bool,
}

struct Driver<I: Inputs> {
    machine: Availability,
    queues: Vec<Arc<dyn Queue>>,
    pictures: Vec<Picture>,
    inputs: Arc<I>,
    threads: Pool,
    /// The checks, which the end of a repair wakes.
    checks: Weak<Periodic>,
    /// Ends of repairs, and whether they succeeded.
    tell: Sender<(ObjectId, bool)>,
    repairs: Receiver<(ObjectId, bool)>,
    poll: Duration,
    /// Time of the next poll of the queues; `None` before the first.
    queues_at: Option<Instant>,
    /// The machine's numbers of the jobs, by queue and number in the queue.
    jobs: BTreeMap<(usize, String), JobId>,
    lost: BTreeMap<ObjectId, I::Lost>,
    next_job: u64,
    changes: u64,
    began: Instant,
}

impl<I: Inputs> Driver<I> {
    /// Does what is due. Returns the time until the next call.
    fn work(&mut self) -> Duration {
        while let Ok((object, done)) = self.repairs.try_recv() {
            self.handle(if done { Event::Repaired(object) } else { Event::RepairFailed(object) });
        }
        self.handle(Event::Tick);
        let queues_at = match self.queues_at.filter(|at| *at > Instant::now()) {
            Some(at) => at,
            None => {
                self.look_at_queues();
                *self.queues_at.insert(Instant::now() + self.poll)
            }
        };
        self.carry_out();
        let left = queues_at.saturating_duration_since(Instant::now());
        let due = self.machine.next_deadline().map(|at| Duration::from_nanos(at.since(self.now()).0));
        due.map_or(left, |due| due.min(left))
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    fn handle(&mut self, event: Event) {
        self.machine.handle(self.now(), event);
    }

    fn look_at_queues(&mut self) {
        let now_ms = now_ms();
        for (queue, picture) in self.queues.iter().zip(&mut self.pictures) {
            match queue.snapshot() {
                Ok(snapshot) => {
                    // A job that waits for its data, or for another job that brings them, has nothing to check yet.
                    let waits = |job: &crate::queue::QueuedJob| {
                        job.state == State::Pending && !matches!(job.waits_for, WaitsFor::Data | WaitsFor::Dependency)
                    };
                    let waiting = snapshot.jobs.into_iter().filter(|job| waits(job) && !job.inputs.is_empty());
                    let start = |ms: Option<u64>| ms.map(|ms| Time::from_millis(ms.max(now_ms)));
                    picture.jobs = waiting.map(|job| (job.id, start(job.start_ms), job.inputs)).collect();
                    picture.complained = false;
                }
                Err(_) if picture.complained => {}
                Err(error) => {
                    picture.complained = true;
                    // Logged at `info`: the thread that watches jobs of this queue logs a warning.
                    tracing::info!(
                        "a queue cannot be read; the input of its jobs is checked by its last listing: {error}"
                    );
                }
            }
        }
        let mut line = Vec::new();
        let mut present = BTreeMap::new();
        for (n, picture) in self.pictures.iter().enumerate() {
            for (id, start, _) in &picture.jobs {
                let key = (n, id.clone());
                let job = self.jobs.get(&key).copied().unwrap_or_else(|| {
                    self.next_job += 1;
                    JobId(self.next_job)
                });
                present.insert(key, job);
                line.push(Waiting { job, start: *start });
            }
        }
        self.jobs = present;
        self.handle(Event::Line(line));
        let changes = self.inputs.target_changes();
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.handle(Event::TargetsChanged);
        }
        self.inputs.starts(self.machine.starts());
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.machine.poll() {
            match action {
                Action::Look { jobs, .. } => self.look(&jobs),
                Action::Repair { object, .. } => self.repair(object),
            }
        }
    }

    fn look(&mut self, jobs: &[JobId]) {
        let by_job: BTreeMap<JobId, &(usize, String)> = self.jobs.iter().map(|(key, job)| (*job, key)).collect();
        let inputs_of = |job: &JobId| {
            let (queue, id) = by_job.get(job)?;
            let known = self.pictures[*queue].jobs.iter().find(|(other, ..)| other == id)?;
            Some((*job, known.2.clone()))
        };
        let (jobs, paths): (Vec<JobId>, Vec<Vec<PathBuf>>) = jobs.iter().filter_map(inputs_of).unzip();
        match self.inputs.look(&paths) {
            Ok(looked) => {
                for (job, Looked { files, lost }) in jobs.into_iter().zip(looked) {
                    let (told, named): (Vec<Lost>, Vec<I::Lost>) = lost.into_iter().unzip();
                    self.lost.extend(told.iter().map(|lost| lost.object).zip(named));
                    self.handle(Event::Looked { job, files, lost: told });
                }
            }
            Err(error) => tracing::warn!("the input of waiting jobs could not be checked: {error}"),
        }
        self.handle(Event::LookEnded);
        let machine = &self.machine;
        self.lost.retain(|object, _| machine.is_missing(*object));
        self.inputs.starts(self.machine.starts());
    }

    fn repair(&mut self, object: ObjectId) {
        let Some(lost) = self.lost.get(&object).cloned() else {
            return self.handle(Event::RepairFailed(object));
        };
        let (inputs, tell, checks) = (self.inputs.clone(), self.tell.clone(), self.checks.clone());
        let work = move || {
            let done = inputs.repair(&lost);
            match &done {
                Ok(()) => tracing::info!("{lost}, the input of a waiting job, is whole again"),
                Err(error) => tracing::info!("{lost}, the input of a waiting job, is not repaired for now: {error}"),
            }
            // The receiver is gone with the checks.
            let _ = tell.send((object, done.is_ok()));
            checks.upgrade().iter().for_each(|checks| drop(checks.wake()));
        };
        if self.threads.push(work).is_err() {
            self.handle(Event::RepairFailed(object));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueuedJob;
    use crate::queue::told::FixedQueue;
    use parking_lot::{Condvar, Mutex};

    /// A volume whose file N has object N; a target takes some of them.
    #[derive(Default)]
    struct Memory {
        lost: Mutex<Vec<u64>>,
        changes: Mutex<u64>,
        log: Mutex<Vec<u64>>,
        looked: Mutex<u64>,
        changed: Condvar,
        starts: Mutex<BTreeMap<FileId, Time>>,
    }

    impl Inputs for Memory {
        type Lost = u64;
        fn target_changes(&self) -> u64 {
            *self.changes.lock()
        }
        fn look(&self, jobs: &[Vec<PathBuf>]) -> Result<Vec<Looked<u64>>, String> {
            *self.looked.lock() += 1;
            let lost = self.lost.lock();
            let of = |paths: &Vec<PathBuf>| {
                let number = |p: &PathBuf| p.file_name().expect("a name").to_str().expect("text").parse::<u64>();
                let files: Vec<u64> = paths.iter().map(|p| number(p).expect("a number")).collect();
                let is_lost = |n: u64| (Lost { file: FileId(n), object: ObjectId(n), healthy_copies: 0, bytes: 1 }, n);
                Looked {
                    files: files.iter().map(|n| FileId(*n)).collect(),
                    lost: files.into_iter().filter(|n| lost.contains(n)).map(is_lost).collect(),
                }
            };
            Ok(jobs.iter().map(of).collect())
        }
        fn repair(&self, lost: &u64) -> Result<(), String> {
            self.lost.lock().retain(|n| n != lost);
            self.log.lock().push(*lost);
            self.changed.notify_all();
            Ok(())
        }
        fn starts(&self, starts: BTreeMap<FileId, Time>) {
            *self.starts.lock() = starts;
        }
    }

    fn job(id: u64, start_ms: Option<u64>, waits_for: WaitsFor) -> QueuedJob {
        QueuedJob {
            id: id.to_string(),
            user: "ann".into(),
            queue: "batch".into(),
            nodes: 1,
            state: State::Pending,
            waits_for,
            reason: String::new(),
            start_ms,
            time_limit_s: None,
            submitted_ms: None,
            inputs: vec![format!("/scratch/{id}").into()],
        }
    }

    /// [S-185]
    #[test]
    fn the_input_of_waiting_jobs_is_repaired_in_the_order_of_their_starts() {
        let (memory, here, there) =
            (Arc::new(Memory::default()), Arc::new(FixedQueue::default()), Arc::new(FixedQueue::default()));
        let far = now_ms() + 3_600_000;
        here.0.lock().jobs = vec![
            job(1, None, WaitsFor::Nodes),
            job(2, Some(far + 5000), WaitsFor::Release),
            job(3, Some(far + 1000), WaitsFor::Nodes),
            job(4, Some(far), WaitsFor::Data),
        ];
        there.0.lock().jobs = vec![job(7, Some(far + 3000), WaitsFor::Nodes), job(8, Some(far), WaitsFor::Dependency)];
        let machine = Config { settle: Time::ZERO, at_once: 1, ..Config::default() };
        let poll = Duration::from_millis(5);
        let guard = Guard::start(machine, poll, vec![here.clone(), there], memory.clone(), &crate::threads(1))
            .expect("a thread");
        let until = |what: &str, done: &dyn Fn() -> bool| {
            let mut log = memory.log.lock();
            let end = Instant::now() + Duration::from_secs(20);
            while !parking_lot::MutexGuard::unlocked(&mut log, done) {
                assert!(Instant::now() < end, "{what}: {log:?}");
                memory.changed.wait_for(&mut log, Duration::from_millis(5));
            }
        };
        until("all that wait are looked at", &|| memory.starts.lock().len() == 4);
        assert_eq!(*memory.log.lock(), [0; 0]);
        *memory.lost.lock() = vec![1, 2, 3, 4, 7, 8];
        *memory.changes.lock() += 1;
        until("all are repaired", &|| memory.log.lock().len() == 4);
        assert_eq!(*memory.log.lock(), [3, 7, 2, 1], "by start; what has no data yet is left alone");
        // The data of job 4 have arrived.
        here.0.lock().jobs[3].waits_for = WaitsFor::Nodes;
        until("who joins the line is looked at", &|| memory.log.lock().len() == 5);
        guard.stop();
        assert_eq!(*memory.lost.lock(), [8]);
    }
}
