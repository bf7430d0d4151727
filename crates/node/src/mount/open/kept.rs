//! Closed files that stay open for a while, where several nodes have the volume. The hold of a file outlasts its close.
//! So a file that is opened again under its hold needs no call to the shared file system, and the kernel's pages of it
//! are valid.
//!
//! To other nodes such a file is closed: a recall ends its hold, and the next open reads its state again.

use super::{Open, OpenFiles};
use crate::mount::later::Later;
use meta::namespace::NodeId;
use parking_lot::Mutex;
use policy::cluster::Node;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time from the last close to the close of the stub. A guess: longer than the pause between two passes over a directory,
/// and short, since a stub that another node removed occupies space until then.
const SPAN: Duration = Duration::from_secs(10);
/// Limit of such files. A guess: each has descriptors here and in the servers.
const FILES_MAX: u64 = 1024;
/// Limit of descriptors of such a file.
const DESCRIPTORS_MAX: u64 = 8;
/// Part of the descriptors for users' files that such files may have: one of these.
const PART: u64 = 8;

/// State of one file.
#[derive(Default)]
pub struct Keep {
    /// Time of the close since which the file is kept.
    since: Mutex<Option<Instant>>,
    /// Hold under which the kernel filled its pages.
    pages: Mutex<Option<(Node, u64)>>,
    /// Set once a read or write failed: the descriptor of the stub may be broken.
    has_failed: AtomicBool,
}

/// Files that are kept.
pub struct Kept {
    queue: Mutex<Queue>,
    files_max: usize,
}

impl Kept {
    /// `descriptors`: those for the files of users.
    pub fn new(descriptors: u64) -> Kept {
        let files_max = FILES_MAX.min(descriptors / PART / DESCRIPTORS_MAX) as usize;
        Kept { queue: Mutex::default(), files_max }
    }
}

#[derive(Default)]
struct Queue {
    /// The oldest first.
    files: BTreeSet<(Instant, NodeId)>,
    /// Whether a sweep is due later.
    is_swept: bool,
}

impl Open {
    /// Records that a read or write failed.
    pub fn note_failure(&self) {
        self.keep.has_failed.store(true, Ordering::Relaxed);
    }

    /// Records that the kernel fills pages under the present hold from now on. Returns whether the pages that it has are
    /// valid.
    pub fn takes_pages(&self) -> bool {
        let hold = self.file.caching_hold();
        std::mem::replace(&mut *self.keep.pages.lock(), hold) == hold && hold.is_some()
    }

    /// Whether the file may stay open without a user.
    fn may_rest(&self) -> bool {
        let well = !self.lost_name_here() && !self.keep.has_failed.load(Ordering::Relaxed);
        well && self.file.descriptors() < DESCRIPTORS_MAX && self.file.caching_hold().is_some()
    }
}

impl OpenFiles {
    /// Keeps a file that has lost its last user, if it may stay open. The caller has the lock of its shard. Returns the
    /// time since which it is kept; the caller then calls `will_close`.
    pub(super) fn keeps(&self, open: &Open, later: &Later) -> Option<Instant> {
        let mut since = open.keep.since.lock();
        *since = (open.may_rest() && !later.has_ended()).then(|| since.unwrap_or_else(Instant::now));
        since.inspect(|_| open.file.rest())
    }

    /// Closes a kept file later. The caller has no lock.
    pub(super) fn will_close(self: &Arc<Self>, id: NodeId, since: Instant, later: &Arc<Later>) {
        let mut queue = self.kept.queue.lock();
        queue.files.insert((since, id));
        let first = if queue.files.len() > self.kept.files_max { queue.files.pop_first() } else { None };
        let was_swept = std::mem::replace(&mut queue.is_swept, true);
        drop(queue);
        first.into_iter().for_each(|first| self.end_keeping(first));
        if !was_swept {
            self.sweep_after(SPAN, later);
        }
    }

    fn sweep_after(self: &Arc<Self>, span: Duration, later: &Arc<Later>) {
        let (this, next) = (self.clone(), later.clone());
        later.add(span, Box::new(move || this.sweep(&next)));
    }

    /// Closes the files whose time is over, or all at the end of the mount.
    fn sweep(self: &Arc<Self>, later: &Arc<Later>) {
        loop {
            let mut queue = self.kept.queue.lock();
            let left = queue.files.first().map(|(since, _)| SPAN.saturating_sub(since.elapsed()));
            if let Some(left) = left.filter(|left| !left.is_zero() && !later.has_ended()) {
                drop(queue);
                return self.sweep_after(left, later);
            }
            let first = queue.files.pop_first();
            queue.is_swept = first.is_some();
            drop(queue);
            let Some(first) = first else { return };
            self.end_keeping(first);
        }
    }

    /// Closes a file that is still kept since that time, if it has no user.
    fn end_keeping(&self, (since, id): (Instant, NodeId)) {
        let mut shard = self.shard(id).lock();
        let Some(open) = shard.get(&id).filter(|open| *open.keep.since.lock() == Some(since)) else { return };
        *open.keep.since.lock() = None;
        let closed = if open.users.load(Ordering::Acquire) == 0 { shard.remove(&id) } else { None };
        drop(shard);
        drop(closed);
    }
}
