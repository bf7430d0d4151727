//! First come first served with EASY backfilling: a later job may overtake only if it does not delay the first.
//!
//! ```text
//!  cores                shadow time: the head fits
//!    ^  |running  |        |
//!    |  |---------+--------|============ head ============
//!    |  | running          |
//!    |  |------------------|...... extra: free beside the head ......
//!    |  | [ends by then ]  |  [needs at most extra, may run on past the shadow time]
//!    +------------------------------------------------> t
//!       now
//! ```
//!
//! Each queue has its own capacity and schedule: `batch` charges cores, `dataxfer` charges one of a few slots and no
//! core. A job enters its queue when all its dependencies have ended well. If one fails, the job is dropped, and its
//! dependants in turn. A job that only must not run beside another waits for its end, with or without success. A
//! queue's order is that of entering.
//!
//! Invariant: the shadow time when a job first blocks the queue's head is a promise. The job starts no later, as long
//! as jobs end by their estimates.
//!
//! Scheduling happens in [`Easy::poll`], so that all events of one instant are taken in before the first decision.
//!
//! Source: the reference, section 6.8.

mod event;
mod line;
mod running;
mod slab;
mod waiting;

pub use event::{Action, Charge, DropReason, Event, Job, JobId, Queue, QueueId, Standing, StartReason, Stats};

use crate::machine::Machine;
use crate::time::Time;
use line::{Line, Room};
use slab::{Dependant, Slab};
use std::collections::VecDeque;
use waiting::Limits;

