//! One queue of the background tasks of a node: repair, checks, usage and upkeep.
//!
//! ```text
//!   Wanted, Due --> waiting, by time --[ row: leader? room in its class? ]--> Start --> running
//!                      ^                                                                   |
//!                      '---- Done: after the period    Again: after the pause  <-- Ended --'
//! ```
//! Each kind of task is a row of [`ROWS`]. The rows are in the order of priority. A class bounds the number of its tasks
//! that run at the same time, so a pass that lasts for days delays no repair. A task never runs twice at the same time.
//! A request for a running task starts it again after its end.
//!
//! The machine does not interrupt a task. A task of the leader checks by itself whether its node still leads.

use crate::ids::{FileId, TargetId};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Write the new counts of users and jobs.
    Accounts,
    /// Check usage against the limits, and exchange counts with the other nodes.
    Quotas,
    /// Make the names of new objects durable, and release unused memory.
    Names,
    /// Write the changed rows of the table of places.
    Places,
    /// Remove the garbage on a target.
    Garbage(TargetId),
    /// Resync the stale mirrors of a file.
    Resync(FileId),
    /// Rebuild the objects of failed targets, and resync stale mirrors.
    Rebuild,
    /// Remove the leftovers of nodes that were killed.
    Left,
    /// Remove the orphans of a daemon that was killed.
    Sweep,
    /// Sum up the usage of all names.
    Usage,
    /// Remove files by the rules of the volume.
    Purge,
    /// Compute the checksums of a closed file.
    Sum(FileId),
    /// Compare the copies of all files.
    Scrub,
    /// Even out the usage of targets.
    Balance,
    /// Move everything off a target.
    Drain(TargetId),
}

/// Kind of a task: a row of [`ROWS`], the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// [`Task::Accounts`].
    Accounts,
    /// [`Task::Quotas`].
    Quotas,
    /// [`Task::Names`].
    Names,
    /// [`Task::Places`].
    Places,
    /// [`Task::Garbage`].
    Garbage,
    /// [`Task::Resync`].
    Resync,
    /// [`Task::Rebuild`].
    Rebuild,
    /// [`Task::Left`].
    Left,
    /// [`Task::Sweep`].
    Sweep,
    /// [`Task::Usage`].
    Usage,
    /// [`Task::Purge`].
    Purge,
    /// [`Task::Sum`].
    Sum,
    /// [`Task::Scrub`].
    Scrub,
    /// [`Task::Balance`].
    Balance,
    /// [`Task::Drain`].
    Drain,
}

impl Task {
    /// Returns the kind of the task.
    pub fn kind(self) -> Kind {
        match self {
            Task::Accounts => Kind::Accounts,
            Task::Quotas => Kind::Quotas,
            Task::Names => Kind::Names,
            Task::Places => Kind::Places,
            Task::Garbage(_) => Kind::Garbage,
            Task::Resync(_) => Kind::Resync,
            Task::Rebuild => Kind::Rebuild,
            Task::Left => Kind::Left,
            Task::Sweep => Kind::Sweep,
            Task::Usage => Kind::Usage,
            Task::Purge => Kind::Purge,
            Task::Sum(_) => Kind::Sum,
            Task::Scrub => Kind::Scrub,
            Task::Balance => Kind::Balance,
            Task::Drain(_) => Kind::Drain,
        }
    }
}

/// Tasks with a common bound on how many of them run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Short work at intervals.
    Upkeep,
    /// Short work on one file or target.
    Repair,
    /// Walks over all names.
    Walk,
    /// Checksums of one file, which read all of it.
    Sum,
    /// Passes at a rate of their own, which may last for days.
    Pass,
    /// Drains: each has a target of its own, and lasts until the last file on it is closed.
    Drain,
}

impl Class {
    /// Maximum of tasks of the class that run at the same time.
    pub fn at_once(self) -> usize {
        match self {
            // As many as there are rows: none waits for a slow device or state store of another.
            Class::Upkeep => 4,
            // One more than needed, so that garbage on a slow target delays no resync.
            Class::Repair => 2,
            // A rebuild may last for days and a purge for hours. A guess.
            Class::Walk => 3,
            Class::Sum => 1,
            Class::Pass => 2,
            // More targets than a center replaces at the same time. A guess.
            Class::Drain => 32,
        }
    }
}

