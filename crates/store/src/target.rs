//! A target: one directory of objects behind a deadline.
//!
//! Everything that touches a target's medium goes through [`Target::run`] and [`Target::submit`] (on one of the target's
//! own worker threads, waited for with a deadline) or [`Target::run_inline`] (on the caller's thread, watched; for the
//! hot path). A target that is failed refuses at once. A worker that hangs in the kernel is left behind: its slot stays
//! taken until the call returns, and what it returns then is thrown away.

mod changes;
mod clock;
mod core;
mod counted;
mod directory;
mod inline;
mod lines;
mod looks;
pub mod medium;
pub mod memory;
mod merged;
mod pending;
mod pool;
mod reach;
mod table;
mod watch;

pub use changes::{Change, log_change};
pub use directory::{DirectoryMedium, FileHandle, Identity, IdentityError, Way};
pub use inline::{InlineError, InlineSlots, OnDeadline};
pub use medium::{Handle, Medium, Space};
pub use memory::{Faults, MemoryMedium};
pub(crate) use merged::own_part;
pub use pending::{Pending, Queued};
pub use policy::protect::health::State;
pub use reach::Reach;
pub(crate) use table::Others;
pub use table::{Order, OrderError, Targets, TargetsOptions};

use crate::counters::{BUCKETS, Counter, Histogram, Tally};
use policy::TargetId;
use policy::precedence::Class;
use policy::protect::health::{Event, is_read_only, is_shortage};
use policy::stripe::forks::Queue;
use policy::stripe::performance::Served;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why an operation on a target gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The target is failed (or not known); nothing was tried.
    #[error("the target is failed")]
    Failed,
    /// It is not failed, and this node does not reach it.
    #[error("this node does not reach the target, others do (`only_on`)")]
    Elsewhere,
    /// It did not answer in time.
    #[error("no answer within the deadline")]
    Deadline,
    /// It answered with an error.
    #[error("{0}")]
    Io(Errno),
}

impl TargetError {
    /// Whether the daemon itself lacked something (descriptors, memory, threads): nothing was learned of the target.
    pub fn is_shortage(&self) -> bool {
        matches!(self, TargetError::Io(errno) if is_shortage(errno.raw_os_error()))
    }
}

/// Where operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// On worker threads, with deadlines.
    Threads,
    /// On the caller's thread and without any other thread, for deterministic tests. A medium that answers
    /// [`memory::MISSED_DEADLINE`] missed its deadline.
    Inline,
}

/// Limits of the targets of a volume.
#[derive(Clone, Debug)]
pub struct Limits {
    /// An operation that takes longer has missed its deadline.
    pub deadline: Duration,
    /// Worker threads of one target, not counting replacements of hung ones.
    pub workers_max: usize,
    /// Replacements for hung workers of one target.
    pub replacements_max: usize,
    /// Operations that wait for a worker of one target.
    pub queue_max: usize,
}

impl Default for Limits {
    /// Guesses: eight workers keep a disk's own queue filled; a target of which sixteen calls hang is past helping.
    fn default() -> Limits {
        Limits { deadline: Duration::from_secs(5), workers_max: 8, replacements_max: 8, queue_max: 256 }
    }
}

/// What a target is made from.
pub struct TargetSpec {
    /// Its number in the volume.
    pub id: TargetId,
    /// Its name in the volume.
    pub name: String,
    /// Its tier: 0 is the fastest.
    pub tier: u8,
    /// What it is made of.
    pub medium: Arc<dyn Medium>,
    /// The state it was left in.
    pub state: State,
    /// Whether the operator left it failed, so that only the operator restores it.
    pub failed_by_operator: bool,
}

impl TargetSpec {
    /// A target that is ok, called `tN` by its number.
    pub fn new(id: TargetId, tier: u8, medium: Arc<dyn Medium>) -> TargetSpec {
        TargetSpec { id, name: format!("t{id}"), tier, medium, state: State::Ok, failed_by_operator: false }
    }
}

