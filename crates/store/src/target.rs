//! A target: one directory of objects behind a deadline.
//!
//! Everything that touches a target's medium goes through [`Target::run`] (on one of the target's own worker threads,
//! waited for with a deadline) or [`Target::run_inline`] (on the caller's thread, watched; for the hot path). A target
//! that is failed refuses at once. A worker that hangs in the kernel is left behind: its slot stays taken until the
//! call returns, and what it returns then is thrown away.

pub mod medium;

pub use medium::{Handle, Medium, Space};

use rustix::io::Errno;

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
