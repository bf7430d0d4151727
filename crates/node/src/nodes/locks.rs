//! Whether locks of the shared file system exclude other nodes: some file systems have no locks, and some keep them
//! local to a node. So each node locks a byte of one file, and others check whether they see the lock.
//!
//! A server that restarts drops the lock silently, so the node locks the byte again every few seconds.

use super::Nodes;
use crate::Result;
use meta::stub::locks::{Bytes, Kind, Locker};
use parking_lot::Mutex;
use policy::cluster::Node;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use std::sync::atomic::{AtomicBool, Ordering};

/// File in `NAMESPACE/nodes`.
const FILE: &str = "locks";

/// Result of the checks for other hosts' locks.
#[derive(Default)]
pub(super) struct Reach {
    pub(super) file: Mutex<Option<OwnedFd>>,
    /// Set when a lock of another host was seen.
    seen: AtomicBool,
}

fn byte(node: Node) -> Bytes {
    node.0.into()..=node.0.into()
}

impl Nodes {
    /// Locks the byte of this node, so that other nodes can check that they see the lock. Called every few seconds.
    pub fn show_lock(&self) {
        let mut file = self.reach.file.lock();
        if let Err(error) = self.lock_byte(&mut file) {
            tracing::debug!("other nodes see no lock of this node: {error}");
            *file = None; // Reopened: a descriptor that was open while its server was away may not work again.
        }
    }

    fn lock_byte(&self, file: &mut Option<OwnedFd>) -> Result<()> {
        let file = match file {
            Some(file) => file,
            None => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                file.insert(openat(&self.leases.directory, FILE, flags, Mode::RUSR | Mode::WUSR)?)
            }
        };
        // The byte of an earlier number of this node does not matter.
        file.lock(&byte(self.me_now()), Some(Kind::Exclusive)).map(drop)
    }

    /// Whether another host's lock is visible here, or no other host has a lock.
    pub(super) fn sees_locks(&self) -> bool {
        if self.reach.seen.load(Ordering::Acquire) {
            return true;
        }
        let is_elsewhere = |node: &Node| self.leases.info(*node).is_none_or(|info| info.host != self.info.host);
        let others: Vec<Node> = self.others().into_iter().filter(is_elsewhere).collect();
        if others.is_empty() {
            return true;
        }
        let file = self.reach.file.lock();
        let has_locked = |node: &Node| {
            let asked = file.as_ref().map(|file| file.in_the_way(&byte(*node), Kind::Shared));
            asked.is_some_and(|found| matches!(found, Ok(Some(_))))
        };
        let seen = others.iter().any(has_locked);
        self.reach.seen.store(seen, Ordering::Release);
        seen
    }
}
