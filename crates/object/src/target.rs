//! A target: one directory of objects behind a deadline.
//!
//! Each access to a target's medium is one of these calls:
//! - [`Target::run`] and [`Target::submit`]: on one of the target's own worker threads, with a deadline.
//! - [`Target::run_inline`]: on the caller's thread, watched, for the hot path.
//!
//! A failed target refuses at once. A worker that hangs in the kernel is left behind: its slot stays taken until the
//! call returns, and its late result is dropped.

mod changes;
mod clock;
mod core;
mod counted;
mod directory;
mod file_system;
mod inline;
mod lines;
mod looks;
pub mod medium;
#[cfg(any(test, feature = "doubles"))]
pub mod memory;
mod merged;
mod pending;
mod pool;
mod reach;
mod table;
mod watch;

pub use changes::{Change, log_change};
pub use directory::{DirectoryAccess, DirectoryMedium, FileHandle, Identity, IdentityError};
pub use inline::{InlineError, InlineSlots, OnDeadline};
pub use medium::{Handle, Medium, Space};
#[cfg(any(test, feature = "doubles"))]
pub use memory::{Faults, MemoryMedium};
pub use merged::own_part;
pub use pending::{Pending, Queued};
pub use policy::protect::health::State;
pub use reach::Reach;
pub use table::Others;
pub use table::{Order, OrderError, Targets, TargetsOptions};

use crate::counters::{BUCKETS, Counter, Histogram, Tally};
use crate::errno::is_shortage;
use crate::forward;
use policy::TargetId;
use policy::precedence::Class;
use policy::protect::health::{Event, Health};
use policy::stripe::forks::Queue;
use policy::stripe::performance::Served;
use reach::Whereabouts;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Targets of one volume. A guess at what one daemon serves well; the formats allow 65 535.
pub const TARGETS_MAX: usize = 1024;

/// Reason why an operation on a target gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The target is failed or unknown; nothing was tried.
    #[error("the target is failed")]
    Failed,
    /// The target works, but this node does not reach it.
    #[error("this node does not reach the target, other nodes do (`only_on`)")]
    Elsewhere,
    /// The target did not answer in time.
    #[error("no answer within the deadline")]
    Deadline,
    /// The target answered with an error.
    #[error("{0}")]
    Io(Errno),
}

impl TargetError {
    /// Whether the daemon itself lacked a resource (descriptors, memory, threads): no evidence about the target.
    pub fn is_shortage(&self) -> bool {
        matches!(self, TargetError::Io(errno) if is_shortage(*errno))
    }
}

/// Errno of a medium that [`Execution::Inline`] takes for a missed deadline.
pub const MISSED_DEADLINE: Errno = Errno::TIME;

/// Where operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Operations run on worker threads, with deadlines.
    Threads,
    /// On the caller's thread and without any other thread, for deterministic tests. A medium that answers
    /// [`MISSED_DEADLINE`] missed its deadline.
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
    /// Guesses: eight workers keep a disk's own queue filled; a target with sixteen hung calls is beyond help.
    fn default() -> Limits {
        Limits { deadline: Duration::from_secs(5), workers_max: 8, replacements_max: 8, queue_max: 256 }
    }
}

/// Description from which a target is made.
pub struct TargetSpec {
    /// Number of the target in the volume.
    pub id: TargetId,
    /// Name of the target in the volume.
    pub name: String,
    /// Its tier: 0 is the fastest.
    pub tier: u8,
    /// Storage that the target consists of.
    pub medium: Arc<dyn Medium>,
    /// State in which it was left.
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

/// Counts of a target since the start.
#[derive(Default)]
pub struct Counters {
    /// Operations that were started.
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
    /// Timed operations: every sixteenth.
    sampled: Counter,
    /// Bytes of the timed operations.
    sampled_bytes: Counter,
    /// Nanoseconds that the timed operations took.
    sampled_ns: Counter,
    /// Durations of the timed operations.
    spans: Histogram,
    /// Sum of the operations under way at the start of each timed one, itself included.
    sampled_queue: Counter,
    /// Moving mean of the duration of an operation, in nanoseconds, over the timed ones.
    lately_ns: AtomicU64,
}

/// Duration above which a target is slow: its medium is not memory. A guess: ten times the cost of handing an operation
/// to a worker and back.
const SLOW_NS: u64 = 200_000;

impl Counters {
    /// Whether an operation is so slow that the cost of handing it to a worker is negligible.
    pub fn is_slow(&self) -> bool {
        self.lately_ns.load(Ordering::Relaxed) > SLOW_NS
    }

    /// Adds a duration to the mean. Two concurrent calls may lose one: it is a mean.
    fn took(&self, ns: u64) {
        let before = self.lately_ns.load(Ordering::Relaxed);
        let mean = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        self.lately_ns.store(mean, Ordering::Relaxed);
    }

