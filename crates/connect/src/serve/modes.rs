//! FUSE passthrough: files that the kernel reads and writes by itself, past this process.
//!
//! All opens of an inode must agree: either all are passed through, with the same backing file, or none is. So the
//! first open decides for all that overlap with it. The backing file is opened for reading and writing, since all
//! opens share it.

use fuser::BackingId;
use meta::namespace::NodeId;
use std::collections::HashMap;
use std::sync::Arc;

/// Opens of all open inodes.
#[derive(Default)]
pub struct Modes {
    inodes: HashMap<NodeId, Opens>,
}

#[derive(Default)]
struct Opens {
    users: usize,
    backing: Option<Arc<BackingId>>,
}

impl Modes {
    /// Adds an open. For the first one, `register` makes a backing file or returns `None`.
    pub fn enter(&mut self, id: NodeId, register: impl FnOnce() -> Option<BackingId>) -> Option<Arc<BackingId>> {
        let opens = self.inodes.entry(id).or_default();
        if opens.users == 0 {
            opens.backing = register().map(Arc::new);
        }
        opens.users += 1;
        opens.backing.clone()
    }

    /// Removes an open. After the last one returns the backing file, to be dropped outside any lock.
    pub fn leave(&mut self, id: NodeId) -> Option<Arc<BackingId>> {
        let opens = self.inodes.get_mut(&id)?;
        opens.users -= 1;
        if opens.users > 0 {
            return None;
        }
        self.inodes.remove(&id)?.backing
    }
}
