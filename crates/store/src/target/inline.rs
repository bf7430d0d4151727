//! Operations on the caller's own thread, watched: the hot path of small reads and writes.

use super::TargetError;

/// Called when an operation on somebody's own thread passed its deadline, at most once per operation.
pub trait OnDeadline: Send + Sync {
    /// Deals with the request in the hung thread's stead. Must not block.
    fn missed(&self);
}

impl<F: Fn() + Send + Sync> OnDeadline for F {
    fn missed(&self) {
        self()
    }
}

/// Why an inline operation gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InlineError {
    /// Nothing was tried: use `run`.
    #[error("no inline slot is free")]
    NotNow,
    /// It returned after its deadline; `on_deadline` has dealt with the request.
    #[error("the operation returned after its deadline")]
    Taken,
    /// The target gave no result.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// How many threads may be inside inline operations, over all targets of a volume.
pub struct InlineSlots {}

impl InlineSlots {
    /// Room for `slots_max` threads.
    pub fn new(slots_max: usize) -> InlineSlots {
        let _ = slots_max;
        todo!()
    }
}
