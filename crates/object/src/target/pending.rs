//! One operation of a worker, and the caller that waits for it with a deadline.

use super::TargetError;
use super::clock::time;
use super::core::Core;
use super::medium::Medium;
use super::pool::{Pool, Work};
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::protect::health::Event;
use rustix::io::Errno;
use std::sync::{Arc, Weak};

/// Limit of a caller's wait for a worker, in deadlines, even while others are served: overload is no excuse to hang.
const QUEUED_DEADLINES_MAX: u32 = 4;

/// An operation under way on a worker. Dropping it abandons the result, not the operation.
pub struct Pending<T>(Stage<T>);

enum Stage<T> {
    Ready(Result<T, TargetError>),
    Under { task: Arc<Task<T>>, core: Arc<Core> },
}

/// An operation that was handed over as a prefetch.
pub struct Queued {
    work: Weak<dyn Work>,
    core: Arc<Core>,
}

impl Queued {
    /// Moves the operation before all prefetches for a waiting caller. Returns whether it was still queued.
    pub fn raise(&self) -> bool {
        self.work.upgrade().is_some_and(|work| self.core.pool.raise(&work))
    }
}

type Op<T> = Box<dyn FnOnce(&dyn Medium) -> Result<T, Errno> + Send>;

/// An operation with its result.
pub struct Task<T> {
    op: Mutex<Option<Op<T>>>,
    phase: Mutex<Phase<T>>,
    changed: Condvar,
}

enum Phase<T> {
    Queued {
        since: Time,
    },
    Running {
        since: Time,
    },
    Done(Result<T, Errno>),
    /// The result is not needed any more; `missed`: the hang was reported to health.
    Abandoned {
        error: TargetError,
        missed: bool,
    },
    Taken,
}

impl<T> Task<T> {
    pub fn new(op: impl FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static, now: Time) -> Task<T> {
        let (op, phase) = (Mutex::new(Some(Box::new(op) as Op<T>)), Mutex::new(Phase::Queued { since: now }));
        Task { op, phase, changed: Condvar::new() }
    }
}

impl<T: Send> Work for Task<T> {
    fn execute(&self, core: &Core) {
        let op = {
            let mut phase = self.phase.lock();
            match *phase {
                Phase::Queued { .. } => *phase = Phase::Running { since: core.now() },
                Phase::Abandoned { missed: true, .. } => {
                    drop(phase);
                    return core.report(Event::HangingReturned);
                }
                _ => return,
            }
            self.op.lock().take()
        };
        let Some(op) = op else { return };
        let result = core.guarded(op);
        let mut phase = self.phase.lock();
        if let Phase::Abandoned { missed, .. } = *phase {
            drop(phase);
            core.pool.found();
            if missed {
                core.report(Event::HangingReturned);
            }
            return;
        }
        *phase = Phase::Done(result);
        self.changed.notify_all();
    }

    fn abandon(&self, core: &Core, error: TargetError) {
        let mut phase = self.phase.lock();
        let running = matches!(*phase, Phase::Running { .. });
        if running || matches!(*phase, Phase::Queued { .. }) {
            *phase = Phase::Abandoned { error, missed: false };
            self.changed.notify_all();
        }
        drop(phase);
        if running {
            core.pool.lost();
        }
    }
}

impl<T: Send + 'static> Pending<T> {
    /// Wraps the result of a finished operation.
    pub(super) fn ready(result: Result<T, TargetError>) -> Pending<T> {
        Pending(Stage::Ready(result))
    }

    /// Wraps an operation handed to a worker.
    pub(super) fn under(task: Arc<Task<T>>, core: Arc<Core>) -> Pending<T> {
        Pending(Stage::Under { task, core })
    }

    /// Place of the operation among the prefetches of its target; `None` if it is over.
    pub fn queued(&self) -> Option<Queued> {
        match &self.0 {
            Stage::Ready(_) => None,
            Stage::Under { task, core } => {
                let work: Arc<dyn Work> = task.clone();
                Some(Queued { work: Arc::downgrade(&work), core: core.clone() })
            }
        }
    }

    /// Waits for the result, at most until the deadline. The deadline counts from the start of the operation or, while
    /// it is queued, from the last progress of the target's workers.
    pub fn wait(self) -> Result<T, TargetError> {
        let (task, core) = match self.0 {
            Stage::Ready(result) => return result,
            Stage::Under { task, core } => (task, core),
        };
        let mut phase = task.phase.lock();
        loop {
            let until = match &*phase {
                Phase::Done(_) => break,
                Phase::Abandoned { error, .. } => return Err(error.clone()),
                Phase::Running { since } => core.counts_from(*since) + time(core.limits.deadline),
                Phase::Queued { since } => {
                    let since = core.counts_from(*since);
                    let sign_of_life = core.pool.last_progress().max(since);
                    let timeout = time(core.limits.deadline * QUEUED_DEADLINES_MAX);
                    (sign_of_life + time(core.limits.deadline)).min(since + timeout)
                }
                Phase::Taken => unreachable!("only the one waiter takes the result"),
            };
            if core.now() >= until {
                return Err(give_up(&mut phase, &core));
            }
            core.sleep_beside(until, |span| task.changed.wait_for(&mut phase, span));
        }
        match std::mem::replace(&mut *phase, Phase::Taken) {
            Phase::Done(result) => {
                drop(phase);
                result.map_err(|errno| core.error(errno))
            }
            _ => unreachable!("the loop ends with a result"),
        }
    }
}

/// Abandons the operation after its deadline, and reports a miss to health.
fn give_up<T>(phase: &mut parking_lot::MutexGuard<'_, Phase<T>>, core: &Arc<Core>) -> TargetError {
    let (started, running) = match **phase {
        Phase::Running { since } => (since, true),
        Phase::Queued { since } => (since, false),
        _ => return TargetError::Deadline,
    };
    // In a queue that moves, the cause is the target's load, not the target.
    let missed = running || core.now() >= core.pool.last_progress() + time(core.limits.deadline);
    **phase = Phase::Abandoned { error: TargetError::Deadline, missed };
    parking_lot::MutexGuard::unlocked(phase, || {
        // First the miss, then the replacement: operations of the replacement begin after the miss.
        if missed {
            core.counters.deadline_misses.add(1);
            core.report(Event::DeadlineMissed { started });
        }
        if running {
            core.pool.lost();
            Pool::replace(core);
        }
    });
    TargetError::Deadline
}
