//! Exclusive access to a file, on this node and all others: by a claim on the next generation of its layout, or by an
//! exclusive hold.

use super::holds_lease;
use crate::Result;
use crate::file::held::{Right, Turn};
use crate::file::{File, View};
use parking_lot::RwLockWriteGuard;
use policy::cluster::Node;

/// Exclusive access: until the drop no other caller on any node writes the file or changes its layout.
pub struct Exclusive<'a> {
    file: &'a File,
    _io: RwLockWriteGuard<'a, ()>,
    as_node: Option<Node>,
    /// Hold that excludes other nodes.
    right: Option<Right>,
    _turn: Option<Turn<'a>>,
}

impl<'a> Exclusive<'a> {
    /// Access under a claim of the table of holders.
    pub(in crate::file) fn under_claim(file: &'a File, io: RwLockWriteGuard<'a, ()>, turn: Turn<'a>) -> Exclusive<'a> {
        Exclusive { file, _io: io, as_node: Some(turn.node), right: None, _turn: Some(turn) }
    }

    /// Access under an exclusive hold.
    pub(in crate::file) fn under_hold(file: &'a File, io: RwLockWriteGuard<'a, ()>, right: Right) -> Exclusive<'a> {
        Exclusive { file, _io: io, as_node: Some(right.node), right: Some(right), _turn: None }
    }

    /// Whether the access was exclusive until now, so that the result may be acknowledged.
    pub(in crate::file) fn holds(&self) -> Result<bool> {
        if let (Some(holds), Some(right)) = (self.file.holds(), &self.right) {
            return self.file.is_acknowledged(holds, right);
        }
        let (Some(cluster), Some(node)) = (self.file.cluster(), self.as_node) else { return Ok(true) };
        holds_lease(cluster, node)
    }
}

impl File {
    /// Gets exclusive access on all nodes; layout and size are up to date then.
    pub fn exclusive(&self) -> Result<Exclusive<'_>> {
        loop {
            if let Some(exclusive) = self.exclusive_if(|_| true)? {
                return Ok(exclusive);
            }
        }
    }

    /// As `exclusive`, or `None` if `needed` is false for the view by then: another node or thread has made the change.
    pub(in crate::file) fn exclusive_if(&self, needed: impl Fn(&View) -> bool) -> Result<Option<Exclusive<'_>>> {
        if let Some(holds) = self.holds() {
            return self.change_if(holds, needed);
        }
        let exclusive = Exclusive { file: self, _io: self.io.write(), as_node: None, right: None, _turn: None };
        Ok(Some(exclusive).filter(|_| needed(&self.view())))
    }
}