/// Rules of a kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Kind of task that the row is about.
    pub kind: Kind,
    /// Class whose bound counts.
    pub class: Class,
    /// Whether only the leader runs it.
    pub only_leader: bool,
    /// Interval between two starts; `None` if it runs on request only.
    pub every: Option<Time>,
    /// Delay of a wanted task.
    pub first: Time,
    /// Pause after an incomplete run. It doubles up to the maximum.
    pub pause: Time,
    /// Maximum of the pause.
    pub pause_max: Time,
    /// Maximum of incomplete runs in sequence; then the task is dropped.
    pub runs_max: Option<u32>,
    /// Whether a further request delays a waiting task.
    pub is_put_off: bool,
    /// Maximum of waiting tasks; further ones are dropped.
    pub waiting_max: usize,
}

/// A task on request, at once, on each node.
const fn row(kind: Kind, class: Class) -> Row {
    let (zero, waiting_max) = (Time::ZERO, 1 << 16); // as many as there are targets
    let (every, runs_max) = (None, None);
    Row {
        kind,
        class,
        only_leader: false,
        every,
        first: zero,
        pause: zero,
        pause_max: zero,
        runs_max,
        is_put_off: false,
        waiting_max,
    }
}

const SECOND: Time = Time::from_secs(1);
/// Longest pause between two walks over a large tree, which are expensive.
const HOUR: Time = Time::from_secs(3600);

/// All kinds of tasks.
pub const ROWS: [Row; 15] = [
    // A crash loses the counts of one interval.
    Row { every: Some(Time::from_secs(10)), first: Time::from_secs(10), ..row(Kind::Accounts, Class::Upkeep) },
    // A passed soft limit and the end of a grace period are noticed one pause late.
    Row { first: SECOND, pause: SECOND, pause_max: SECOND, ..row(Kind::Quotas, Class::Upkeep) },
    // Longer than any operation on a target with the default deadline. A loss of power may undo the names of two
    // intervals. A guess.
    Row { every: Some(Time::from_secs(20)), first: Time::from_secs(20), ..row(Kind::Names, Class::Upkeep) },
    // A change waits for others that are written with it.
    Row { first: SECOND, ..row(Kind::Places, Class::Upkeep) },
    Row { only_leader: true, ..row(Kind::Garbage, Class::Repair) },
    // A file rests after its last error: its writer is probably not done. `entrepot check --repair` finds files
    // beyond the maximum.
    Row {
        only_leader: true,
        first: Time::from_secs(2),
        pause: Time::from_secs(2),
        pause_max: Time::from_secs(2),
        is_put_off: true,
        waiting_max: 10_000,
        ..row(Kind::Resync, Class::Repair)
    },
    // Delay: algorithms, 6.7.
    Row {
        only_leader: true,
        first: Time::from_secs(5),
        pause: Time::from_secs(2),
        pause_max: HOUR,
        ..row(Kind::Rebuild, Class::Walk)
    },
    // Each run asks the state store for nodes that are over; a walk follows only if there are any.
    Row {
        only_leader: true,
        every: Some(Time::from_secs(5)),
        first: SECOND,
        pause: Time::from_secs(3),
        pause_max: HOUR,
        ..row(Kind::Left, Class::Walk)
    },
    Row { first: SECOND, pause: Time::from_secs(2), pause_max: HOUR, ..row(Kind::Sweep, Class::Walk) },
    row(Kind::Usage, Class::Walk),
    Row { only_leader: true, ..row(Kind::Purge, Class::Walk) },
    // A file that is opened and written at once would void its checksums. The next scrub makes those that are missing.
    Row {
        first: Time::from_secs(2),
        pause: Time::from_secs(20),
        pause_max: Time::from_secs(20),
        runs_max: Some(5),
        is_put_off: true,
        waiting_max: 10_000,
        ..row(Kind::Sum, Class::Sum)
    },
    // Each run checks whether a pass is due, and makes it.
    Row { only_leader: true, every: Some(Time::from_secs(30)), ..row(Kind::Scrub, Class::Pass) },
    // A node that leads no more ends the run by itself, so that the run has a result.
    row(Kind::Balance, Class::Pass),
    row(Kind::Drain, Class::Drain),
];

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left: the next run is at the period, if there is one.
    Done,
    /// The run was incomplete: it is repeated after a pause.
    Again,
}

