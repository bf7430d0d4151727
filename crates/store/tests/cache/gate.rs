//! A medium whose reads hang while a gate is closed.

use parking_lot::{Condvar, Mutex};
use policy::ObjectId;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use store::target::{Handle, Medium, Space};

/// What reads pass through.
#[derive(Default)]
pub struct ReadGate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl ReadGate {
    /// From now on reads hang.
    pub fn close(&self) {
        *self.closed.lock() = true;
    }

    /// Lets all go on.
    pub fn open(&self) {
        *self.closed.lock() = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut closed = self.closed.lock();
        while *closed {
            self.changed.wait(&mut closed);
        }
    }
}

/// A medium behind a gate.
pub struct Gated(pub Arc<dyn Medium>, pub &'static ReadGate);

struct GatedHandle(Arc<dyn Handle>, &'static ReadGate);

type Io<T> = Result<T, Errno>;

impl Medium for Gated {
    fn create(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        Ok(Arc::new(GatedHandle(self.0.create(id)?, self.1)))
    }
    fn open(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        Ok(Arc::new(GatedHandle(self.0.open(id)?, self.1)))
    }
    fn remove(&self, id: ObjectId) -> Io<()> {
        self.0.remove(id)
    }
    fn sync_names(&self) -> Io<()> {
        self.0.sync_names()
    }
    fn list(&self) -> Io<Vec<ObjectId>> {
        self.0.list()
    }
    fn probe(&self) -> Io<()> {
        self.0.probe()
    }
    fn space(&self) -> Io<Space> {
        self.0.space()
    }
}

impl Handle for GatedHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Io<usize> {
        self.1.pass();
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Io<()> {
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
