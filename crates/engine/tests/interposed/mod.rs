//! A medium with an interposer that decides about every operation.

use object::target::{Handle, Medium, Space};
use policy::ObjectId;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;

/// Result of an operation on a medium.
pub type Io<T> = Result<T, Errno>;

/// Operation that is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Create,
    Open,
    Remove,
    SyncNames,
    /// A look at the medium itself: its objects, its health, its space.
    Look,
    Read,
    Write,
    /// Changes and questions about an object that are neither of the two above.
    Other,
    /// How much space an object takes.
    Allocated,
    Sync,
}

/// Decision of the interposer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Happens,
    /// Reported as done and skipped; for [`Op::Sync`] alone.
    Pretended,
}

/// Observer that decides about every operation.
pub trait Interposer: Send + Sync + 'static {
    /// Is asked before each operation; may wait, or make it fail.
    fn before(&self, op: Op) -> Io<Verdict>;
    /// Whether the object's descriptor is lent, whose operations bypass the interposer.
    fn lends_descriptors(&self) -> bool {
        true
    }
}

/// A medium with an interposer.
pub struct Interposed<I> {
    medium: Arc<dyn Medium>,
    interposer: Arc<I>,
}

impl<I: Interposer> Interposed<I> {
    pub fn new(medium: Arc<dyn Medium>, interposer: Arc<I>) -> Interposed<I> {
        Interposed { medium, interposer }
    }

    fn handle(&self, handle: Arc<dyn Handle>) -> Arc<dyn Handle> {
        Arc::new(InterposedHandle { handle, interposer: self.interposer.clone() })
    }
}

struct InterposedHandle<I> {
    handle: Arc<dyn Handle>,
    interposer: Arc<I>,
}

impl<I: Interposer> Medium for Interposed<I> {
    fn create(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        self.interposer.before(Op::Create)?;
        self.medium.create(id).map(|h| self.handle(h))
    }
    fn open(&self, id: ObjectId) -> Io<Arc<dyn Handle>> {
        self.interposer.before(Op::Open)?;
        self.medium.open(id).map(|h| self.handle(h))
    }
    fn link(&self, id: ObjectId, name: ObjectId) -> Io<Arc<dyn Handle>> {
        self.interposer.before(Op::Create)?;
        self.medium.link(id, name).map(|h| self.handle(h))
    }
    fn remove(&self, id: ObjectId) -> Io<()> {
        self.interposer.before(Op::Remove)?;
        self.medium.remove(id)
    }
    fn sync_names(&self) -> Io<()> {
        self.interposer.before(Op::SyncNames)?;
        self.medium.sync_names()
    }
    fn list(&self) -> Io<Vec<ObjectId>> {
        self.interposer.before(Op::Look)?;
        self.medium.list()
    }
    fn probe(&self) -> Io<()> {
        self.interposer.before(Op::Look)?;
        self.medium.probe()
    }
    fn probe_durable(&self) -> Io<()> {
        self.interposer.before(Op::Look)?;
        self.medium.probe_durable()
    }
    fn space(&self) -> Io<Space> {
        self.interposer.before(Op::Look)?;
        self.medium.space()
    }
}

impl<I: Interposer> Handle for InterposedHandle<I> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Io<usize> {
        self.interposer.before(Op::Read)?;
        self.handle.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Io<()> {
        self.interposer.before(Op::Write)?;
        self.handle.write_at(offset, data)
    }
    fn set_len(&self, len: u64) -> Io<()> {
        self.interposer.before(Op::Other)?;
        self.handle.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> Io<()> {
        self.interposer.before(Op::Other)?;
        self.handle.punch(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> Io<()> {
        self.interposer.before(Op::Other)?;
        self.handle.allocate(offset, len)
    }
    fn reserve(&self, offset: u64, len: u64) -> Io<()> {
        self.interposer.before(Op::Other)?;
        self.handle.reserve(offset, len)
    }
    fn knows_holes(&self) -> bool {
        self.handle.knows_holes()
    }
    fn seek_data(&self, offset: u64) -> Io<u64> {
        self.interposer.before(Op::Other)?;
        self.handle.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Io<u64> {
        self.interposer.before(Op::Other)?;
        self.handle.seek_hole(offset)
    }
    fn len(&self) -> Io<u64> {
        self.interposer.before(Op::Other)?;
        self.handle.len()
    }
    fn allocated(&self) -> Io<u64> {
        self.interposer.before(Op::Allocated)?;
        self.handle.allocated()
    }
    fn names(&self) -> Io<u64> {
        self.handle.names()
    }
    fn sync(&self) -> Io<()> {
        match self.interposer.before(Op::Sync)? {
            Verdict::Happens => self.handle.sync(),
            Verdict::Pretended => Ok(()),
        }
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.interposer.lends_descriptors().then(|| self.handle.fd()).flatten()
    }
}