/// Input of [`Maintenance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task is to run after the delay of its row.
    Wanted(Task),
    /// A task is to run after this delay.
    Due {
        /// The requested task.
        task: Task,
        /// Delay of its start.
        after: Time,
    },
    /// A started task has ended.
    Ended {
        /// The started task.
        task: Task,
        /// Result of the run.
        outcome: Outcome,
    },
    /// Whether this node leads.
    Leads(bool),
    /// The deadline has come.
    Tick,
    /// Nothing starts any more.
    Stop,
}

/// Output of [`Maintenance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the task, then send [`Event::Ended`].
    Start(Task),
    /// The task was dropped after its last incomplete run.
    GaveUp(Task),
}

/// State of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tasks that wait.
    pub waiting: usize,
    /// Tasks that run.
    pub running: usize,
    /// Requests that were dropped because too many tasks of the kind wait.
    pub dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: Time,
    /// Pause after the next incomplete run.
    pause: Time,
    /// Incomplete runs in sequence.
    runs: u32,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    pause: Time,
    runs: u32,
    /// Next run by the period.
    next: Option<Time>,
}

/// The queue of a node.
#[derive(Clone, Debug)]
pub struct Maintenance {
    rows: [Row; ROWS.len()],
    now: Time,
    leads: bool,
    is_stopped: bool,
    waiting: BTreeMap<Task, Waiting>,
    /// The waiting tasks of each row, by time.
    queues: [BTreeSet<(Time, Task)>; ROWS.len()],
    running: BTreeMap<Task, Running>,
    given_up: VecDeque<Task>,
    dropped: u64,
}

impl Maintenance {
    /// An empty queue. `purge_every` is the interval of purges (`[purge] every`).
    pub fn new(purge_every: Option<Time>) -> Maintenance {
        let mut rows = ROWS;
        let purge = &mut rows[Kind::Purge as usize];
        (purge.every, purge.first) = (purge_every, purge_every.unwrap_or_default());
        Maintenance {
            rows,
            now: Time::ZERO,
            leads: false,
            is_stopped: false,
            waiting: BTreeMap::new(),
            queues: Default::default(),
            running: BTreeMap::new(),
            given_up: VecDeque::new(),
            dropped: 0,
        }
    }

    fn row(&self, task: Task) -> &Row {
        &self.rows[task.kind() as usize]
    }

    fn queue(&mut self, task: Task) -> &mut BTreeSet<(Time, Task)> {
        &mut self.queues[task.kind() as usize]
    }

    /// The earliest task of a row, if the row has room for it.
    fn startable(&self, row: &Row) -> Option<(Time, Task)> {
        let used = self.running.keys().filter(|task| self.row(**task).class == row.class).count();
        let mut waiting = self.queues[row.kind as usize].iter();
        let first = waiting.find(|(_, task)| !self.running.contains_key(task)).copied();
        first.filter(|_| used < row.class.at_once() && self.may_run(row))
    }

    fn may_run(&self, row: &Row) -> bool {
        self.leads || !row.only_leader
    }

    fn request(&mut self, task: Task, after: Time) {
        let (row, at) = (*self.row(task), self.now + after);
        let at = match self.waiting.get(&task).copied() {
            Some(waiting) if !row.is_put_off => waiting.at.min(at),
            Some(_) => at,
            None if self.queue(task).len() >= row.waiting_max => {
                self.dropped += 1;
                return;
            }
            None => at,
        };
        self.wait(task, Waiting { at, pause: row.pause, runs: 0 });
    }

