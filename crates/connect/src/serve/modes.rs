//! Which open files the kernel reads and writes by itself, past this process (FUSE passthrough).
//!
//! All opens of an inode must agree: while one is passed through, all are, with the same backing file; none is while one goes
//! through us. So the first open decides, and those that come while it lasts join it. The backing file is opened for reading and
//! writing, since they share it.

use fuser::BackingId;
use std::collections::HashMap;
use std::sync::Arc;
use store::namespace::NodeId;

/// The opens of all inodes that are open.
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
    /// One more open; `register` makes a backing file if this is the first, or says that there is to be none.
    pub fn enter(&mut self, id: NodeId, register: impl FnOnce() -> Option<BackingId>) -> Option<Arc<BackingId>> {
        let opens = self.inodes.entry(id).or_default();
        if opens.users == 0 {
            opens.backing = register().map(Arc::new);
        }
        opens.users += 1;
        opens.backing.clone()
    }

    /// One less. Gives back what nobody needs any more, to be dropped outside any lock.
    pub fn leave(&mut self, id: NodeId) -> Option<Arc<BackingId>> {
        let opens = self.inodes.get_mut(&id)?;
        opens.users -= 1;
        if opens.users > 0 {
            return None;
        }
        self.inodes.remove(&id)?.backing
    }
}
