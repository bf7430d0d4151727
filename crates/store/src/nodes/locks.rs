//! Whether locks of the shared file system keep other nodes out: some file systems have them, some do not, and some take them and tell
//! nobody else. So each node has a byte of one file locked, and others look whether they see it.
//!
//! A server that restarts forgets it without a word; it is locked again every few seconds.

use super::Nodes;
use crate::Result;
use crate::stub::locks::{Bytes, Kind, Locker};
use parking_lot::Mutex;
use policy::cluster::Node;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// In `NAMESPACE/nodes`.
const FILE: &str = "locks";
/// How often the byte is locked again.
const AGAIN: Duration = Duration::from_secs(5);

/// What a node knows of it.
#[derive(Default)]
pub(super) struct Reach {
    file: Mutex<Option<OwnedFd>>,
    /// A lock of another host was seen.
    seen: AtomicBool,
}

fn byte(node: Node) -> Bytes {
    node.0.into()..=node.0.into()
}

impl Nodes {
    /// Lets others see a lock of this node, from now on.
    pub(super) fn show_lock(self: &Arc<Nodes>) {
        self.say_with_lock();
        let nodes = self.clone();
        self.workers.start("lock-shown", move || {
            while nodes.goes_on_after(AGAIN) {
                nodes.say_with_lock();
            }
            nodes.reach.file.lock().take();
        });
    }

    fn say_with_lock(&self) {
        let mut file = self.reach.file.lock();
        if let Err(error) = self.lock_byte(&mut file) {
            tracing::debug!("others see no lock of this node: {error}");
            *file = None; // opened anew: one that was open while its server was away may not answer again
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
        // An earlier number of this node is somebody else's business no more.
        file.lock(&byte(self.me_now()), Some(Kind::Exclusive)).map(drop)
    }

    /// Whether another host's lock is seen here, or nobody is there whose could be.
    pub(super) fn sees_locks(&self) -> bool {
        if self.reach.seen.load(Ordering::Acquire) {
            return true;
        }
        let (members, me) = {
            let membership = self.known();
            (membership.members(), membership.node())
        };
        let is_elsewhere = |node: &Node| self.leases.info(*node).is_none_or(|info| info.host != self.info.host);
        let others: Vec<Node> = members.into_iter().filter(|node| *node != me).filter(is_elsewhere).collect();
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
