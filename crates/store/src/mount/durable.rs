//! Closing and syncing.

use super::convert::errno;
use super::metadata::STATS_ID;
use super::open::Handle;
use super::{Server, holders};
use crate::namespace::NodeId;
use fuser::{FileHandle, FopenFlags, OpenFlags, ReplyEmpty, ReplyOpen, Request};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Server {
    pub fn open(self: &Arc<Self>, request: &Request, id: NodeId, flags: OpenFlags, reply: ReplyOpen) {
        if id != STATS_ID {
            return self.open_file(request, id, flags, reply);
        }
        let text = self.parts.stats.render_text().into_bytes();
        // A descriptor costs about a page of memory, here and in the kernel.
        let held = match self.admission.take(request.uid(), 1 + text.len() as u64 / 4096) {
            Ok(held) => held,
            Err(refusal) => return reply.error(errno(holders::errno(refusal))),
        };
        let number = FileHandle(self.texts.insert(Arc::new((text, held))));
        reply.opened(number, FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    }

    /// A descriptor is closed: what was written through it shows its time and size to everybody.
    pub fn flush(self: &Arc<Self>, id: NodeId, handle: FileHandle, reply: ReplyEmpty) {
        if id == STATS_ID {
            return reply.ok();
        }
        let Some(handle) = self.handles.get(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        if !handle.wrote.load(Ordering::Relaxed) || handle.open.file.is_in_stub() {
            return reply.ok();
        }
        self.hand_over(handle.uid(), reply, ReplyEmpty::error, move |reply| match handle.open.file.settle() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error.errno())),
        });
    }

    pub fn release(self: &Arc<Self>, id: NodeId, handle: FileHandle, reply: ReplyEmpty) {
        if id == STATS_ID {
            self.texts.remove(handle.0);
            return reply.ok();
        }
        let Some(handle) = self.handles.remove(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        if handle.open.file.is_in_stub() {
            self.close(&handle);
            return reply.ok();
        }
        // The last user of a file settles and may sync it; that waits for targets.
        let (server, uid) = (self.clone(), handle.uid());
        let work = move || {
            server.settle_and_finish(&handle);
            drop(handle);
            reply.ok();
        };
        if let Err(work) = self.slow.push_now(uid, Box::new(work)) {
            work();
        }
    }

    /// The kernel drops the releases that wait when the mount goes away. What is open then is closed here, as if they had
    /// come: sizes and times are settled, and files without a name lose their objects.
    pub fn close_all(&self) {
        for handle in self.handles.drain() {
            self.settle_and_finish(&handle);
        }
    }

    fn settle_and_finish(&self, handle: &Handle) {
        if handle.wrote.load(Ordering::Relaxed)
            && let Err(error) = handle.open.file.settle()
        {
            tracing::warn!(%error, node = handle.open.id, "times of a closed file are not settled");
        }
        if handle.writable
            && let Ok(node) = self.parts.namespace.node(handle.open.id)
            && let Some(bytes) = handle.open.file.allocated()
        {
            node.set_allocated(handle.open.file.size(), bytes);
        }
        self.close(handle);
    }

    pub fn sync(self: &Arc<Self>, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let Some(handle) = self.handles.get(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        self.hand_over(handle.uid(), reply, ReplyEmpty::error, move |reply| {
            match handle.open.file.sync(data_only, &handle.synced) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error.errno())),
            }
        });
    }
}
