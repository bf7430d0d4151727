//! Reading directories.

use super::convert::errno;
use super::{Server, answer};
use crate::namespace::{Listing, NodeId};
use fuser::{FileHandle, FopenFlags, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyOpen};
use parking_lot::Mutex;
use rustix::io::{Errno, Result};
use std::sync::Arc;

impl Server {
    pub fn open_directory(&self, id: NodeId, reply: ReplyOpen) {
        match self.parts.namespace.list(id) {
            Ok(listing) => {
                let number = self.directories.insert(Arc::new(Mutex::new(listing)));
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn read_directory(&self, handle: FileHandle, mut offset: u64, mut reply: ReplyDirectory) {
        let filled = self
            .listing(handle)
            .and_then(|listing| answer::fill(&mut listing.lock(), &self.parts.namespace, &mut offset, &mut reply));
        match filled {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn read_directory_plus(&self, handle: FileHandle, mut offset: u64, mut reply: ReplyDirectoryPlus) {
        let filled = self.listing(handle).and_then(|listing| {
            let (listing, shown) = (&mut listing.lock(), |id, stat| self.shown(id, stat));
            answer::fill_plus(listing, &self.parts.namespace, &mut offset, self.options.ttl(), shown, &mut reply)
        });
        match filled {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn listing(&self, handle: FileHandle) -> Result<Arc<Mutex<Listing>>> {
        self.directories.get(handle.0).ok_or(Errno::BADF)
    }

    pub fn close_directory(&self, handle: FileHandle, reply: ReplyEmpty) {
        self.directories.remove(handle.0);
        reply.ok();
    }

    pub fn sync_directory(self: &Arc<Self>, handle: FileHandle, reply: ReplyEmpty) {
        let Some(listing) = self.directories.get(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        self.hand_over(reply, ReplyEmpty::error, move |reply| match listing.lock().sync() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }
}
