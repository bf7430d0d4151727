//! Reading directories.

use super::answer::Answer;
use super::{Server, holders};
use fuser::ReplyEmpty;
use meta::namespace::{Listing, Namespace, NodeId};
use object::admission::Held;
use parking_lot::Mutex;
use rustix::io::{Errno, Result};
use std::sync::Arc;

/// A directory that a process reads.
pub struct Open {
    listing: Mutex<Listing>,
    held: Held,
}

impl Server {
    pub fn open_directory(&self, uid: u32, id: NodeId) -> Result<u64> {
        let held = self.admission.take(uid, 1).map_err(holders::errno)?;
        let listing = Mutex::new(self.parts.namespace.list(id)?);
        Ok(self.directories.insert(Arc::new(Open { listing, held })))
    }

    pub fn list(&self, handle: u64, read: &mut dyn FnMut(&mut Listing, &Namespace) -> Result<()>) -> Result<()> {
        let open = self.directories.get(handle).ok_or(Errno::BADF)?;
        read(&mut open.listing.lock(), &self.parts.namespace)
    }

    pub fn sync_directory(self: &Arc<Self>, handle: u64, answer: Answer<ReplyEmpty>) {
        let Some(open) = self.directories.get(handle) else { return answer.give(Err(Errno::BADF)) };
        self.hand_over(open.held.uid(), answer, move |answer| answer.give(open.listing.lock().sync()));
    }
}
