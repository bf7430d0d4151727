//! A medium whose writes hang while a gate is closed.

use parking_lot::{Condvar, Mutex};
use policy::ObjectId;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use store::target::{Handle, Medium, Space};

/// What writes pass through.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    waiting: usize,
}

impl Gate {
    pub const fn new() -> Gate {
        Gate { state: Mutex::new(State { closed: false, waiting: 0 }), changed: Condvar::new() }
    }

    /// From now on writes hang.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Lets all go on.
    pub fn open(&self) {
        self.state.lock().closed = false;
        self.changed.notify_all();
    }

    /// Waits until so many writes hang.
    pub fn wait_for(&self, count: usize) {
        let mut state = self.state.lock();
        while state.waiting < count {
            self.changed.wait(&mut state);
        }
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.closed {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
    }
}

/// A medium behind a gate.
pub struct Gated {
    pub medium: Arc<dyn Medium>,
    pub gate: &'static Gate,
}

struct GatedHandle(Arc<dyn Handle>, &'static Gate);

type Io<T> = Result<T, Errno>;

impl Medium for Gated {
    fn create(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        Ok(Arc::new(GatedHandle(self.medium.create(id)?, self.gate)))
    }
    fn open(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        Ok(Arc::new(GatedHandle(self.medium.open(id)?, self.gate)))
    }
    fn remove(&self, id: ObjectId) -> Io<()> {
        self.medium.remove(id)
    }
    fn sync_names(&self) -> Io<()> {
        self.medium.sync_names()
    }
    fn list(&self) -> Io<Vec<ObjectId>> {
        self.medium.list()
    }
    fn probe(&self) -> Io<()> {
        self.medium.probe()
    }
    fn space(&self) -> Io<Space> {
        self.medium.space()
    }
}

impl Handle for GatedHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Io<usize> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Io<()> {
        self.1.pass();
        self.0.write_at(offset, data)
    }
    fn set_len(&self, len: u64) -> Io<()> {
        self.0.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> Io<()> {
        self.0.punch(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> Io<()> {
        self.0.allocate(offset, len)
    }
    fn seek_data(&self, offset: u64) -> Io<u64> {
        self.0.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Io<u64> {
        self.0.seek_hole(offset)
    }
    fn len(&self) -> Io<u64> {
        self.0.len()
    }
    fn allocated(&self) -> Io<u64> {
        self.0.allocated()
    }
    fn sync(&self) -> Io<()> {
        self.0.sync()
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }
}
