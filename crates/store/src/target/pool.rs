//! The worker threads of one target: a few, started when needed, replaced (a bounded number of times) while they hang.

use super::clock::time;
use super::core::Core;
use super::lines::Lines;
use super::{Limits, TargetError};
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::precedence::Class;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A worker with nothing to do ends after this span. A guess: threads are cheap to start, not free to keep.
const IDLE_SPAN: Duration = Duration::from_secs(10);
/// The deepest thing a worker does is a system call.
const STACK_BYTES: usize = 256 * 1024;

/// Something that a worker can do.
pub trait Work: Send + Sync {
    /// Does it, unless it was abandoned before.
    fn execute(&self, core: &Core);
    /// Tells whoever waits for it that there will be no result.
    fn abandon(&self, core: &Core, error: TargetError);
}

/// The workers and their queue.
pub struct Pool {
    crew: Mutex<Crew>,
    work: Condvar,
    room: Condvar,
    last_progress: AtomicU64,
    /// Length of the queue, for those that look without the lock.
    waiting: AtomicU32,
}

#[derive(Default)]
struct Crew {
    queue: Lines,
    /// What each living worker is at; the index is the worker's seat.
    at: Vec<Option<Arc<dyn Work>>>,
    free_seats: Vec<usize>,
    live: usize,
    idle: usize,
    /// Workers that nobody waits for any more because they hang. Signed: one may be found before it was counted lost.
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
    pub fn new() -> Pool {
        Pool {
            crew: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            last_progress: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
        }
    }

    /// When a worker last began or ended something.
    pub fn last_progress(&self) -> Time {
        Time(self.last_progress.load(Ordering::Relaxed))
    }

    /// How many operations wait for a worker.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether a worker is at something, or something waits for one.
    pub fn is_at_work(&self) -> bool {
        let crew = self.crew.lock();
        !crew.queue.is_empty() || crew.at.iter().any(Option::is_some)
    }

    /// The queue has changed.
    fn note(&self, crew: &Crew) {
        self.waiting.store(crew.queue.len() as u32, Ordering::Relaxed);
    }

    fn progress(&self, core: &Core) {
        self.last_progress.fetch_max(core.now().0, Ordering::Relaxed);
    }

    /// Queues a piece of work, behind what is awaited if it is a prefetch; waits for room, at most a deadline long.
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
                Err(_) if crew.live > 0 => {} // those that live will come to it
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

    /// Whether at least half of the queue is free: who finds it so may hand work over without waiting for room, since there
    /// are far fewer threads that do than places.
    pub fn has_room(&self, limits: &Limits) -> bool {
        self.crew.lock().queue.len() < limits.queue_max / 2
    }

    /// A caller waits for work that was a prefetch: it goes before those that still are. Whether it still waited for a worker.
    pub fn raise(&self, work: &Arc<dyn Work>) -> bool {
        self.crew.lock().queue.raise(work)
    }

    /// A worker hangs, and no caller waits for it any more.
    pub fn lost(&self) {
        self.crew.lock().lost += 1;
    }

    /// Starts a worker in place of a lost one, if there is work for it.
    pub fn replace(core: &Arc<Core>) {
        let mut crew = core.pool.crew.lock();
        if crew.idle < crew.queue.len() && crew.may_grow(&core.limits) && !crew.stopped {
            let _ = start_worker(core, &mut crew); // if not, those that wait pass their deadline
        }
    }

    /// A worker that was lost has returned.
    pub fn found(&self) {
        self.crew.lock().lost -= 1;
    }

    /// Operations that hang although nobody waits for them any more.
    pub fn hanging(&self) -> usize {
        self.crew.lock().lost.max(0) as usize
    }

    /// Answers everything that waits or runs with an error.
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

    /// Threads alive and how many of them hang.
    #[cfg(test)]
    pub fn census(&self) -> (usize, isize) {
        let crew = self.crew.lock();
        (crew.live, crew.lost)
    }

    /// The next piece of work, or nothing if the worker is to end.
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
    let started = std::thread::Builder::new().name(format!("target-{}", core.id)).stack_size(STACK_BYTES).spawn(body);
    match started {
        Ok(_) => {
            crew.live += 1;
            Ok(())
        }
        Err(error) => {
            crew.free_seats.push(seat);
            Err(error.raw_os_error().map_or(Errno::AGAIN, Errno::from_raw_os_error))
        }
    }
}
