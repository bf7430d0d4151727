//! Driver of [`policy::maintenance`]: the background tasks of the daemon run on one pool of threads.
//!
//! ```text
//!   requests --> machine <-- its deadline, for which one thread waits
//!                   |
//!                   '-- Start --> that thread runs the task, and a new one waits in its place
//! ```
//! A thread whose task has ended takes the next due task, or ends. So an idle daemon has one such thread.

use super::{Core, balance, left, shutting_down, sums};
use engine::stats::Metric;
use object::stop::Stop;
use object::workers::Workers;
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::Time;
use policy::machine::Machine;
use policy::maintenance::{self as queue, Action, Event, Outcome, Task};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

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
    /// Deadline for which a thread waits; `None` if no thread waits.
    watched: Option<Time>,
    /// Progress of tasks, for people.
    progress: BTreeMap<Task, String>,
}

/// The background tasks of a daemon.
pub(super) struct Maintenance {
    tasks: OnceLock<Weak<dyn Tasks>>,
    began: Instant,
    queue: Mutex<Queue>,
    sooner: Condvar,
    stop: Stop,
    stopped: Condvar,
    workers: Workers,
}

impl Maintenance {
    /// `purge_every` is zero for no automatic purges.
    pub fn new(purge_every: Duration) -> Arc<Maintenance> {
        let every = (!purge_every.is_zero()).then_some(Time(purge_every.as_nanos() as u64));
        let machine = queue::Maintenance::new(every);
        Arc::new(Maintenance {
            tasks: OnceLock::new(),
            began: Instant::now(),
            queue: Mutex::new(Queue { machine, watched: None, progress: BTreeMap::new() }),
            sooner: Condvar::new(),
            stop: Stop::default(),
            stopped: Condvar::new(),
            workers: Workers::of("background tasks"),
        })
    }

    /// Starts the tasks that were requested so far, and from now on.
    pub fn start(self: &Arc<Self>, tasks: Weak<dyn Tasks>) {
        drop(self.tasks.set(tasks));
        self.start_thread();
    }

    fn start_thread(self: &Arc<Self>) -> bool {
        let this = self.clone();
        self.workers.start("maintenance", move || this.work())
    }

    /// Ends all tasks. The mover must have been stopped before, so that drains end.
    pub fn stop(&self) {
        {
            let mut queue = self.queue.lock();
            self.stop.set();
            queue.machine.handle(self.now(), Event::Stop);
        }
        self.sooner.notify_all();
        self.stopped.notify_all();
        self.workers.stop();
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
        queue.machine.handle(self.now(), event);
        self.wake_if_sooner(&mut queue);
    }

    fn wake_if_sooner(&self, queue: &mut Queue) {
        if let Some((next, watched)) = queue.machine.next_deadline().zip(queue.watched)
            && next < watched
        {
            queue.watched = Some(next);
            self.sooner.notify_one();
        }
    }

    fn work(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        queue.watched = None;
        while let Some(tasks) = self.tasks.get().and_then(Weak::upgrade) {
            let leads = tasks.leads();
            queue.machine.handle(self.now(), Event::Leads(leads));
            match queue.machine.poll() {
                Some(Action::GaveUp(task)) => MutexGuard::unlocked(&mut queue, || tasks.gave_up(task)),
                Some(Action::Start(task)) => {
                    // A new thread computes the deadline at its start.
                    if queue.watched.is_none() && self.start_thread() {
                        queue.watched = Some(Time::ZERO);
                    }
                    let outcome = MutexGuard::unlocked(&mut queue, || tasks.run(task));
                    queue.machine.handle(self.now(), Event::Ended { task, outcome });
                }
                None if self.stop.is_set() => return,
                None if queue.watched.is_some() => return self.wake_if_sooner(&mut queue),
                None => {
                    drop(tasks);
                    self.wait(&mut queue, leads);
                }
            }
        }
    }

    /// Waits for the next deadline.
    fn wait(&self, queue: &mut MutexGuard<'_, Queue>, leads: bool) {
        let look = (!leads).then(|| self.now() + Time(FOLLOWER_REST.as_nanos() as u64));
        let until = queue.machine.next_deadline().into_iter().chain(look).min();
        queue.watched = Some(until.unwrap_or(Time(u64::MAX)));
        match until {
            Some(until) => drop(self.sooner.wait_until(queue, self.began + Duration::from_nanos(until.0))),
            None => self.sooner.wait(queue),
        }
        queue.watched = None;
    }
}

#[cfg(test)]
mod tests;