    /// Totals of the timed operations since the start.
    pub fn served(&self) -> Served {
        let (operations, bytes) = (self.sampled.get(), self.sampled_bytes.get());
        Served { operations, bytes, took_ns: self.sampled_ns.get(), queued: self.sampled_queue.get() }
    }

    /// Histogram of the durations of the timed operations.
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
    whereabouts: Whereabouts,
}

impl Target {
    /// Its number in the volume.
    pub fn id(&self) -> TargetId {
        self.core.id
    }

    /// Directory of the target, if it is a directory.
    pub fn directory(&self) -> Option<&std::path::Path> {
        self.core.medium.directory()
    }

    /// State of its connections, if it has several. Sends no request to a server.
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

    forward! { core:
        /// Its state now: one relaxed load.
        pub fn state(&self) -> State;
        /// Whether calls or probes failed the target after an order of that time, in milliseconds since 1970.
        pub fn failed_after(&self, ordered_ms: u64) -> bool;
        /// Whether readers should prefer another mirror: suspect, or draining and just as doubtful. One relaxed load.
        pub fn in_doubt(&self) -> bool;
        /// Space as of the last background scan.
        pub fn space(&self) -> Space;
    }

    forward! { whereabouts:
        /// Nodes that reach it.
        pub fn reach(&self) -> Reach;
        /// Whether it lies near this node, so that new files of its users go there first.
        pub fn is_near(&self) -> bool;
        /// Sets the node's reach of the target.
        pub fn set_reach(&self, reach: Reach, near: bool);
        /// Sets whether an operator failed it, for a target that this node does not reach.
        pub fn set_lost(&self, lost: bool);
    }

    /// Whether the target's bytes are to be rebuilt elsewhere: it is failed, and not only out of this node's reach.
    pub fn is_given_up(&self) -> bool {
        self.state() == State::Failed && (self.reach() != Reach::Elsewhere || self.whereabouts.is_lost())
    }

    /// Whether an operator failed it, so that its bytes are lost for every node.
    pub fn is_failed_by_operator(&self) -> bool {
        match self.reach() {
            Reach::Elsewhere => self.whereabouts.is_lost(),
            Reach::All | Reach::Here => self.core.health(Health::is_failed_by_operator),
        }
    }

    fn refusal(&self) -> TargetError {
        if self.reach() == Reach::Elsewhere { TargetError::Elsewhere } else { TargetError::Failed }
    }

    /// Counts since the start of the daemon.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Whether its devices are known to be behind a network. Sends no request.
    pub fn over_network(&self) -> bool {
        self.core.medium.over_network()
    }

    /// Whether the medium cuts requests, as [`Medium::cuts_requests`].
    pub fn cuts_requests(&self) -> bool {
        self.core.medium.cuts_requests()
    }

    /// Its load: operations under way, and operations that wait for a worker.
    pub fn queue(&self) -> Queue {
        let under_way = self.core.counters.under_way();
        Queue { operations: under_way.operations + self.core.pool.waiting(), ..under_way }
    }

    /// Executes `op` on a worker of this target and waits for it, at most until the deadline.
    pub fn run<T: Send + 'static>(
        &self,
        op: impl FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, TargetError> {
        self.submit(op).wait()
    }

    /// Queues `op` for a worker of this target, so that several targets work at the same time.
    pub fn submit<T: Send + 'static>(
        &self,
        op: impl FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    ) -> Pending<T> {
        if self.state() == State::Failed {
            return Pending::ready(Err(self.refusal()));
        }
        self.core.submit(Class::Awaited, op)
    }

    /// As [`Target::submit`], but a prefetch queues behind awaited operations, and the call never waits for room in the
    /// queue. Refused with `Deadline` if the queue is so full that it might wait.
    pub fn try_submit<T: Send + 'static>(
        &self,
        class: Class,
        op: impl FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    ) -> Result<Pending<T>, TargetError> {
        if self.state() == State::Failed {
            return Err(self.refusal());
        }
        if self.execution == Execution::Threads && !self.core.pool.has_room(&self.core.limits) {
            return Err(TargetError::Deadline);
        }
        Ok(self.core.submit(class, op))
    }

    /// Executes `op` on the caller's thread, watched: for short operations of the hot path. Returns `NotNow` without
    /// calling `op` if too many threads run inline operations already or the target is in doubt: use [`Target::run`]
    /// then.
    ///
    /// When the operation passes the deadline, the watchdog calls `on_deadline` once, from its own thread. If this call
    /// ever returns, its result is `Taken`: the request has been answered.
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
    /// Maps a probe's answer for callers that only read, and reports to health whether the target can be written.
    fn readable(&self, answer: Result<(), TargetError>) -> Result<(), TargetError> {
        match answer {
            Ok(()) => self.core.report(Event::ProbeOk),
            Err(TargetError::Io(Errno::ROFS)) => self.core.report(Event::ProbeReadOnly),
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
