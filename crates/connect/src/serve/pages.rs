//! Kernel pages of files that other nodes change, too.
//!
//! Pages that are dropped during a write come back with the old bytes, and stay. So pages of a file that is open here
//! are never dropped, except when its size changes. Changes by other nodes become visible at an open of a file that
//! was closed here: its pages are dropped before that open is answered.

use fuser::{INodeNo, Notifier};
use meta::namespace::NodeId;
use parking_lot::{Mutex, MutexGuard};
use std::sync::OnceLock;

const SHARDS: usize = 64;

/// Drops pages, one open at a time.
#[derive(Default)]
pub struct Pages {
    notifier: OnceLock<Notifier>,
    turns: Shards,
}

struct Shards(Vec<Mutex<()>>);

impl Default for Shards {
    fn default() -> Shards {
        Shards((0..SHARDS).map(|_| Mutex::new(())).collect())
    }
}

impl Pages {
    /// Sets the channel for notifications to the kernel.
    pub fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// Delays the answers of other opens of the node while the guard is held.
    pub fn turn(&self, id: NodeId) -> MutexGuard<'_, ()> {
        self.turns.0[id as usize % SHARDS].lock()
    }

    /// Drops the pages of a node that is not open. No request holds a page of it, so this does not block.
    pub fn drop_of(&self, id: NodeId) {
        let Some(notifier) = self.notifier.get() else { return };
        if let Err(error) = notifier.inval_inode(INodeNo(id), 0, 0) {
            // `ENOENT`: the kernel has not looked the node up yet.
            tracing::trace!(%error, id, "no pages are dropped");
        }
    }
}
