//! The daemon's own probes and measurements of idle targets, by a few threads for all of them. A thread for each of a
//! thousand targets would be woken every few seconds for nothing.
//!
//! A thread whose check hangs is left behind, and another takes its place, a bounded number of times. A check that
//! waits longer than the timeout goes to the workers of its own target, so that no other target delays it further.

use super::TargetError;
use super::clock::time;
use super::core::Core;
use super::pool::{Pool, Work};
use crate::workers;
use parking_lot::{Mutex, MutexGuard};
use policy::Time;
use policy::precedence::Class;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Number of these threads. A guess: local disks need one, and four get through a thousand network file systems in a
/// second.
const LOOKERS: usize = 4;
/// Limit of threads with the hung ones. A guess: when so many hang, each target is left to its own workers.
const LOOKERS_MAX: usize = 32;
/// Number of waiting checks per further thread. A guess: their time on local disks equals a thread's start.
const CHECKS_EACH: usize = 8;
/// Idle time after which a thread ends: three rounds of probes.
const IDLE_SPAN: Duration = Duration::from_secs(30);
const STACK_BYTES: usize = 256 * 1024;

/// A check of one target.
pub struct Check {
    pub core: Arc<Core>,
    pub work: Arc<dyn Work>,
    /// Handles a check that could not begin.
    pub not_begun: fn(&Core, &TargetError),
}

impl Check {
    /// Passes the check to the target's own workers.
    fn alone(self) {
        if let Err(error) = Pool::push(&self.core, self.work, Class::Awaited) {
            (self.not_begun)(&self.core, &error);
        }
    }
}

/// The queue and its threads.
pub struct Checks {
    timeout: Duration,
    crew: Mutex<Crew>,
    threads: workers::Pool,
}

#[derive(Default)]
struct Crew {
    queue: VecDeque<(Time, Check)>,
    /// Start of each current check, by its number.
    began: BTreeMap<u64, Time>,
    next: u64,
    stopped: bool,
}

impl Crew {
    fn hanging(&self, now: Time, timeout: Duration) -> usize {
        self.began.values().filter(|began| now.since(**began) >= time(timeout)).count()
    }

    /// Removes the matching checks from the queue, as far as their targets' own workers have room.
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
        let timeout = (deadline / 20).max(Duration::from_millis(5));
        let threads = workers::Pool::with("looker", LOOKERS, IDLE_SPAN, Some(STACK_BYTES));
        Arc::new(Checks { timeout, crew: Mutex::default(), threads })
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
        let hanging = crew.hanging(now, self.timeout);
        self.threads.limit((LOOKERS + hanging).min(LOOKERS_MAX));
        self.wake();
        let left = if self.threads.threads() <= hanging { crew.take(|_| true) } else { Vec::new() };
        drop(crew);
        left.into_iter().for_each(Check::alone);
    }

    /// Passes checks that waited too long to the targets' own workers. Returns when to call again, if any wait.
    pub fn hand_over(&self, now: Time) -> Option<Duration> {
        let mut crew = self.crew.lock();
        let late = crew.take(|since| now.since(since) >= time(self.timeout));
        let waits = !crew.queue.is_empty();
        drop(crew);
        late.into_iter().for_each(Check::alone);
        waits.then_some(self.timeout)
    }

    /// Drops the checks that wait, and takes no more.
    pub fn stop(&self) {
        let mut crew = self.crew.lock();
        crew.stopped = true;
        let left = std::mem::take(&mut crew.queue);
        drop(crew);
        drop(left);
    }

    /// Number of living threads.
    #[cfg(test)]
    pub fn threads(&self) -> usize {
        self.threads.threads()
    }

    fn wake(self: &Arc<Checks>) {
        let looks = self.clone();
        // A failure is seen by the number of threads.
        drop(self.threads.wake(move || looks.work()));
    }

    /// Executes waiting checks. If many wait, each thread wakes the next.
    fn work(self: &Arc<Checks>) {
        let mut crew = self.crew.lock();
        while let Some((_, look)) = crew.queue.pop_front() {
            if crew.queue.len() >= CHECKS_EACH {
                self.wake();
            }
            let number = crew.next;
            crew.next += 1;
            crew.began.insert(number, look.core.now());
            MutexGuard::unlocked(&mut crew, || look.work.execute(&look.core));
            crew.began.remove(&number);
        }
    }
}

impl Core {
    /// Whether the target's own workers do the checks: they are busy with it anyway, or it is in doubt and a check may
    /// hang.
    fn has_own_workers(&self) -> bool {
        (self.in_doubt() || !self.state().accepts_io() || self.pool.is_at_work()) && self.pool.has_room(&self.limits)
    }
}