/// What happened on a target since the start.
#[derive(Default)]
pub struct Counters {
    /// Operations begun.
    pub ops: Counter,
    /// Operations that failed with an error of the device.
    pub errors: Counter,
    /// Operations that passed their deadline.
    pub deadline_misses: Counter,
    /// Bytes read from objects.
    pub read_bytes: Counter,
    /// Bytes written to objects.
    pub written_bytes: Counter,
    /// Reads and writes under way.
    under_way: Tally,
    /// Every sixteenth operation is timed: how many were.
    sampled: Counter,
    /// Bytes of the timed operations.
    sampled_bytes: Counter,
    /// Nanoseconds that the timed operations took.
    sampled_ns: Counter,
    /// The same by spans.
    spans: Histogram,
    /// The same operations: how many were under way when each began, itself among them.
    sampled_queue: Counter,
    /// What an operation took lately, in nanoseconds: a moving mean over the sampled ones.
    lately_ns: AtomicU64,
}

/// A target whose operations take longer has somewhere to go for each: its medium is no memory. A guess, ten times what it takes to hand an
/// operation to a worker and back.
const SLOW_NS: u64 = 200_000;

impl Counters {
    /// Whether an operation takes so long that handing it to a worker is nothing to that.
    pub fn is_slow(&self) -> bool {
        self.lately_ns.load(Ordering::Relaxed) > SLOW_NS
    }

    /// An operation took so long. Two at a time may lose one: it is a mean.
    fn took(&self, ns: u64) {
        let before = self.lately_ns.load(Ordering::Relaxed);
        let mean = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        self.lately_ns.store(mean, Ordering::Relaxed);
    }

    /// What was timed, since the start.
    pub fn served(&self) -> Served {
        let (operations, bytes) = (self.sampled.get(), self.sampled_bytes.get());
        Served { operations, bytes, took_ns: self.sampled_ns.get(), queued: self.sampled_queue.get() }
    }

    /// How many of them took how long.
    pub fn spans(&self) -> [u64; BUCKETS] {
        self.spans.buckets()
    }

    /// Reads and writes of objects under way.
    pub fn under_way(&self) -> Queue {
        let (operations, bytes) = self.under_way.get();
        Queue { operations: operations as u32, bytes }
    }
}

/// One target of the volume.
pub struct Target {
    core: Arc<core::Core>,
    slots: Arc<InlineSlots>,
    execution: Execution,
}

impl Target {
    /// Its number in the volume.
    pub fn id(&self) -> TargetId {
        self.core.id
    }

    /// The directory that it is made of, if it is one.
    pub fn directory(&self) -> Option<&std::path::Path> {
        self.core.medium.directory()
    }

    /// What the connections behind it do, if there are several. Asks no server.
    pub fn connections(&self) -> Option<serde_json::Value> {
        self.core.medium.connections()
    }

    /// Its name in the volume.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Its tier: 0 is the fastest.
    pub fn tier(&self) -> u8 {
        self.core.tier
    }

    /// Its state now: one relaxed load.
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// Which nodes reach it.
    pub fn reach(&self) -> Reach {
        self.core.whereabouts.reach()
    }

    /// Whether it lies near this node, so that new files of its users go there first.
    pub fn is_near(&self) -> bool {
        self.core.whereabouts.is_near()
    }

    pub(crate) fn set_reach(&self, reach: Reach, near: bool) {
        self.core.whereabouts.set(reach, near);
    }

    /// Of one that this node does not reach: whether an operator failed it.
    pub(crate) fn set_lost(&self, lost: bool) {
        self.core.whereabouts.set_lost(lost);
    }

    /// Whether what lies on it is to be made anew elsewhere: it is failed, and not only out of this node's reach.
    pub fn is_given_up(&self) -> bool {
        self.state() == State::Failed && (self.reach() != Reach::Elsewhere || self.core.whereabouts.is_lost())
    }

