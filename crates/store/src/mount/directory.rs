//! Reading directories.

use super::convert::errno;
use super::{Server, answer, holders};
use crate::admission::Held;
use crate::namespace::{Listing, NodeId};
use fuser::{FileHandle, FopenFlags, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyOpen};
use parking_lot::Mutex;
use rustix::io::{Errno, Result};
use std::sync::Arc;

/// A directory that somebody reads.
pub struct Open {
    listing: Mutex<Listing>,
    held: Held,
}

impl Server {
    pub fn open_directory(&self, uid: u32, id: NodeId, reply: ReplyOpen) {
        let held = self.admission.take(uid, 1).map_err(holders::errno);
        let opened = held.and_then(|held| Ok(Open { listing: Mutex::new(self.parts.namespace.list(id)?), held }));
        match opened {
            Ok(open) => {
                let number = self.directories.insert(Arc::new(open));
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn read_directory(&self, handle: FileHandle, mut offset: u64, mut reply: ReplyDirectory) {
        let filled = self
            .listing(handle)
            .and_then(|open| answer::fill(&mut open.listing.lock(), &self.parts.namespace, &mut offset, &mut reply));
        match filled {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn read_directory_plus(&self, handle: FileHandle, mut offset: u64, mut reply: ReplyDirectoryPlus) {
        let filled = self.listing(handle).and_then(|open| {
            let (listing, shown) = (&mut open.listing.lock(), |id, stat| self.shown(id, stat));
            answer::fill_plus(listing, &self.parts.namespace, &mut offset, self.options.ttl(), shown, &mut reply)
        });
        match filled {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn listing(&self, handle: FileHandle) -> Result<Arc<Open>> {
        self.directories.get(handle.0).ok_or(Errno::BADF)
    }

    pub fn close_directory(&self, handle: FileHandle, reply: ReplyEmpty) {
        self.directories.remove(handle.0);
        reply.ok();
    }

    pub fn sync_directory(self: &Arc<Self>, handle: FileHandle, reply: ReplyEmpty) {
        let Some(open) = self.directories.get(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        self.hand_over(open.held.uid(), reply, ReplyEmpty::error, move |reply| match open.listing.lock().sync() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }
}
