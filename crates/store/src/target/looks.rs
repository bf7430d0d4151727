//! The daemon's own probes and measurements of idle targets, by a few threads for all of them. A thread for each of a
//! thousand targets would be woken every few seconds for nothing.
//!
//! A thread whose check hangs is left behind, and another takes its place, a bounded number of times. A check that
//! waits longer than the timeout goes to the workers of its own target, so that no other target delays it further.

use super::TargetError;
use super::clock::time;
use super::core::Core;
use super::pool::{Pool, Work};
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::precedence::Class;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Number of these threads. A guess: local disks need one, and four get through a thousand network file systems in a
/// second.
const LOOKERS: usize = 4;
/// Limit of threads with the hung ones. A guess: when so many hang, each target is left to its own workers.
const LOOKERS_MAX: usize = 32;
/// Idle time after which a thread ends: three rounds of probes.
const IDLE_SPAN: Duration = Duration::from_secs(30);
const STACK_BYTES: usize = 256 * 1024;

/// Kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Check of the target's identity.
    Probe,
    /// Measurement of its space.
    Space,
}

/// A check of one target.
pub struct Check {
    pub core: Arc<Core>,
    pub work: Arc<dyn Work>,
    pub at: At,
}

impl Check {
    /// Hands the check to the target's own workers.
    fn alone(self) {
        if let Err(error) = Pool::push(&self.core, self.work, Class::Awaited) {
            self.core.not_looked(self.at, &error);
        }
    }
}

/// The threads and their queue.
pub struct Checks {
    patience: Duration,
    crew: Mutex<Crew>,
    work: Condvar,
}

#[derive(Default)]
struct Crew {
    queue: VecDeque<(Time, Check)>,
    /// Start of the current check of each living thread, by its seat.
    began: Vec<Option<Time>>,
    free_seats: Vec<usize>,
    live: usize,
    idle: usize,
    stopped: bool,
}

impl Crew {
    fn hanging(&self, now: Time, patience: Duration) -> usize {
        self.began.iter().flatten().filter(|began| now.since(**began) >= time(patience)).count()
    }

    /// Takes the checks that match, as far as their targets' own workers have room.
    fn take(&mut self, is_meant: impl Fn(Time) -> bool) -> Vec<Check> {
        let has_room = |look: &Check| look.core.pool.has_room(&look.core.limits);
        let (taken, left) =
            std::mem::take(&mut self.queue).into_iter().partition(|(since, look)| is_meant(*since) && has_room(look));
        self.queue = left;
        let taken: VecDeque<(Time, Check)> = taken;
        taken.into_iter().map(|(_, look)| look).collect()
    }
}

impl Checks {
    /// Makes the queue for targets with that deadline. The timeout is a small part of it, since the deadline of a
    /// queued probe runs already.
    pub fn new(deadline: Duration) -> Arc<Checks> {
        let patience = (deadline / 20).max(Duration::from_millis(5));
        Arc::new(Checks { patience, crew: Mutex::default(), work: Condvar::new() })
    }

    /// Queues checks, without waiting.
    pub fn push(self: &Arc<Checks>, looks: Vec<Check>) {
        let (alone, shared): (Vec<_>, Vec<_>) = looks.into_iter().partition(|look| look.core.has_own_workers());
        alone.into_iter().for_each(Check::alone);
        let Some(now) = shared.first().map(|look| look.core.now()) else { return };
        let mut crew = self.crew.lock();
        if crew.stopped {
            return;
        }
        crew.queue.extend(shared.into_iter().map(|look| (now, look)));
        let hanging = crew.hanging(now, self.patience);
        let missing = crew.queue.len().saturating_sub(crew.idle);
        let more = missing.min((LOOKERS + hanging).min(LOOKERS_MAX).saturating_sub(crew.live));
        for _ in 0..more {
            if !self.start(&mut crew, now) {
                break;
            }
        }
        let left = if crew.live <= hanging { crew.take(|_| true) } else { Vec::new() };
        let waiting = crew.queue.len();
        drop(crew);
        for _ in 0..waiting {
            self.work.notify_one();
        }
        left.into_iter().for_each(Check::alone);
    }

    /// Hands checks that waited too long to the targets' own workers. Returns when to call again, if checks still wait.
    pub fn hand_over(&self, now: Time) -> Option<Duration> {
        let mut crew = self.crew.lock();
        let late = crew.take(|since| now.since(since) >= time(self.patience));
        let waits = !crew.queue.is_empty();
        drop(crew);
        late.into_iter().for_each(Check::alone);
        waits.then_some(self.patience)
    }

    /// Lets the threads end.
    pub fn stop(&self) {
        let mut crew = self.crew.lock();
        crew.stopped = true;
        let left = std::mem::take(&mut crew.queue);
        drop(crew);
        self.work.notify_all();
        drop(left);
    }

    /// Number of living threads.
    #[cfg(test)]
    pub fn threads(&self) -> usize {
        self.crew.lock().live
    }

    fn start(self: &Arc<Checks>, crew: &mut Crew, now: Time) -> bool {
        let seat = crew.free_seats.pop().unwrap_or_else(|| {
            crew.began.push(None);
            crew.began.len() - 1
        });
        let looks = self.clone();
        let body = move || {
            let mut ended = now;
            while let Some(look) = looks.next(seat, ended) {
                look.work.execute(&look.core);
                ended = look.core.now();
            }
        };
        let started = std::thread::Builder::new().name("looker".into()).stack_size(STACK_BYTES).spawn(body);
        match started {
            Ok(_) => crew.live += 1,
            Err(_) => crew.free_seats.push(seat),
        }
        started.is_ok()
    }

    /// Returns the next check, or nothing if the thread is to end; its last one ended at `now`.
    fn next(&self, seat: usize, now: Time) -> Option<Check> {
        let mut crew = self.crew.lock();
        crew.began[seat] = None;
        // It hung, and another thread has its place.
        let is_spare = crew.live > LOOKERS + crew.hanging(now, self.patience);
        while !crew.stopped && !is_spare {
            if let Some((_, look)) = crew.queue.pop_front() {
                crew.began[seat] = Some(look.core.now());
                return Some(look);
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

impl Core {
    /// Whether its own workers do the checks: they are at work on it, or it is in doubt and a check may hang.
    fn has_own_workers(&self) -> bool {
        (self.in_doubt() || !self.state().accepts_io() || self.pool.is_at_work()) && self.pool.has_room(&self.limits)
    }

    /// Handles a check that could not begin.
    fn not_looked(&self, at: At, error: &TargetError) {
        match at {
            At::Probe => self.probe_not_begun(error),
            At::Space => self.space_not_begun(),
        }
    }
}
