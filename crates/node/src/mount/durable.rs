//! Closing and syncing.

use super::Server;
use super::answer::Answer;
use super::metadata::STATS_ID;
use super::open::Handle;
use engine::file::Owner;
use fuser::ReplyEmpty;
use meta::namespace::NodeId;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Server {
    /// Handles a close of a descriptor: times and size of its writes become visible to all processes.
    pub fn flush(self: &Arc<Self>, id: NodeId, handle: u64, owner: Owner, answer: Answer<ReplyEmpty>) {
        if id == STATS_ID {
            return answer.give(Ok(()));
        }
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        handle.open.file.answers_have_arrived();
        let (server, closed) = (self.clone(), handle.clone());
        self.after_its_locks(&handle, owner, move || server.flush_bytes(&closed, answer));
    }

    fn flush_bytes(self: &Arc<Self>, handle: &Arc<Handle>, answer: Answer<ReplyEmpty>) {
        let handle = handle.clone();
        if !handle.wrote.load(Ordering::Relaxed) || handle.open.file.is_in_stub() {
            return answer.give(Ok(()));
        }
        self.hand_over(handle.uid(), answer, move |answer| {
            answer.give(handle.open.file.settle().map_err(|error| error.errno()));
        });
    }

    pub fn release(self: &Arc<Self>, id: NodeId, handle: u64, mut answer: Answer<ReplyEmpty>) {
        if id == STATS_ID {
            self.texts.remove(handle);
            return answer.give(Ok(()));
        }
        // The locks are released before the number is reused.
        self.end_its_locks(handle);
        let Some(handle) = self.handles.remove(handle) else { return answer.give(Err(Errno::BADF)) };
        answer.is_of(handle.uid());
        handle.open.file.answers_have_arrived();
        if handle.open.file.is_in_stub() {
            self.close(&handle);
            return answer.give(Ok(()));
        }
        // The last user of a file settles and may sync it, which waits for targets.
        let (server, uid) = (self.clone(), handle.uid());
        let work = move || {
            server.settle_and_finish(&handle);
            drop(handle);
            answer.give(Ok(()));
        };
        if let Err(work) = self.slow.push_now(uid, Box::new(work)) {
            work();
        }
    }

    /// Closes all open files. The kernel drops pending releases when the mount goes away. So sizes and times are
    /// settled here, and files without a name lose their objects.
    pub fn close_all(&self) {
        for handle in self.handles.drain() {
            self.settle_and_finish(&handle);
        }
        self.parts.files.forget_mapped();
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
}
