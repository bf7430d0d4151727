//! Objects that are being made: they are on their targets, and no layout names them yet.
//!
//! A look through the volume asks which these are after it listed the targets and before it reads layouts: what is in a list and not
//! among them was named by then, or nothing will ever name it.

use parking_lot::Mutex;
use policy::ObjectId;
use std::collections::HashSet;
use std::sync::Arc;

/// The objects that are being made. See the module.
#[derive(Debug, Default)]
pub struct Making(Mutex<HashSet<ObjectId>>);

/// One of them, until this is dropped: then a layout names it, somebody else answers for it, or it is removed.
#[derive(Debug)]
pub(crate) struct BeingMade {
    among: Arc<Making>,
    object: ObjectId,
}

impl Making {
    /// The object is about to be made.
    pub(crate) fn begin(self: &Arc<Self>, object: ObjectId) -> BeingMade {
        self.0.lock().insert(object);
        BeingMade { among: self.clone(), object }
    }

    /// All of them.
    pub(crate) fn objects(&self) -> HashSet<ObjectId> {
        self.0.lock().clone()
    }
}

impl Drop for BeingMade {
    fn drop(&mut self) {
        self.among.0.lock().remove(&self.object);
    }
}
