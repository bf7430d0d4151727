//! The kernel's pages of files that other nodes change, too.
//!
//! Pages that are dropped while a write is on its way come back with the bytes of before, and stay. So none are dropped while
//! a file is open here: not by an open, not for what the kernel reads in attributes but for another size. What other nodes
//! changed is seen after an open of a file that nobody had open here: before that open is answered its pages go.

use fuser::{INodeNo, Notifier};
use parking_lot::{Mutex, MutexGuard};
use std::sync::OnceLock;
use store::namespace::NodeId;

const SHARDS: usize = 64;

/// Drops pages, one open after the other.
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
    /// How the kernel is told.
    pub fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// No other open of the node is answered meanwhile.
    pub fn turn(&self, id: NodeId) -> MutexGuard<'_, ()> {
        self.turns.0[id as usize % SHARDS].lock()
    }

    /// Drops the pages of a node that is not open: no request holds one, so this waits for none.
    pub fn drop_of(&self, id: NodeId) {
        let Some(notifier) = self.notifier.get() else { return };
        if let Err(error) = notifier.inval_inode(INodeNo(id), 0, 0) {
            // `ENOENT`: the kernel does not know the node yet.
            tracing::trace!(%error, id, "no pages are dropped");
        }
    }
}
