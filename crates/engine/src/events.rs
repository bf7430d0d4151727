//! Log of decisions and state changes of the volume, by names and paths; single reads and writes are not events.
//!
//! ```text
//!   mover, repair, targets, nodes, burst buffer, purge, jobs ── record ──> [ rare | common ] ── batch ──> followers, `status`
//! ```
//! Both rings are bounded in events and bytes. Frequent events (moves, purged files, jobs) have their own ring, so that
//! a long drain does not push out a failed target. Recording waits for a short lock and never for a follower. A
//! follower that falls behind loses events, and the gap in the numbers shows how many.

mod cause;
mod event;
mod ring;

pub use cause::{because, cause};
pub use event::{Event, Kind};

use object::admission::{Admission, Held};
use object::now_ms;
use parking_lot::{Condvar, Mutex};
use ring::Ring;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, statat};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum of rare and of common events that are kept: 4096 together.
const RARE_MAX: usize = 1024;
const COMMON_MAX: usize = 3072;
/// Maximum of bytes in each ring.
const BYTES_MAX: usize = 2 << 20;
/// Maximum of concurrent followers, and the part of it reserved for the operator.
const FOLLOWERS_MAX: u64 = 32;
const FOLLOWERS_RESERVED: u64 = 8;

/// The event log: recorder and rings.
pub struct Events {
    rings: Mutex<Rings>,
    came: Condvar,
    /// Directory of all names, from which the owner of a file is read.
    tree: OnceLock<OwnedFd>,
    followers: Arc<Admission>,
    /// Identifier that distinguishes the event numbers of one daemon from those of the next.
    run: u64,
}

struct Rings {
    rare: Ring,
    common: Ring,
    last: u64,
}

/// Events after a number, and the number of lost events.
#[derive(Debug, Default)]
pub struct Batch {
    /// Events still in the rings, by number.
    pub events: Vec<Arc<Event>>,
    /// Number of lost events.
    pub missed: u64,
    /// Last number covered by the two fields above.
    pub last: u64,
}

impl Default for Events {
    fn default() -> Self {
        let rings = Rings { rare: Ring::new(RARE_MAX, BYTES_MAX), common: Ring::new(COMMON_MAX, BYTES_MAX), last: 0 };
        Events {
            rings: Mutex::new(rings),
            came: Condvar::new(),
            tree: OnceLock::new(),
            followers: Admission::new(FOLLOWERS_MAX, FOLLOWERS_RESERVED),
            run: now_ms(),
        }
    }
}

impl Events {
    /// Sets the directory from which the owners of files are read, for all later events.
    pub fn know_owners(&self, tree: OwnedFd) {
        drop(self.tree.set(tree));
    }

    /// Records an event. It may read the namespace, so the caller must hold no lock that reads or writes need.
    pub fn record(&self, mut event: Event) {
        event.owner = event.owner.or_else(|| self.owner_of(event.path.as_deref()?));
        event.at_ms = now_ms();
        event.cut();
        let mut rings = self.rings.lock();
        rings.last += 1;
        event.number = rings.last;
        let ring = if event.kind.is_common() { &mut rings.common } else { &mut rings.rare };
        ring.push(Arc::new(event));
        drop(rings);
        self.came.notify_all();
    }

    fn owner_of(&self, path: &str) -> Option<u32> {
        Some(statat(self.tree.get()?, path, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_uid)
    }

    /// Identifier of the daemon that numbered the events.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Number of the newest event.
    pub fn last(&self) -> u64 {
        self.rings.lock().last
    }

    /// At most `max` events after that number.
    pub fn batch(&self, after: u64, max: usize) -> Batch {
        let rings = self.rings.lock();
        let mut events: VecDeque<_> = rings.rare.after(after, max);
        events.extend(rings.common.after(after, max));
        let mut events = Vec::from(events);
        events.sort_unstable_by_key(|event| event.number);
        let all = events.len() <= max;
        events.truncate(max);
        // More events follow those of a truncated batch.
        let last = events.last().filter(|_| !all).map_or(rings.last, |event| event.number).max(after);
        Batch { missed: (last - after).saturating_sub(events.len() as u64), events, last }
    }

    /// Waits up to `span` for events after that number. Returns whether there are any.
    pub fn wait(&self, after: u64, span: Duration) -> bool {
        let mut rings = self.rings.lock();
        self.came.wait_while_for(&mut rings, |rings| rings.last <= after, span);
        rings.last > after
    }

    /// Admits another follower; `None` if there are too many, or too many of this user.
    pub fn follower(&self, uid: u32) -> Option<Held> {
        self.followers.take(uid, 1).ok()
    }

    /// The newest events that `wanted` selects, newest first.
    pub fn newest(&self, max: usize, wanted: impl Fn(&Event) -> bool) -> Vec<Arc<Event>> {
        let rings = self.rings.lock();
        let newest = |ring: &Ring| ring.newest().filter(|event| wanted(event)).take(max).cloned().collect::<Vec<_>>();
        let mut events = [newest(&rings.rare), newest(&rings.common)].concat();
        drop(rings);
        events.sort_unstable_by_key(|event| std::cmp::Reverse(event.number));
        events.truncate(max);
        events
    }

    /// The newest rare events, oldest first.
    pub fn news(&self, max: usize) -> Vec<Arc<Event>> {
        let rare = self.rings.lock().rare.after(0, usize::MAX);
        let told = rare.into_iter().filter(|event| event.kind != Kind::Node).collect::<Vec<_>>();
        told[told.len().saturating_sub(max)..].to_vec()
    }
}

#[cfg(test)]
mod tests;