    fn refusal(&self) -> TargetError {
        if self.reach() == Reach::Elsewhere { TargetError::Elsewhere } else { TargetError::Failed }
    }

    /// Whether readers should prefer another mirror: suspect, or draining and just as doubtful. One relaxed load.
    pub fn in_doubt(&self) -> bool {
        self.core.in_doubt()
    }

    /// Space as last seen in the background.
    pub fn space(&self) -> Space {
        self.core.space()
    }

    /// What happened on it since the start.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Whether its devices are known to be behind a network. Asks nobody.
    pub fn over_network(&self) -> bool {
        self.core.medium.over_network()
    }

    /// See [`Medium::cuts_requests`].
    pub fn cuts_requests(&self) -> bool {
        self.core.medium.cuts_requests()
    }

    /// What it has to do: what is under way, and operations that wait for a worker.
    pub fn queue(&self) -> Queue {
        let under_way = self.core.counters.under_way();
        Queue { operations: under_way.operations + self.core.pool.waiting(), ..under_way }
    }

    /// Executes `op` on a worker of this target and waits for it, at most until the deadline.
    pub fn run<T, F>(&self, op: F) -> Result<T, TargetError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    {
        self.submit(op).wait()
    }

    /// Hands `op` to a worker of this target, so that several targets work at the same time.
    pub fn submit<T, F>(&self, op: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    {
        if self.state() == State::Failed {
            return Pending::ready(Err(self.refusal()));
        }
        self.core.submit(Class::Awaited, op)
    }

    /// As [`Target::submit`], but behind what is awaited if it is a prefetch, and never waits for room in the queue: refused with `Deadline` when so many operations
    /// wait that this one might.
    pub fn try_submit<T, F>(&self, class: Class, op: F) -> Result<Pending<T>, TargetError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    {
        if self.state() == State::Failed {
            return Err(self.refusal());
        }
        if self.execution == Execution::Threads && !self.core.pool.has_room(&self.core.limits) {
            return Err(TargetError::Deadline);
        }
        Ok(self.core.submit(class, op))
    }

    /// Executes `op` on the caller's thread, watched: for short operations of the hot path. `NotNow` without having
    /// called `op` when too many threads are inside inline operations already or the target is in doubt: use
    /// [`Target::run`] then. When the operation passes the deadline, the watchdog calls `on_deadline` once, from its
    /// own thread, and this call (should it ever return) answers `Taken`: somebody else has dealt with the request.
    pub fn run_inline<T, F>(&self, op: F, on_deadline: Option<&Arc<dyn OnDeadline>>) -> Result<T, InlineError>
    where
        F: FnOnce(&dyn Medium) -> Result<T, Errno>,
    {
        if self.state() == State::Failed {
            return Err(self.refusal().into());
        }
        if self.execution == Execution::Inline {
            return self.core.guarded(op).map_err(|errno| self.core.error(errno).into());
        }
        if self.in_doubt() {
            return Err(InlineError::NotNow);
        }
        let entered = self.slots.enter(self.id(), self.core.now(), on_deadline).ok_or(InlineError::NotNow)?;
        self.core.counters.ops.add(1);
        let result = op(&*self.core.medium);
        if entered.leave() {
            self.core.report(Event::HangingReturned);
            return Err(InlineError::Taken);
        }
        result.map_err(|errno| self.core.error(errno).into())
    }
}

impl Target {
    /// What a probe answered, for those that need to read only: health is told whether it can be written too.
    fn readable(&self, answer: Result<(), TargetError>) -> Result<(), TargetError> {
        match answer {
            Ok(()) => self.core.report(Event::ProbeOk),
            Err(TargetError::Io(errno)) if is_read_only(errno.raw_os_error()) => self.core.report(Event::ProbeReadOnly),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.core.pool.stop();
    }
}

#[cfg(test)]
mod tests;
