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

mod rows;

pub use rows::{Class, ROWS, Row, Task};

use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No work is left: the next run is at the period, if there is one.
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
    /// Whether this node leads. Also sent when a deadline has passed.
    Leads(bool),
    /// No further work starts.
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
#[derive(Clone, Debug, Default)]
pub struct Maintenance {
    rows: Vec<Row>,
    now: Time,
    leads: bool,
    is_stopped: bool,
    waiting: BTreeMap<Task, Waiting>,
    /// The waiting tasks of each row, by time.
    queues: Vec<BTreeSet<(Time, Task)>>,
    running: BTreeMap<Task, Running>,
    given_up: VecDeque<Task>,
}

impl Maintenance {
    /// An empty queue. `purge_every` is the interval of purges (`[purge] every`).
    pub fn new(purge_every: Option<Time>) -> Maintenance {
        let mut rows = ROWS.to_vec();
        let purge = &mut rows[Task::Purge.row()];
        (purge.every, purge.first) = (purge_every, purge_every.unwrap_or_default());
        Maintenance { rows, queues: vec![BTreeSet::new(); ROWS.len()], ..Maintenance::default() }
    }

    fn row(&self, task: Task) -> &Row {
        &self.rows[task.row()]
    }

    fn queue(&mut self, task: Task) -> &mut BTreeSet<(Time, Task)> {
        &mut self.queues[task.row()]
    }

    fn of_class(&self, class: Class) -> usize {
        self.running.keys().filter(|task| self.row(**task).class == class).count()
    }

    /// The earliest task of a row, if the row has room for it.
    fn startable(&self, (row, queue): (&Row, &BTreeSet<(Time, Task)>)) -> Option<(Time, Task)> {
        let first = queue.iter().find(|(_, task)| !self.running.contains_key(task)).copied();
        first.filter(|_| self.of_class(row.class) < row.class.at_once() && self.may_run(row))
    }

    fn may_run(&self, row: &Row) -> bool {
        self.leads || !row.only_leader
    }

    fn request(&mut self, task: Task, after: Time) {
        let (row, at) = (*self.row(task), self.now + after);
        let at = match self.waiting.get(&task).copied() {
            Some(waiting) if !row.is_put_off => waiting.at.min(at),
            Some(_) => at,
            None if self.queue(task).len() >= row.waiting_max => return,
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
        let is_last = running.runs + 1 >= row.runs_max;
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

    /// Returns the number of tasks that run.
    pub fn running(&self) -> usize {
        self.running.len()
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
            Event::Stop => {
                self.is_stopped = true;
                self.waiting.clear();
                self.queues.iter_mut().for_each(BTreeSet::clear);
                self.given_up.clear();
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        if let Some(task) = self.given_up.pop_front() {
            return Some(Action::GaveUp(task));
        }
        let is_due = |found: &(Time, Task)| found.0 <= self.now;
        let (at, task) = self.rows.iter().zip(&self.queues).find_map(|row| self.startable(row).filter(is_due))?;
        self.queue(task).remove(&(at, task));
        let Waiting { pause, runs, .. } = self.waiting.remove(&task)?;
        let next = self.row(task).every.map(|every| self.now + every);
        self.running.insert(task, Running { pause, runs, next });
        Some(Action::Start(task))
    }

    /// A task whose class is full has its own deadline all the same: the end of another task may make room before.
    fn next_deadline(&self) -> Option<Time> {
        let after_now = self.now + Time(1);
        let of = |(row, queue): (_, &BTreeSet<_>)| {
            let later = queue.range((after_now, Task::FIRST)..).next().filter(|_| self.may_run(row)).copied();
            self.startable((row, queue)).into_iter().chain(later).map(|(at, _)| at).min()
        };
        let next = self.running.values().filter_map(|running| running.next.filter(|next| *next > self.now));
        self.rows.iter().zip(&self.queues).filter_map(of).chain(next).min()
    }
}

#[cfg(test)]
mod tests;
