//! Locks of open files, until their close, where several nodes have the volume.

use super::Server;
use super::answer::Answer;
use super::front::LockRequest;
use super::locks::{Caller, Done, What};
use super::open::Handle;
use engine::file::{InTheWay, Owner, Wanted};
use fuser::{ReplyEmpty, ReplyLock};
use rustix::io::Errno;
use std::sync::Arc;

impl Server {
    /// Locks or releases bytes of a file.
    pub fn lock(self: &Arc<Self>, request: LockRequest, answer: Answer<ReplyEmpty>) {
        let LockRequest { handle, owner, bytes, kind, process, thread, waits } = request;
        let what = What::Set(Wanted { owner, handle, process, bytes, kind });
        let waits = waits && kind.is_some();
        self.call(handle, thread, waits, what, Box::new(|done| answer.give(done.map(drop))));
    }

    /// Returns the lock that conflicts with the requested one.
    pub fn test_lock(self: &Arc<Self>, request: LockRequest, answer: Answer<ReplyLock>) {
        let LockRequest { handle, owner, bytes, kind, thread, .. } = request;
        let Some(kind) = kind else { return answer.give(Err(Errno::INVAL)) };
        self.call(handle, thread, false, What::Test(owner, bytes, kind), Box::new(|done| answer.give(done)));
    }

    fn call(&self, handle: u64, thread: u32, waits: bool, what: What, done: Done) {
        // `.stats` has no entry among the handles, and no locks.
        let Some(handle) = self.handles.get(handle) else { return done(Err(Errno::NOLCK)) };
        self.locks.call(
            Caller { uid: handle.uid(), thread, waits },
            handle.open.id,
            handle.open.file.clone(),
            what,
            done,
        );
    }

    /// Handles a process's close of a file: its locks are released before `then` runs.
    pub fn after_its_locks(&self, handle: &Handle, owner: Owner, then: impl FnOnce() + Send + 'static) {
        if handle.open.file.has_closed(owner) {
            self.give_back(handle, owner, Box::new(|_| then()));
        } else {
            then();
        }
    }

    /// Releases the locks of a handle that ended.
    pub fn end_its_locks(&self, number: u64) {
        let Some(handle) = self.handles.get(number) else { return };
        for owner in handle.open.file.have_closed(number) {
            self.give_back(&handle, owner, Box::new(|_: Result<Option<InTheWay>, Errno>| {}));
        }
    }

    fn give_back(&self, handle: &Handle, owner: Owner, done: Done) {
        let caller = Caller { uid: handle.uid(), thread: 0, waits: false };
        self.locks.call(caller, handle.open.id, handle.open.file.clone(), What::Close(owner), done);
    }
}
