//! The block layer between the last cache and a device: requests queue and are merged with neighbours, and a
//! scheduler chooses the next one.
//!
//! ```text
//! submit --> merge with a waiting neighbour, or wait --> scheduler chooses --> device --> completed --> tags
//! ```
//! A request carries a *tag*, the caller's name for it; merged requests complete together and return all their tags.
//!
//! With a [`Precedence`] the scheduler sees awaited reads first, and prefetches only in their turn. Without one all
//! reads are alike, as in Linux 2.6. With one a prefetch is only merged with an awaited read if many reads wait.

mod anticipatory;
mod deadline;
mod pending;

pub use anticipatory::Anticipatory;
pub use deadline::Deadline;
pub use pending::{Io, Slot};

use anticipatory::Dispatch;
use pending::Pending;
use policy::precedence::{Class, Precedence, Turn};
use policy::time::Time;

/// Policy that orders the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheduler {
    /// In order of arrival.
    Noop,
    /// Batches in sector order, with a deadline for each request.
    Deadline(Deadline),
    /// A one-way elevator that waits briefly for the next request of the owner just served.
    Anticipatory(Anticipatory),
}

/// Decision of the block layer about the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// Start this request. It has left the queue and must be [`Queue::completed`].
    Start(Slot, Io),
    /// Start nothing before this time, unless a request arrives.
    WaitUntil(Time),
    /// Nothing to start: the queue is empty.
    Idle,
}

/// Limits of merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merging {
    /// Whether a request is joined with one that ends where it starts.
    pub back: bool,
    /// Whether a request is joined with one that starts where it ends.
    pub front: bool,
    /// Sectors of the largest merged request: 1024, the default of Linux.
    pub sectors_max: u64,
}

impl Default for Merging {
    fn default() -> Merging {
        Merging { back: true, front: true, sectors_max: 1024 }
    }
}

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of submitted requests.
    pub submitted: u64,
    /// Submitted requests that were merged with a waiting one.
    pub merged: u64,
    /// Requests given to the device.
    pub started: u64,
    /// Sectors given to the device.
    pub sectors: u64,
    /// Started requests that are writes.
    pub writes: u64,
    /// Sum of the waiting times of the started requests.
    pub waited_ns: u64,
    /// Maximum of requests that waited at once.
    pub waiting_max: u64,
}

/// The queue of one device.
#[derive(Debug)]
pub struct Queue {
    pending: Pending,
    precedence: Option<Precedence>,
    /// Sector behind the last started request.
    head: u64,
    scheduler: State,
    merging: Merging,
    counts: Counts,
}

#[derive(Debug)]
enum State {
    Noop,
    Deadline(deadline::State),
    Anticipatory(anticipatory::State),
}

impl Queue {
    /// Creates an empty queue in which all reads are alike.
    pub fn new(scheduler: Scheduler, merging: Merging) -> Queue {
        let scheduler = match scheduler {
            Scheduler::Noop => State::Noop,
            Scheduler::Deadline(config) => State::Deadline(deadline::State::new(config)),
            Scheduler::Anticipatory(config) => State::Anticipatory(anticipatory::State::new(config)),
        };
        Queue { pending: Pending::new(), precedence: None, head: 0, scheduler, merging, counts: Counts::default() }
    }

    /// Lets awaited reads go before prefetches.
    pub fn with_precedence(self, precedence: Precedence) -> Queue {
        Queue { precedence: Some(precedence), ..self }
    }

    /// Submits a request, which waits for the device from `now` on.
    pub fn submit(&mut self, now: Time, mut io: Io, tag: u64) {
        self.counts.submitted += 1;
        if self.precedence.is_none() {
            io.class = Class::Awaited;
        }
        if let State::Anticipatory(state) = &mut self.scheduler {
            state.arrived(now, &io);
        }
        if self.rides_along(&io, tag) || self.pending.merge(&io, tag, self.merging) {
            self.counts.merged += 1;
            return;
        }
        self.pending.add(now, io, tag);
        self.counts.waiting_max = self.counts.waiting_max.max(self.pending.waiting() as u64);
    }

    /// Merges a prefetch with the awaited read that it follows, if allowed; returns whether it did.
    fn rides_along(&mut self, io: &Io, tag: u64) -> bool {
        let awaited = self.pending.awaited();
        let may = |precedence: &Precedence| precedence.rides_along(awaited);
        let awaited = Io { class: Class::Awaited, ..*io };
        io.class == Class::Prefetch
            && !io.write
            && self.precedence.as_ref().is_some_and(may)
            && self.pending.merge(&awaited, tag, Merging { front: false, ..self.merging })
    }

    /// Marks `tag`, so far a prefetch, as awaited.
    pub fn raise(&mut self, tag: u64) {
        if self.precedence.is_some() {
            self.pending.raise(tag);
        }
    }

    /// Chooses the next action for a device that can take a request.
    pub fn choose(&mut self, now: Time) -> Choice {
        if self.pending.waiting() == 0 {
            return Choice::Idle;
        }
        let (awaited, oldest_prefetch) = self.pending.classes();
        let mut turn = Turn::Awaited;
        if let Some(precedence) = &self.precedence {
            let onward = self.pending.prefetch_at(self.head);
            let bytes = onward.map(|slot| self.pending.io(slot).count * 512);
            turn = precedence.next(now, awaited, oldest_prefetch, bytes);
            self.pending.serve(turn.class());
            // A request that continues at the device's position is next, whatever the scheduler's order.
            if let (Turn::Onward, Some(slot)) = (turn, onward) {
                return self.start(now, slot, turn, awaited);
            }
        }
        let slot = match &mut self.scheduler {
            State::Noop => self.pending.first().expect("something waits"),
            State::Deadline(state) => state.choose(now, &self.pending),
            State::Anticipatory(state) => match state.choose(now, &self.pending) {
                Dispatch::Start(slot) => slot,
                Dispatch::WaitUntil(until) => return Choice::WaitUntil(until),
            },
        };
        self.start(now, slot, turn, awaited)
    }

    fn start(&mut self, now: Time, slot: Slot, turn: Turn, awaited: bool) -> Choice {
        let (io, since) = self.pending.take(slot);
        self.head = io.end();
        if let Some(precedence) = self.precedence.as_mut().filter(|_| !io.write) {
            precedence.went(turn, awaited);
        }
        self.counts.started += 1;
        self.counts.sectors += io.count;
        self.counts.writes += u64::from(io.write);
        self.counts.waited_ns += (now - since).0;
        Choice::Start(slot, io)
    }

    /// Completes `slot`: calls `tag` for each of its requests, in order of submission.
    pub fn completed(&mut self, now: Time, slot: Slot, tag: impl FnMut(u64)) {
        let io = self.pending.finish(slot, tag);
        if let State::Anticipatory(state) = &mut self.scheduler {
            state.completed(now, &io);
        }
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.pending.waiting()
    }

    /// Returns the counters of the queue.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Panics if an invariant of the queue is broken.
    pub fn check(&self) {
        self.pending.check();
    }
}

#[cfg(test)]
mod tests;
