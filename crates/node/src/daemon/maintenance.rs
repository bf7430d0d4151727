//! Driver of [`policy::maintenance`]: the background tasks of the daemon run on one pool of threads.
//!
//! ```text
//!   requests --> machine --> deadline --> turn -- Start --> a thread of the pool -- Ended --> machine
//! ```

use super::{Core, balance, left, shutting_down, sums};
use engine::stats::Metric;
use object::stop::Stop;
use object::workers::{END_SPAN, Periodic, Pool};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::Time;
use policy::machine::Machine;
use policy::maintenance::{self as queue, Action, Event, Outcome, Task};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Maximum of threads. The classes of tasks have lower bounds.
const THREADS_MAX: usize = 1000;

/// Interval at which a follower checks whether it leads.
const FOLLOWER_REST: Duration = Duration::from_secs(1);

/// The daemon, as the driver uses it.
pub(super) trait Tasks: Send + Sync {
    /// Whether this node leads.
    fn leads(&self) -> bool;
    /// Runs a task to its end.
    fn run(self: Arc<Self>, task: Task) -> Outcome;
    /// Records that a task was dropped.
    fn gave_up(&self, task: Task);
}

impl Tasks for Core {
    fn leads(&self) -> bool {
        self.acts()
    }

    fn run(self: Arc<Self>, task: Task) -> Outcome {
        let core = &self;
        match task {
            Task::Accounts => core.accounts.write_or_report(core),
            Task::Quotas => return core.quotas.tick(core),
            Task::Names => core.background.keep_names(core),
            Task::Places => core.pool.places.get().into_iter().for_each(|places| places.write_noted()),
            Task::Sizes => core.nodes.iter().for_each(|nodes| nodes.settle_sizes()),
            Task::Locks => core.nodes.iter().for_each(|nodes| nodes.show_lock()),
            Task::Shutdown => shutting_down::run(core),
            Task::Garbage(target) => core.background.collect(core, target),
            Task::Resync(file) => return core.background.resync(core, file),
            Task::Rebuild => return core.background.rebuild(core),
            Task::Left => return left::run(core),
            Task::Sweep => return core.unclean.sweep(core),
            Task::Usage => core.quotas.scan(core),
            Task::Purge => core.background.purge(core),
            Task::Sum(file) => return sums::run(core, file),
            Task::Scrub => core.scrubs.run(core),
            Task::Balance => balance::run_requested(core),
            Task::Drain(target) => core.background.run_drain(core, target),
        }
        Outcome::Done
    }

    fn gave_up(&self, task: Task) {
        if let Task::Sum(file) = task {
            self.volume.stats().add(Metric::SumsLeft, 1);
            tracing::info!("{} gets no checksums now: it was in use at every try", self.pool.name_of(file));
        }
    }
}

struct Queue {
    machine: queue::Maintenance,
    /// Progress of tasks, for people.
    progress: BTreeMap<Task, String>,
}

/// The background tasks of a daemon.
pub(super) struct Maintenance {
    tasks: OnceLock<Weak<dyn Tasks>>,
    began: Instant,
    queue: Mutex<Queue>,
    stop: Stop,
    stopped: Condvar,
    threads: Pool,
    /// Starts the tasks that are due.
    turns: Periodic,
}

impl Maintenance {
    /// `purge_every` is zero for no automatic purges.
    pub fn new(purge_every: Duration) -> Arc<Maintenance> {
        let every = (!purge_every.is_zero()).then_some(Time(purge_every.as_nanos() as u64));
        let machine = queue::Maintenance::new(every);
        let threads = Pool::new("maintenance", THREADS_MAX);
        Arc::new_cyclic(|me: &Weak<Maintenance>| Maintenance {
            tasks: OnceLock::new(),
            began: Instant::now(),
            queue: Mutex::new(Queue { machine, progress: BTreeMap::new() }),
            stop: Stop::default(),
            stopped: Condvar::new(),
            turns: Periodic::new(&threads, {
                let me = me.clone();
                move || me.upgrade()?.turn()
            }),
            threads,
        })
    }

    /// Starts the tasks that were requested so far, and from now on.
    pub fn start(&self, tasks: Weak<dyn Tasks>) {
        drop(self.tasks.set(tasks));
        self.wake_in(Duration::ZERO);
    }

    /// Ends all tasks. The mover must have been stopped before, so that drains end.
    pub fn stop(&self) {
        {
            let mut queue = self.queue.lock();
            self.stop.set();
            queue.machine.handle(self.now(), Event::Stop);
        }
        self.stopped.notify_all();
        if !self.threads.stop(END_SPAN) {
            tracing::warn!("background tasks do not end and are left behind");
        }
    }

    /// Stop flag of all tasks.
    pub fn stop_flag(&self) -> &Stop {
        &self.stop
    }

    /// Waits for `span` or until the stop. Returns whether the task continues.
    pub fn rests(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut queue = self.queue.lock();
        while !self.stop.is_set() && !self.stopped.wait_until(&mut queue, until).timed_out() {}
        !self.stop.is_set()
    }

    /// Requests a task after the delay of its row.
    pub fn want(&self, task: Task) {
        self.handle(Event::Wanted(task));
    }

    /// Requests a task.
    pub fn due(&self, task: Task, after: Duration) {
        self.handle(Event::Due { task, after: Time(after.as_nanos() as u64) });
    }

    /// Sets the line of a task in `status`.
    pub fn report(&self, task: Task, line: Option<String>) {
        let progress = &mut self.queue.lock().progress;
        match line {
            Some(line) => drop(progress.insert(task, line)),
            None => drop(progress.remove(&task)),
        }
    }

    /// Progress of all tasks, a line for each.
    pub fn lines(&self) -> Vec<String> {
        self.queue.lock().progress.values().cloned().collect()
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    fn handle(&self, event: Event) {
        let mut queue = self.queue.lock();
        let now = self.now();
        queue.machine.handle(now, event);
        let next = queue.machine.next_deadline().filter(|_| self.tasks.get().is_some());
        drop(queue);
        if let Some(at) = next {
            self.wake_in(Duration::from_nanos(at.since(now).0));
        }
    }

    fn wake_in(&self, span: Duration) {
        // A failure has been logged; the next request starts the turn.
        drop(self.turns.wake_in(span));
    }

    /// Starts the tasks that are due. Returns the time until the next turn.
    fn turn(self: &Arc<Self>) -> Option<Duration> {
        let tasks = self.tasks.get()?.upgrade()?;
        let leads = tasks.leads();
        let mut queue = self.queue.lock();
        queue.machine.handle(self.now(), Event::Leads(leads));
        while let Some(action) = queue.machine.poll() {
            match action {
                Action::GaveUp(task) => MutexGuard::unlocked(&mut queue, || tasks.gave_up(task)),
                Action::Start(task) => {
                    let (this, tasks) = (self.clone(), tasks.clone());
                    // After the stop, no task starts.
                    drop(self.threads.push(move || this.run(tasks, task)));
                }
            }
        }
        let now = self.now();
        let next = queue.machine.next_deadline().map(|at| Duration::from_nanos(at.since(now).0));
        next.into_iter().chain((!leads).then_some(FOLLOWER_REST)).min()
    }

    fn run(self: &Arc<Self>, tasks: Arc<dyn Tasks>, task: Task) {
        let outcome = tasks.run(task);
        self.queue.lock().machine.handle(self.now(), Event::Ended { task, outcome });
        if let Some(span) = self.turn() {
            self.wake_in(span);
        }
    }
}

#[cfg(test)]
mod tests;
