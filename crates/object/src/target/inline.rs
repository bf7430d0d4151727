//! Operations on the caller's own thread, watched: the hot path of small reads and writes.
//!
//! ```text
//! caller    enter: claim a slot, note the time ── op ── leave: free the slot, was it taken?
//! watchdog        checks the slots regularly:       too old? -> taken, on_deadline(), report to health
//! ```
//! A slot is locked only for an instant, except while the watchdog runs `on_deadline`. A caller that returns just then
//! waits for it, and so has certainty whether the watchdog dealt with its request. The caller's way has no allocation
//! and no system call.

use super::TargetError;
use parking_lot::Mutex;
use policy::{TargetId, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Called when an operation on its caller's own thread passed its deadline, at most once per operation.
pub trait OnDeadline: Send + Sync {
    /// Answers the request in place of the hung thread. Must not block.
    fn missed(&self);
}

impl<F: Fn() + Send + Sync> OnDeadline for F {
    fn missed(&self) {
        self()
    }
}

/// Reason why an inline operation gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InlineError {
    /// No operation was started: use `run`.
    #[error("no inline slot is free")]
    NotNow,
    /// The operation returned after its deadline, and `on_deadline` has answered the request.
    #[error("the operation returned after its deadline")]
    Taken,
    /// Error of the target.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Limit of threads inside inline operations, over all targets of a volume.
pub struct InlineSlots {
    slots: Box<[Slot]>,
    /// Set while no thread checks the slots: a caller that enters one wakes the watchdog.
    unwatched: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Own cache lines, so that threads with different slots do not slow each other.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    busy: AtomicBool,
    inside: Mutex<Option<Inside>>,
}

struct Inside {
    target: TargetId,
    started: Time,
    on_deadline: Option<Arc<dyn OnDeadline>>,
    taken: bool,
}

/// A claimed slot; freed when dropped.
pub struct Entered<'a>(&'a Slot);

impl InlineSlots {
    /// Makes slots for `slots_max` threads.
    pub fn new(slots_max: usize) -> InlineSlots {
        let slots = (0..slots_max).map(|_| Slot::default()).collect();
        InlineSlots { slots, unwatched: AtomicBool::new(false), wake: OnceLock::new() }
    }

    /// Claims a slot, if one is free.
    pub(super) fn enter(
        &self,
        target: TargetId,
        started: Time,
        on_deadline: Option<&Arc<dyn OnDeadline>>,
    ) -> Option<Entered<'_>> {
        let count = self.slots.len();
        let first = crate::counters::turn(); // so that threads seldom collide
        let slot = (0..count).map(|i| &self.slots[(first + i) % count]).find(|slot| {
            !slot.busy.load(Ordering::Relaxed)
                && slot.busy.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        })?;
        *slot.inside.lock() = Some(Inside { target, started, on_deadline: on_deadline.cloned(), taken: false });
        if self.unwatched.load(Ordering::SeqCst) && self.unwatched.swap(false, Ordering::SeqCst) {
            self.wake.get().inspect(|wake| wake());
        }
        Some(Entered(slot))
    }

    /// Sets the function that wakes the watchdog. Returns whether it is the first, which alone may leave the slots
    /// unwatched.
    pub(super) fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) -> bool {
        self.wake.set(Box::new(wake)).is_ok()
    }

    /// Lets the watchdog sleep if all slots are empty. A caller that enters from then on wakes it: either this call
    /// sees its slot busy, or the caller sees the flag set here.
    pub(super) fn leave_unwatched(&self) -> bool {
        self.unwatched.store(true, Ordering::SeqCst);
        let empty = self.slots.iter().all(|slot| !slot.busy.load(Ordering::SeqCst));
        if !empty {
            self.unwatched.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// Number of hung operations on a target whose request was taken.
    pub(super) fn taken_of(&self, target: TargetId) -> usize {
        let taken = |slot: &&Slot| slot.inside.lock().as_ref().is_some_and(|i| i.taken && i.target == target);
        self.slots.iter().filter(taken).count()
    }

    /// Takes the requests of operations that began before `limit`: calls their `on_deadline` and `report`.
    pub(super) fn take_overdue(&self, limit: Time, mut report: impl FnMut(TargetId, Time)) {
        for slot in &self.slots {
            let mut overdue = None;
            if let Some(inside) = slot.inside.lock().as_mut()
                && !inside.taken
                && inside.started < limit
            {
                inside.taken = true;
                overdue = Some((inside.target, inside.started));
                if let Some(on_deadline) = &inside.on_deadline {
                    on_deadline.missed();
                }
            }
            if let Some((target, started)) = overdue {
                report(target, started);
            }
        }
    }
}

impl Entered<'_> {
    /// Ends the operation. Returns whether its request was taken.
    pub(super) fn leave(self) -> bool {
        self.clear()
    }

    fn clear(&self) -> bool {
        self.0.inside.lock().take().is_some_and(|inside| inside.taken)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.clear();
        self.0.busy.store(false, Ordering::Release);
    }
}
