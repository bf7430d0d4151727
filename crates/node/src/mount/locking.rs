//! Locks of open files, until their close, where several nodes have the volume.

use super::Server;
use super::locks::{Caller, Done, What};
use super::open::Handle;
use engine::file::{InTheWay, Owner};
use rustix::io::Errno;

impl Server {
    /// Requests a lock or a release.
    pub fn call_locks(&self, handle: u64, thread: u32, waits: bool, what: What, done: Done) {
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
