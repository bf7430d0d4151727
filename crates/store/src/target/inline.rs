//! Operations on the caller's own thread, watched: the hot path of small reads and writes.
//!
//! ```text
//! caller    enter: claim a slot, note the time ── op ── leave: free the slot, was it taken?
//! watchdog        looks at the slots now and then:  too old? -> taken, on_deadline(), tell health
//! ```
//! A slot is locked only for an instant, except while the watchdog runs `on_deadline`: a caller that returns just then
//! waits for it and so learns for certain whether somebody else dealt with its request. No allocation and no system
//! call is made on the caller's way.

use super::TargetError;
use parking_lot::Mutex;
use policy::{TargetId, Time};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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
pub struct InlineSlots {
    slots: Box<[Slot]>,
    /// Nothing looks at the slots: who enters one wakes the watchdog.
    unwatched: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// On its own cache lines, so that threads with different slots do not slow each other.
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
    /// Room for `slots_max` threads.
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
        let first = favourite();
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

    /// How the watchdog is woken; whether it is the first, which alone may leave the slots unwatched.
    pub(super) fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) -> bool {
        self.wake.set(Box::new(wake)).is_ok()
    }

    /// The watchdog wants to sleep; it may if nothing is inside. Who enters from then on wakes it: either this sees that one's
    /// slot busy, or that one sees what was set here before.
    pub(super) fn leave_unwatched(&self) -> bool {
        self.unwatched.store(true, Ordering::SeqCst);
        let empty = self.slots.iter().all(|slot| !slot.busy.load(Ordering::SeqCst));
        if !empty {
            self.unwatched.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// How many operations on a target hang whose request was taken.
    pub(super) fn taken_of(&self, target: TargetId) -> usize {
        let taken = |slot: &&Slot| slot.inside.lock().as_ref().is_some_and(|i| i.taken && i.target == target);
        self.slots.iter().filter(taken).count()
    }

    /// Takes the requests of operations that began before `limit`: calls their `on_deadline` and tells `report`.
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
    /// Ends the operation; whether its request was taken meanwhile.
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

/// Where this thread looks first, so that threads seldom meet.
fn favourite() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<Option<usize>> = const { Cell::new(None) });
    MINE.with(|mine| {
        mine.get().unwrap_or_else(|| {
            let first = NEXT.fetch_add(1, Ordering::Relaxed);
            mine.set(Some(first));
            first
        })
    })
}
