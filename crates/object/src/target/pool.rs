//! The worker threads of one target: a few, started when needed, replaced (a bounded number of times) while they hang.

use super::clock::time;
use super::core::Core;
use super::lines::Lines;
use super::{Limits, TargetError};
use crate::workers;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::precedence::Class;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A worker with nothing to do ends after this span. A guess: threads are cheap to start, not free to keep.
const IDLE_SPAN: Duration = Duration::from_secs(10);
/// Stack of a worker: its deepest call is a system call.
const STACK_BYTES: usize = 256 * 1024;

/// A piece of work for a worker.
pub trait Work: Send + Sync {
    /// Executes it, unless it was abandoned before.
    fn execute(&self, core: &Core);
    /// Reports an error to its waiter instead of a result.
    fn abandon(&self, core: &Core, error: TargetError);
}

/// The workers and their queue.
#[derive(Default)]
pub struct Pool {
    crew: Mutex<Crew>,
    work: Condvar,
    room: Condvar,
    last_progress: AtomicU64,
    /// Length of the queue, for readers without the lock.
    waiting: AtomicU32,
}

#[derive(Default)]
struct Crew {
    queue: Lines,
    /// Current work of each living worker, by its seat.
    at: Vec<Option<Arc<dyn Work>>>,
    free_seats: Vec<usize>,
    live: usize,
    idle: usize,
    /// Number of hung workers without a waiter. Signed, because one may return before it was counted.
    lost: isize,
    stopped: bool,
}

impl Crew {
    fn may_grow(&self, limits: &Limits) -> bool {
        self.live as isize - self.lost < limits.workers_max as isize
            && self.live < limits.workers_max + limits.replacements_max
    }
}

impl Pool {
    /// Time at which a worker last began or ended an operation.
    pub fn last_progress(&self) -> Time {
        Time(self.last_progress.load(Ordering::Relaxed))
    }

    /// Number of operations that wait for a worker.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether a worker is busy or an operation waits.
    pub fn is_at_work(&self) -> bool {
        let crew = self.crew.lock();
        !crew.queue.is_empty() || crew.at.iter().any(Option::is_some)
    }

    /// Publishes the length of the queue.
    fn note(&self, crew: &Crew) {
        self.waiting.store(crew.queue.len() as u32, Ordering::Relaxed);
    }

    fn progress(&self, core: &Core) {
        self.last_progress.fetch_max(core.now().0, Ordering::Relaxed);
    }

    /// Queues a piece of work, a prefetch behind awaited work. Waits for room, at most one deadline.
    pub fn push(core: &Arc<Core>, work: Arc<dyn Work>, class: Class) -> Result<(), TargetError> {
        let (pool, limits) = (&core.pool, &core.limits);
        let mut crew = pool.crew.lock();
        let began = core.now();
        while crew.queue.len() >= limits.queue_max && !crew.stopped {
            let until = core.counts_from(began) + time(limits.deadline);
            if core.now() >= until {
                return Err(TargetError::Deadline);
            }
            core.sleep_beside(until, |span| pool.room.wait_for(&mut crew, span));
        }
        if crew.stopped {
            return Err(TargetError::Failed);
        }
        crew.queue.push(core.now(), work, class);
        if crew.idle < crew.queue.len() && crew.may_grow(limits) {
            match start_worker(core, &mut crew) {
                Ok(()) => {}
                Err(_) if crew.live > 0 => {} // the living workers will execute it
                Err(errno) => {
                    crew.queue.unpush(class);
                    return Err(TargetError::Io(errno));
                }
            }
        }
        pool.note(&crew);
        pool.work.notify_one();
        Ok(())
    }

    /// Whether at least half of the queue is free. A caller may then queue work without waiting for room, since there
    /// are far fewer threads that do so than places.
    pub fn has_room(&self, limits: &Limits) -> bool {
        self.crew.lock().queue.len() < limits.queue_max / 2
    }

    /// Moves work from the prefetches to the awaited work. Returns whether it was still queued.
    pub fn raise(&self, work: &Arc<dyn Work>) -> bool {
        self.crew.lock().queue.raise(work)
    }

    /// Counts a worker that hangs without a waiter.
    pub fn lost(&self) {
        self.crew.lock().lost += 1;
    }

    /// Starts a worker in place of a lost one, if there is work for it.
    pub fn replace(core: &Arc<Core>) {
        let mut crew = core.pool.crew.lock();
        if crew.idle < crew.queue.len() && crew.may_grow(&core.limits) && !crew.stopped {
            let _ = start_worker(core, &mut crew); // if that fails, queued work passes its deadline
        }
    }

    /// Counts the return of a lost worker.
    pub fn found(&self) {
        self.crew.lock().lost -= 1;
    }

    /// Number of hung operations without a waiter.
    pub fn hanging(&self) -> usize {
        self.crew.lock().lost.max(0) as usize
    }

    /// Answers all queued and running work with an error.
    pub fn abandon_all(&self, core: &Core, error: &TargetError) {
        let mut crew = self.crew.lock();
        let mut all: Vec<_> = crew.queue.drain();
        all.extend(crew.at.iter().flatten().cloned());
        self.note(&crew);
        drop(crew);
        self.room.notify_all();
        all.iter().for_each(|work| work.abandon(core, error.clone()));
    }

    /// Lets the workers end.
    pub fn stop(&self) {
        self.crew.lock().stopped = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Numbers of living threads and of hung ones.
    #[cfg(test)]
    pub fn census(&self) -> (usize, isize) {
        let crew = self.crew.lock();
        (crew.live, crew.lost)
    }

    /// Returns the next piece of work, or nothing if the worker is to end.
    fn next(&self, core: &Core, seat: usize) -> Option<Arc<dyn Work>> {
        let mut crew = self.crew.lock();
        crew.at[seat] = None;
        loop {
            let too_many = crew.live as isize - crew.lost > core.limits.workers_max as isize;
            if !too_many && let Some(work) = crew.queue.pop(core.now()) {
                crew.at[seat] = Some(work.clone());
                self.note(&crew);
                self.room.notify_one();
                return Some(work);
            }
            if crew.stopped || too_many {
                break;
            }
            crew.idle += 1;
            let waited = self.work.wait_for(&mut crew, IDLE_SPAN);
            crew.idle -= 1;
            if waited.timed_out() && crew.queue.is_empty() {
                break;
            }
        }
        crew.live -= 1;
        crew.free_seats.push(seat);
        None
    }
}

fn start_worker(core: &Arc<Core>, crew: &mut Crew) -> Result<(), Errno> {
    let seat = crew.free_seats.pop().unwrap_or_else(|| {
        crew.at.push(None);
        crew.at.len() - 1
    });
    let worker = core.clone();
    let body = move || {
        while let Some(work) = worker.pool.next(&worker, seat) {
            worker.pool.progress(&worker);
            work.execute(&worker);
            worker.pool.progress(&worker);
        }
    };
    match workers::start(&format!("target-{}", core.id), Some(STACK_BYTES), body) {
        Ok(()) => {
            crew.live += 1;
            Ok(())
        }
        Err(error) => {
            crew.free_seats.push(seat);
            Err(error.raw_os_error().map_or(Errno::AGAIN, Errno::from_raw_os_error))
        }
    }
}
