//! A target: one directory of objects behind a deadline.
//!
//! Everything that touches a target's medium goes through [`Target::run`] and [`Target::submit`] (on one of the target's
//! own worker threads, waited for with a deadline) or [`Target::run_inline`] (on the caller's thread, watched; for the
//! hot path). A target that is failed refuses at once. A worker that hangs in the kernel is left behind: its slot stays
//! taken until the call returns, and what it returns then is thrown away.

mod directory;
mod health;
mod inline;
pub mod medium;
pub mod memory;
mod table;

pub use directory::{DirectoryMedium, Identity};
pub use health::State;
pub use inline::{InlineError, InlineSlots, OnDeadline};
pub use medium::{Handle, Medium, Space};
pub use memory::{Faults, MemoryMedium};
pub use table::{Change, Order, Targets, TargetsOptions};

use policy::TargetId;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// Why an operation on a target gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The target is failed (or not known); nothing was tried.
    #[error("the target is failed")]
    Failed,
    /// It did not answer in time.
    #[error("no answer within the deadline")]
    Deadline,
    /// It answered with an error.
    #[error("{0}")]
    Io(Errno),
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
}

/// One target of the volume.
pub struct Target {
    spec: TargetSpec,
}

impl Target {
    /// Its number in the volume.
    pub fn id(&self) -> TargetId {
        self.spec.id
    }

    /// Its name in the volume.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its tier: 0 is the fastest.
    pub fn tier(&self) -> u8 {
        self.spec.tier
    }

    /// Its state now: one relaxed load.
    pub fn state(&self) -> State {
        todo!()
    }

    /// Whether readers should prefer another mirror.
    pub fn in_doubt(&self) -> bool {
        todo!()
    }

    /// Space as last seen in the background.
    pub fn space(&self) -> Space {
        todo!()
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
        let _ = op;
        todo!()
    }

    /// Executes `op` on the caller's thread, watched: for short operations of the hot path. `NotNow` without having
    /// called `op` when too many threads are inside inline operations already or the target is in doubt: use
    /// [`Target::run`] then. When the operation passes the deadline, the watchdog calls `on_deadline` once, from its
    /// own thread, and this call (should it ever return) answers `Taken`: somebody else has dealt with the request.
    pub fn run_inline<T, F>(&self, op: F, on_deadline: Option<&Arc<dyn OnDeadline>>) -> Result<T, InlineError>
    where
        F: FnOnce(&dyn Medium) -> Result<T, Errno>,
    {
        let _ = (op, on_deadline);
        todo!()
    }
}

/// An operation under way on a worker. Dropping it abandons the result, not the operation.
pub struct Pending<T> {
    done: std::marker::PhantomData<fn() -> T>,
}

impl<T: Send + 'static> Pending<T> {
    /// Waits for the result, at most until the deadline.
    pub fn wait(self) -> Result<T, TargetError> {
        todo!()
    }
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
