//! The state under which a read is valid: layout, size, and number of truncations.
//!
//! ```text
//!  reader   snapshot ─── read ─── compare: equal? ── returned, else read again
//!  cutter             begin (odd) ── stub and size ── end (even) ── objects
//! ```
//! A reader holds no lock. The view alone is not enough, since a truncation keeps it. A reader with the old size would
//! fill the bytes beyond an object's end with zeros. The count is odd while stub and size disagree.
//!
//! The kernel applies the size of a truncation when the answer reaches the thread that cut. Until then it fills a short READ
//! with zeros up to the old size, and shows them. So a short read beside a truncation waits until the kernel has that size.
//! The next truncation waits for the page of that read. A later request of a writer or closer shows that the answer arrived.
use super::{File, View};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Longest time from the daemon's answer to the kernel's use of it. A guess: a few turns of the scheduler on a loaded machine.
const ANSWER_MAX: Duration = Duration::from_millis(20);
/// Interval of a waiting reader's checks.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Number of times that the size of a file was set.
#[derive(Default)]
pub(super) struct Cuts {
    /// Two for each change of the size; odd during a change.
    count: AtomicU64,
    /// Time of the last change's end; locked during a change.
    running: Mutex<Option<Instant>>,
    /// Whether the kernel may still lack the size of the last truncation.
    fresh: AtomicBool,
}

/// A running truncation; ends when dropped.
pub(super) struct Cutting<'a> {
    cuts: &'a Cuts,
    running: MutexGuard<'a, Option<Instant>>,
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        *self.running = Some(Instant::now());
        self.cuts.fresh.store(true, Ordering::Release);
        self.cuts.count.fetch_add(1, Ordering::AcqRel);
    }
}

impl Cuts {
    /// Begins a truncation, before the new size takes effect anywhere. The caller holds `extend`.
    pub fn begin(&self) -> Cutting<'_> {
        let running = self.running.lock();
        self.count.fetch_add(1, Ordering::AcqRel);
        Cutting { cuts: self, running }
    }

    /// The current count, for a comparison.
    pub fn count(&self) -> u64 {
        fence(Ordering::Acquire);
        self.count.load(Ordering::Acquire)
    }

    /// Whether the kernel may have the size from before the last truncation.
    fn is_fresh(&self) -> bool {
        self.fresh.load(Ordering::Acquire) || self.settled().is_none()
    }

    /// Records that the kernel has the size of the last ended truncation.
    fn has_arrived(&self) {
        if self.fresh.load(Ordering::Relaxed) {
            self.fresh.store(false, Ordering::Release);
        }
    }

    /// Waits until the kernel has the size of the last truncation.
    fn wait_for_kernel(&self) {
        while self.is_fresh() {
            let ended = *self.running.lock();
            if ended.is_none_or(|ended| ended.elapsed() >= ANSWER_MAX) {
                return self.has_arrived();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The count; `None` during a truncation.
    fn settled(&self) -> Option<u64> {
        Some(self.count()).filter(|count| count.is_multiple_of(2))
    }

    /// The count after the end of a running truncation. The caller holds no lock.
    pub fn wait(&self) -> u64 {
        loop {
            match self.settled() {
                Some(count) => return count,
                None => drop(self.running.lock()),
            }
        }
    }
}

/// The state of a file under which a reader reads.
pub(super) struct Snapshot {
    pub view: Arc<View>,
    pub size: u64,
    cuts: u64,
}

impl Snapshot {
    /// Number of bytes, out of `len` from `offset` on, that are before the end of the file.
    pub fn within(&self, offset: u64, len: usize) -> usize {
        usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(len)
    }
}

impl File {
    /// Whether a short read must wait for the kernel ([`File::wait_for_kernel_after_cut`]).
    pub fn was_cut_just_now(&self) -> bool {
        self.cuts.is_fresh()
    }

    /// Waits, some milliseconds at most, until the kernel has the size of the last truncation.
    pub fn wait_for_kernel_after_cut(&self) {
        self.cuts.wait_for_kernel();
    }

    /// Records that a writer or closer sent a request, which shows that all earlier answers have arrived.
    pub fn answers_have_arrived(&self) {
        self.cuts.has_arrived();
    }

    /// Takes a snapshot after the end of a running truncation. The caller holds no lock.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot_after(self.cuts.wait())
    }

    /// Takes a snapshot; `None` during a truncation.
    pub(super) fn snapshot_now(&self) -> Option<Snapshot> {
        self.cuts.settled().map(|cuts| self.snapshot_after(cuts))
    }

    fn snapshot_after(&self, cuts: u64) -> Snapshot {
        let view = self.view();
        Snapshot { view, size: self.size(), cuts }
    }

    /// Whether the bytes read under a snapshot are valid.
    pub(super) fn is_current(&self, snapshot: &Snapshot) -> bool {
        self.cuts.count() == snapshot.cuts && self.same_view(&snapshot.view)
    }
}

#[cfg(test)]
mod tests;