    fn wait(&mut self, task: Task, waiting: Waiting) {
        if let Some(before) = self.waiting.insert(task, waiting) {
            self.queue(task).remove(&(before.at, task));
        }
        self.queue(task).insert((waiting.at, task));
    }

    fn ended(&mut self, task: Task, outcome: Outcome) {
        let Some(running) = self.running.remove(&task) else { return };
        let (row, requested) = (*self.row(task), self.waiting.get(&task).copied());
        let is_last = row.runs_max.is_some_and(|max| running.runs + 1 >= max);
        let next = match outcome {
            Outcome::Again if is_last && requested.is_none() => {
                self.given_up.push_back(task);
                return;
            }
            Outcome::Again => {
                let pause = running.pause + running.pause;
                let at = self.now + running.pause;
                Some(Waiting { at, pause: pause.min(row.pause_max), runs: running.runs + 1 })
            }
            // A run that took longer than the period is followed by a rest.
            Outcome::Done => row.every.zip(running.next).map(|(every, next)| {
                let at = if next > self.now { next } else { self.now + every };
                Waiting { at, pause: row.pause, runs: 0 }
            }),
        };
        let Some(next) = next else { return };
        // The pause of a task that was requested during the run starts over.
        self.wait(task, requested.map_or(next, |requested| Waiting { at: requested.at.min(next.at), ..requested }));
    }

    /// Returns the sizes of the queue.
    pub fn stats(&self) -> Stats {
        Stats { waiting: self.waiting.len(), running: self.running.len(), dropped: self.dropped }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        assert_eq!(self.waiting.len(), self.queues.iter().map(BTreeSet::len).sum());
        for (row, queue) in self.rows.iter().zip(&self.queues) {
            assert!(queue.iter().all(|(at, task)| task.kind() == row.kind && self.waiting[task].at == *at));
            assert!(queue.len() <= row.waiting_max, "{:?}", row.kind);
            let running = self.running.keys().filter(|task| self.row(**task).class == row.class).count();
            assert!(running <= row.class.at_once(), "{:?}", row.class);
        }
        assert!(!self.is_stopped || self.waiting.is_empty());
    }
}

impl Machine for Maintenance {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::Ended { task, .. } if self.is_stopped => {
                self.running.remove(&task);
            }
            _ if self.is_stopped => {}
            Event::Wanted(task) => self.request(task, self.row(task).first),
            Event::Due { task, after } => self.request(task, after),
            Event::Ended { task, outcome } => self.ended(task, outcome),
            Event::Leads(leads) => self.leads = leads,
            Event::Tick => {}
            Event::Stop => {
                self.is_stopped = true;
                self.waiting.clear();
                self.queues = Default::default();
                self.given_up.clear();
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        if let Some(task) = self.given_up.pop_front() {
            return Some(Action::GaveUp(task));
        }
        let is_due = |found: &(Time, Task)| found.0 <= self.now;
        let (at, task) = self.rows.iter().find_map(|row| self.startable(row).filter(is_due))?;
        self.queue(task).remove(&(at, task));
        let Waiting { pause, runs, .. } = self.waiting.remove(&task)?;
        let next = self.row(task).every.map(|every| self.now + every);
        self.running.insert(task, Running { pause, runs, next });
        Some(Action::Start(task))
    }

    /// A task whose class is full has its own deadline all the same: the end of another task may make room before.
    fn next_deadline(&self) -> Option<Time> {
        let after_now = self.now + Time(1);
        let of = |row: &Row| {
            let mut later = self.queues[row.kind as usize].range((after_now, Task::Accounts)..);
            let later = later.next().filter(|_| self.may_run(row)).copied();
            self.startable(row).into_iter().chain(later).map(|(at, _)| at).min()
        };
        let next = self.running.values().filter_map(|running| running.next.filter(|next| *next > self.now));
        self.rows.iter().filter_map(of).chain(next).min()
    }
}

#[cfg(test)]
mod tests;