/// The scheduler of all queues.
#[derive(Debug, Default)]
pub struct Easy {
    now: Time,
    jobs: Slab,
    queues: Vec<Line>,
    /// Whether some queue must be scheduled again.
    dirty: bool,
    scan_max: usize,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Easy {
    /// A scheduler with nothing to run. [`QueueId`] counts from 0 in the order given.
    pub fn new(queues: &[Queue]) -> Easy {
        Easy { queues: queues.iter().map(|q| Line::new(*q)).collect(), scan_max: usize::MAX, ..Easy::default() }
    }

    /// Limits the jobs behind the head that are scanned when one ends. No limit is EASY as published; a limit bounds
    /// the time of an event when very many wait.
    pub fn with_scan_max(mut self, jobs: usize) -> Easy {
        self.scan_max = jobs;
        self
    }

    /// State of a job; `None` for an unknown one.
    pub fn standing(&self, id: JobId) -> Option<Standing> {
        self.jobs.find(id).map(|slot| self.jobs[slot].standing)
    }

    /// The jobs that wait in a queue, in order.
    pub fn waiting(&self, queue: QueueId) -> impl Iterator<Item = JobId> {
        let line = self.queues.get(usize::from(queue.0));
        line.into_iter().flat_map(|line| line.waiting.iter()).map(|slot| self.jobs[slot].id)
    }

    /// First waiting job of a queue and its promised start, once it blocked the queue.
    pub fn promise(&self, queue: QueueId) -> Option<(JobId, Time)> {
        self.queues.get(usize::from(queue.0)).and_then(|q| q.promise)
    }

    /// Free capacity of a queue.
    pub fn free(&self, queue: QueueId) -> u32 {
        self.queues.get(usize::from(queue.0)).map_or(0, |q| u32::try_from(q.free.max(0)).unwrap_or(u32::MAX))
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        for (n, line) in self.queues.iter().enumerate() {
            assert_eq!(line.free + line.running.taken(), i64::from(line.queue.capacity), "capacity is free or taken");
            line.running.check();
            line.waiting.check();
            let mut last = None;
            for slot in line.waiting.iter() {
                let job = &self.jobs[slot];
                assert_eq!((job.standing, job.queue, job.unmet), (Standing::Waiting, n, 0));
                assert!(self.jobs.find(job.id) == Some(slot) && last < Some(job.place));
                last = Some(job.place);
            }
        }
    }

    /// Accepts a job if it can ever run.
    fn admit(&mut self, job: &Job) -> Option<u32> {
        let queue = usize::from(job.queue.0);
        let refusal = match self.queues.get(queue) {
            _ if self.jobs.find(job.id).is_some() => Some(DropReason::NumberInUse),
            None => Some(DropReason::NoSuchQueue),
            Some(line) if line.need(job.cores) > line.queue.capacity => {
                Some(DropReason::TooLarge { capacity: line.queue.capacity })
            }
            Some(_) => {
                let unknown = job.after_ok.iter().find(|id| self.jobs.find(**id).is_none());
                unknown.map(|id| DropReason::DependencyUnknown(*id))
            }
        };
        if let Some(reason) = refusal {
            self.drop_job(job.id, reason);
            return None;
        }
        let need = self.queues[queue].need(job.cores);
        Some(self.jobs.insert(job.id, queue, need, job.estimate))
    }

    fn submit(&mut self, job: Job) {
        self.stats.submitted += 1;
        let Some(slot) = self.admit(&job) else { return };
        let of = |ids: &[JobId], must_succeed| ids.iter().map(|id| (*id, must_succeed)).collect::<Vec<_>>();
        for (parent, must_succeed) in [of(&job.after_ok, true), of(&job.after_any, false)].concat() {
            if let Some(parent) = self.jobs.find(parent) {
                self.jobs[parent].dependants.push(Dependant { id: job.id, must_succeed });
                self.jobs[slot].unmet += 1;
            }
        }
        if self.jobs[slot].unmet == 0 {
            self.enter(slot);
        }
    }

    /// Puts a job whose dependencies are met at the end of its queue.
    fn enter(&mut self, slot: u32) {
        let job = &mut self.jobs[slot];
        let line = &mut self.queues[job.queue];
        job.standing = Standing::Waiting;
        job.place = line.waiting.push(slot, job.need, job.estimate);
        line.fresh = line.fresh.or(Some(job.place));
        self.dirty = true;
    }

    /// Takes a job out of its queue.
    fn unlink(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        self.queues[job.queue].waiting.remove(job.place);
    }

    fn ended(&mut self, id: JobId, ok: bool) {
        let Some(slot) = self.jobs.find(id).filter(|s| self.jobs[*s].standing == Standing::Running) else { return };
        self.stats.ended += 1;
        let job = &self.jobs[slot];
        let line = &mut self.queues[job.queue];
        line.running.remove(job.end, id);
        line.free += i64::from(job.need);
        line.room = None;
        self.dirty = true;
        let dependants = self.jobs.remove(slot);
        for child in dependants {
            if !ok && child.must_succeed {
                self.drop_with_dependants(child.id, DropReason::DependencyFailed(id));
            } else {
                self.met(child.id);
            }
        }
    }

    /// Records the end of a job that this job waits for.
    fn met(&mut self, id: JobId) {
        let Some(slot) = self.jobs.find(id) else { return };
        self.jobs[slot].unmet -= 1;
        if self.jobs[slot].unmet == 0 {
            self.enter(slot);
        }
    }

    fn cancel(&mut self, id: JobId) {
        match self.standing(id) {
            Some(Standing::Running) => self.actions.push_back(Action::Stop(id)),
            Some(Standing::Held | Standing::Waiting) => self.drop_with_dependants(id, DropReason::Cancelled),
            None => {}
        }
    }

    /// Drops a job that does not run, and all jobs that depend on it.
    fn drop_with_dependants(&mut self, id: JobId, reason: DropReason) {
        let mut doomed = vec![(id, reason)];
        while let Some((id, reason)) = doomed.pop() {
            let Some(slot) = self.jobs.find(id) else { continue };
            if self.jobs[slot].standing == Standing::Waiting {
                let line = &mut self.queues[self.jobs[slot].queue];
                if line.waiting.head() == Some(slot) {
                    line.room = None; // another head, another promise
                    self.dirty = true;
                }
                self.unlink(slot);
            }
            self.drop_job(id, reason);
            let (fail, go_on): (Vec<_>, Vec<_>) = self.jobs.remove(slot).into_iter().partition(|c| c.must_succeed);
            doomed.extend(fail.into_iter().rev().map(|child| (child.id, DropReason::DependencyFailed(id))));
            go_on.into_iter().for_each(|child| self.met(child.id));
        }
    }

    fn drop_job(&mut self, id: JobId, reason: DropReason) {
        self.stats.dropped += 1;
        self.actions.push_back(Action::Drop { id, reason });
    }

    /// Starts a job and takes its capacity.
    fn run(&mut self, slot: u32, started: Time) {
        let job = &mut self.jobs[slot];
        job.end = started + job.estimate;
        let line = &mut self.queues[job.queue];
        line.running.insert(job.end, job.id, job.need);
        line.free -= i64::from(job.need);
    }

    fn start(&mut self, slot: u32, reason: StartReason) {
        self.unlink(slot);
        self.jobs[slot].standing = Standing::Running;
        self.run(slot, self.now);
        match reason {
            StartReason::Head => self.stats.started_in_turn += 1,
            StartReason::EndsInTime { .. } | StartReason::FitsBesideHead => self.stats.backfilled += 1,
        }
        self.actions.push_back(Action::Start { id: self.jobs[slot].id, reason });
    }

    /// Starts all jobs of one queue that can start.
    fn schedule(&mut self, queue: usize) {
        self.compact(queue);
        let fits = |this: &Easy, head: &u32| this.queues[queue].fits(this.jobs[*head].need);
        while let Some(head) = self.queues[queue].waiting.head().filter(|head| fits(self, head)) {
            let (id, line) = (self.jobs[head].id, &mut self.queues[queue]);
            if line.promise.take().is_some_and(|(promised, at)| promised == id && at < self.now) {
                self.stats.promises_broken += 1;
            }
            line.room = None;
            self.start(head, StartReason::Head);
        }
        let line = &mut self.queues[queue];
        let Some(head) = line.waiting.head() else {
            (line.promise, line.fresh) = (None, None);
            return;
        };
        // A job refused before stays refused until something ends: time and free capacity only run out.
        let known = line.room.is_some();
        let room = line.room.unwrap_or_else(|| line.room_beside(self.jobs[head].need, self.now));
        if line.promise.is_none_or(|(id, _)| id != self.jobs[head].id) {
            line.promise = Some((self.jobs[head].id, room.shadow));
        }
        let fresh = line.fresh.take();
        let from = if known { fresh } else { Some(line.waiting.head_place() + 1) };
        let left = from.map_or(room, |from| self.backfill(queue, from, room));
        self.queues[queue].room = Some(left);
    }

    /// Starts jobs from place `from` on that fit beside the head; returns the room left.
    fn backfill(&mut self, queue: usize, mut from: u64, mut room: Room) -> Room {
        let to = match self.scan_max {
            usize::MAX => u64::MAX,
            n => self.queues[queue].waiting.behind(from, n),
        };
        // The largest time stands for an unlimited span, because additions to a time saturate there.
        let span = if room.shadow == Time(u64::MAX) { room.shadow } else { room.shadow.since(self.now) };
        while self.queues[queue].free > 0 {
            let line = &mut self.queues[queue];
            let limits = Limits { free: line.free, extra: room.extra, span };
            let Some((place, slot)) = line.waiting.first_within(from, to, &limits) else { break };
            from = place + 1;
            if self.jobs[slot].estimate <= span {
                self.start(slot, StartReason::EndsInTime { shadow: room.shadow });
            } else {
                room.extra -= i64::from(self.jobs[slot].need);
                self.start(slot, StartReason::FitsBesideHead);
            }
        }
        room
    }

    /// Renumbers the places of waiting jobs when most places are empty.
    fn compact(&mut self, queue: usize) {
        let Easy { jobs, queues, .. } = self;
        let line = &mut queues[queue];
        if line.waiting.is_sparse() {
            let fresh = line.fresh.take();
            line.waiting.compact(|slot, place| {
                if fresh.is_some_and(|fresh| jobs[slot].place >= fresh) {
                    line.fresh = line.fresh.or(Some(place));
                }
                jobs[slot].place = place;
            });
        }
    }
}

impl Machine for Easy {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::Submitted(job) => self.submit(job),
            Event::Ended { id, ok } => self.ended(id, ok),
            Event::Cancelled(id) => self.cancel(id),
            Event::Running { job, started } => {
                if let Some(slot) = self.admit(&job) {
                    self.jobs[slot].standing = Standing::Running;
                    self.run(slot, started);
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        if self.actions.is_empty() && self.dirty {
            self.dirty = false;
            (0..self.queues.len()).for_each(|q| self.schedule(q));
        }
        self.actions.pop_front()
    }
}

#[cfg(test)]
mod tests;
