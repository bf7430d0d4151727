//! A medium that counts its bytes and the operations under way for all layers above. It also times every sixteenth read
//! or write, and reports failed syncs.

use super::Counters;
use super::core::Core;
use super::medium::{Handle, Medium, Space};
use crate::errno::is_space;
use crate::forward;
use policy::ObjectId;
use policy::advice::Advice;
use policy::protect::health::Event;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::cell::Cell;
use std::io::IoSliceMut;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A medium with its counters.
pub struct Counted {
    pub medium: Arc<dyn Medium>,
    pub counters: Arc<Counters>,
    /// Receiver of failed syncs.
    pub core: Weak<Core>,
}

struct CountedHandle {
    handle: Arc<dyn Handle>,
    counters: Arc<Counters>,
    core: Weak<Core>,
}

/// Reports a failed sync to health, unless its errno is reported anyway.
fn tell_if_failed(core: &Weak<Core>, synced: Result<(), Errno>) -> Result<(), Errno> {
    if let Err(errno) = synced
        && !is_space(errno)
        && errno != Errno::ROFS
        && let Some(core) = core.upgrade()
    {
        core.report(Event::SyncFailed);
    }
    synced
}

thread_local!(static TURN: Cell<u32> = const { Cell::new(0) });

/// Number of operations of a thread of which one is timed: reading the clock twice costs as much as counting.
const TIMED_EVERY: u32 = 16;

impl Counters {
    /// Records the duration of an operation.
    pub fn timed(&self, took: Duration) {
        let ns = took.as_nanos() as u64;
        self.took(ns);
        self.sampled_ns.add(ns);
        self.spans.record(ns);
    }

    /// Executes and counts an operation on `bytes` of an object; `moved` returns how many it moved.
    fn during<T>(
        &self,
        bytes: usize,
        op: impl FnOnce() -> Result<T, Errno>,
        moved: impl FnOnce(&T) -> usize,
    ) -> Result<T, Errno> {
        let turn = TURN.with(|turn| turn.replace(turn.get().wrapping_add(1)));
        let began = turn.is_multiple_of(TIMED_EVERY).then(Instant::now);
        let queue = self.under_way.add(bytes as u64);
        let done = op();
        self.under_way.sub(bytes as u64);
        if let (Some(began), Ok(done)) = (began, &done) {
            self.timed(began.elapsed());
            self.sampled_queue.add(queue);
            self.sampled_bytes.add(moved(done) as u64);
            self.sampled.add(1);
        }
        done
    }
}

impl Counted {
    fn handle(&self, handle: Arc<dyn Handle>) -> Arc<dyn Handle> {
        Arc::new(CountedHandle { handle, counters: self.counters.clone(), core: self.core.clone() })
    }
}

impl Medium for Counted {
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        self.medium.create(id).map(|handle| self.handle(handle))
    }
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        self.medium.open(id).map(|handle| self.handle(handle))
    }
    fn link(&self, id: ObjectId, name: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        self.medium.link(id, name).map(|handle| self.handle(handle))
    }
    fn sync_names(&self) -> Result<(), Errno> {
        tell_if_failed(&self.core, self.medium.sync_names())
    }

    forward! { medium:
        fn directory(&self) -> Option<&std::path::Path>;
        fn remove(&self, id: ObjectId) -> Result<(), Errno>;
        fn list(&self) -> Result<Vec<ObjectId>, Errno>;
        fn probe(&self) -> Result<(), Errno>;
        fn probe_durable(&self) -> Result<(), Errno>;
        fn disown(&self) -> Result<(), Errno>;
        fn epoch(&self) -> Result<Option<u32>, Errno>;
        fn set_epoch(&self, epoch: u32) -> Result<(), Errno>;
        fn space(&self) -> Result<Space, Errno>;
        fn over_network(&self) -> bool;
        fn shared_file_system(&self) -> Option<u64>;
        fn cuts_requests(&self) -> bool;
        fn connections(&self) -> Option<serde_json::Value>;
        fn descriptors_per_object(&self) -> u64;
    }
}

impl Handle for CountedHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let read = self.counters.during(buf.len(), || self.handle.read_at(offset, buf), |read| *read)?;
        self.counters.read_bytes.add(read as u64);
        Ok(read)
    }
    fn read_vectored_at(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
        demand_bytes: usize,
    ) -> Result<usize, Errno> {
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        let read = self.counters.during(
            bytes,
            || self.handle.read_vectored_at(offset, buffers, demand_bytes),
            |read| *read,
        )?;
        self.counters.read_bytes.add(read as u64);
        Ok(read)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.counters.during(data.len(), || self.handle.write_at(offset, data), |()| data.len())?;
        self.counters.written_bytes.add(data.len() as u64);
        Ok(())
    }
    fn sync(&self) -> Result<(), Errno> {
        tell_if_failed(&self.core, self.handle.sync())
    }

    forward! { handle:
        fn set_len(&self, len: u64) -> Result<(), Errno>;
        fn punch(&self, offset: u64, len: u64) -> Result<(), Errno>;
        fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno>;
        fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno>;
        fn knows_holes(&self) -> bool;
        fn seek_data(&self, offset: u64) -> Result<u64, Errno>;
        fn seek_hole(&self, offset: u64) -> Result<u64, Errno>;
        fn len(&self) -> Result<u64, Errno>;
        fn allocated(&self) -> Result<u64, Errno>;
        fn names(&self) -> Result<u64, Errno>;
        fn advise(&self, advice: Advice);
        fn begin_sync(&self, offset: u64, len: u64);
        fn end_sync(&self, offset: u64, len: u64);
        fn is_read_only(&self) -> bool;
        fn fd(&self) -> Option<BorrowedFd<'_>>;
    }
}
