//! Reading directories.

use super::Server;
use super::convert::{errno, kind};
use crate::namespace::NodeId;
use fuser::{FileHandle, FopenFlags, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyOpen};
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

    pub fn read_directory(&self, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.fill(handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fill(&self, handle: FileHandle, mut offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let listing = self.directories.get(handle.0).ok_or(Errno::BADF)?;
        let mut listing = listing.lock();
        while let Some(entry) = listing.at(&self.parts.namespace, offset)? {
            if reply.add(INodeNo(entry.id), entry.next, kind(entry.kind), &entry.name) {
                break;
            }
            listing.advance();
            offset = entry.next;
        }
        Ok(())
    }

    pub fn read_directory_plus(&self, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        match self.fill_plus(handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fill_plus(&self, handle: FileHandle, mut offset: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        let listing = self.directories.get(handle.0).ok_or(Errno::BADF)?;
        let mut listing = listing.lock();
        let namespace = &self.parts.namespace;
        while let Some(entry) = listing.at(namespace, offset)? {
            let dots = entry.name == "." || entry.name == "..";
            let known = match listing.stat(&entry.name) {
                Ok(stat) if dots => Some((0, stat)),
                Ok(stat) => {
                    let node = listing.found(namespace, &entry.name, &stat)?;
                    Some((node.generation(), stat))
                }
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error),
            };
            // A name that is gone since it was read is left out.
            if let Some((generation, stat)) = known {
                let attr = self.shown(entry.id, stat);
                let ttl = &self.options.attr_timeout.min(self.options.entry_timeout);
                if reply.add(INodeNo(entry.id), entry.next, &entry.name, ttl, &attr, Generation(generation)) {
                    if !dots {
                        namespace.forget(attr.ino.0, 1);
                    }
                    break;
                }
            }
            listing.advance();
            offset = entry.next;
        }
        Ok(())
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
