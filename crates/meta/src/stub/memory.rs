//! A stub in memory that can crash: for tests of everything above stubs.
//!
//! Changes since the last sync are a list; a loss of power keeps a first part of it, as a journalling file system does.
//! Faults: from a chosen call on, every call fails, as for a daemon that is being killed.

mod locks;

use super::locks::Locker;
use super::{InUse, Mark, Pointer, Record, Records, Stub, Sums};
use crate::Result;
use parking_lot::Mutex;
use policy::layout::Layout;
use policy::{FileId, Time};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Granularity of holes, in bytes.
const BLOCK: u64 = 512;

#[derive(Clone, Default)]
struct State {
    bytes: Vec<u8>,
    layout: Option<Layout>,
    source: Option<String>,
    modified: Time,
    inline: bool,
}

#[derive(Clone)]
enum Change {
    Layout(Box<Layout>),
    Source(Option<String>),
    Inline(bool),
    Size(u64),
    Touch(Time),
    Write(u64, Vec<u8>),
    Punch(u64, u64),
}

#[derive(Default)]
struct Inner {
    durable: State,
    now: State,
    since_sync: Vec<Change>,
    marks: BTreeSet<InUse>,
    /// Set when the file has no name any more.
    nameless: bool,
    kernel_writes: bool,
    /// Records of several nodes, the pointer to one, and the mark of a truncation under way. One node's loss of power
    /// removes none of them.
    records: BTreeMap<u64, Record>,
    pointer: Option<(u64, u64)>,
    cut: Option<u64>,
    locks: Arc<Mutex<locks::Locks>>,
    /// Checksums by the names under which they were made; `None` while they are being made.
    sums: BTreeMap<String, Option<String>>,
    calls: u64,
    fail_from: Option<u64>,
    /// Calls that are executed but return an error.
    unanswered: Range<u64>,
    gone_from: Option<u64>,
    forget_syncs: bool,
}

/// The inode of one file in memory.
#[derive(Default)]
pub struct MemoryStub(Mutex<Inner>);

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Layout(layout) => self.layout = Some((**layout).clone()),
            Change::Source(source) => self.source.clone_from(source),
            Change::Inline(inline) => self.inline = *inline,
            Change::Size(size) => self.bytes.resize(*size as usize, 0),
            Change::Touch(at) => self.modified = *at,
            Change::Write(offset, data) => {
                let (from, to) = (*offset as usize, *offset as usize + data.len());
                if self.bytes.len() < to {
                    self.bytes.resize(to, 0);
                }
                self.bytes[from..to].copy_from_slice(data);
            }
            Change::Punch(offset, len) => {
                let size = self.bytes.len();
                let (from, to) = ((*offset as usize).min(size), (offset.saturating_add(*len) as usize).min(size));
                self.bytes[from..to].fill(0);
            }
        }
    }
}

impl MemoryStub {
    /// Returns the stub of an empty file.
    pub fn new() -> MemoryStub {
        MemoryStub::default()
    }

    /// Simulates a loss of power: the first `keep` changes since the last sync stay.
    pub fn crash(&self, keep: usize) {
        let mut inner = self.0.lock();
        let changes = std::mem::take(&mut inner.since_sync);
        let mut state = inner.durable.clone();
        changes.iter().take(keep).for_each(|c| state.apply(c));
        inner.durable = state.clone();
        inner.now = state;
        inner.fail_from = None;
    }

    /// Number of changes since the last sync.
    pub fn unsynced(&self) -> usize {
        self.0.lock().since_sync.len()
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// From the n-th call from now (counting from 1), every call fails with `EIO`; `None` heals it.
    pub fn fail_from(&self, nth: Option<u64>) {
        let mut inner = self.0.lock();
        inner.fail_from = nth.map(|n| inner.calls + n);
    }

    /// Executes the n-th call from now (counting from 1) and some after it, but returns `EIO` for them.
    pub fn lose_answers(&self, nth: u64, calls: u64) {
        let mut inner = self.0.lock();
        let first = inner.calls + nth;
        inner.unanswered = first..first + calls;
    }

    /// Removes the last name and all state, from the n-th call from now on (counting from 1), as on GlusterFS.
    pub fn goes_at(&self, nth: u64) {
        let mut inner = self.0.lock();
        inner.gone_from = Some(inner.calls + nth);
    }

    /// Simulates a broken disk: a sync returns success and does nothing. For tests of the tests.
    pub fn forget_syncs(&self, forget: bool) {
        self.0.lock().forget_syncs = forget;
    }

    /// Fails requests for locks with this error; `None` restores them.
    pub fn refuse_locks(&self, with: Option<Errno>) {
        self.0.lock().locks.lock().refuses = with;
    }

    /// Number of descriptors that are open for locks.
    pub fn lockers(&self) -> usize {
        self.0.lock().locks.lock().len()
    }

    /// Whether it has an in-use mark.
    pub fn is_marked(&self) -> bool {
        !self.0.lock().marks.is_empty()
    }

    /// Removes its name.
    pub fn unlink(&self) {
        self.0.lock().nameless = true;
    }

    /// The modification time as it was last set.
    pub fn modified(&self) -> Time {
        self.0.lock().now.modified
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
        let mut inner = self.0.lock();
        inner.calls += 1;
        if inner.fail_from.is_some_and(|n| inner.calls >= n) {
            return Err(Errno::IO.into());
        }
        if inner.gone_from.is_some_and(|n| inner.calls >= n) {
            return Err(Errno::STALE.into());
        }
        let done = f(&mut inner);
        if inner.unanswered.contains(&inner.calls) { Err(Errno::IO.into()) } else { done }
    }

    fn change(&self, change: Change) -> Result<()> {
        self.with(|inner| {
            inner.now.apply(&change);
            inner.since_sync.push(change);
            Ok(())
        })
    }

    fn block_is_data(state: &State, block: u64) -> bool {
        let size = state.bytes.len() as u64;
        let (from, to) = ((block * BLOCK).min(size), ((block + 1) * BLOCK).min(size));
        state.bytes[from as usize..to as usize].iter().any(|b| *b != 0)
    }

    fn seek(&self, offset: u64, data: bool) -> Result<u64> {
        self.with(|inner| {
            let size = inner.now.bytes.len() as u64;
            if offset >= size {
                return Err(Errno::NXIO.into());
            }
            let blocks = offset / BLOCK..size.div_ceil(BLOCK);
            match blocks.clone().find(|b| Self::block_is_data(&inner.now, *b) == data) {
                Some(block) => Ok(offset.max(block * BLOCK)),
                None if data => Err(Errno::NXIO.into()),
                None => Ok(size),
            }
        })
    }
}

impl Stub for MemoryStub {
    fn layout(&self) -> Result<Option<Layout>> {
        self.with(|inner| {
            let newest = inner.records.last_key_value().map(|(_, record)| record.layout.clone());
            Ok(newest.unwrap_or_else(|| inner.now.layout.clone()))
        })
    }

    fn locker(&self) -> Result<Box<dyn Locker>> {
        self.with(|inner| Ok(locks::open(&inner.locks)))
    }

    fn grow_to(&self, size: u64) -> Result<()> {
        // One step: two nodes may set their sizes at the same time.
        self.with(|inner| {
            if size > inner.now.bytes.len() as u64 {
                inner.now.apply(&Change::Size(size));
                inner.since_sync.push(Change::Size(size));
            }
            Ok(())
        })
    }

    fn set_layout(&self, layout: &Layout) -> Result<()> {
        self.change(Change::Layout(Box::new(layout.clone())))
    }

    fn source(&self) -> Result<Option<String>> {
        self.with(|inner| Ok(inner.now.source.clone()))
    }

    fn set_source(&self, record: Option<&str>) -> Result<()> {
        self.change(Change::Source(record.map(str::to_string)))
    }

    fn size(&self) -> Result<u64> {
        self.with(|inner| Ok(inner.now.bytes.len() as u64))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.change(Change::Size(size))
    }

    fn touch(&self, modified: Time) -> Result<()> {
        self.change(Change::Touch(modified))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.with(|inner| {
            let bytes = inner.now.bytes.get(offset as usize..).unwrap_or(&[]);
            let len = bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&bytes[..len]);
            Ok(len)
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.change(Change::Write(offset, data.to_vec()))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.change(Change::Punch(offset, len))
    }

    fn seek_data(&self, offset: u64) -> Result<u64> {
        self.seek(offset, true)
    }

    fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.seek(offset, false)
    }

    fn mark_in_use(&self, by: InUse, mark: Mark) -> Result<()> {
        self.with(|inner| {
            if mark != Mark::None {
                inner.marks.insert(by);
            } else {
                inner.marks.remove(&by);
            }
            Ok(())
        })
    }

    fn has_mark(&self, by: InUse) -> bool {
        self.0.lock().marks.contains(&by)
    }

    fn links(&self) -> Option<u64> {
        let inner = self.0.lock();
        Some(u64::from(!inner.nameless) + inner.marks.len() as u64)
    }

    fn set_kernel_writes(&self, writes: bool) -> Result<()> {
        self.with(|inner| {
            inner.kernel_writes = writes;
            Ok(())
        })
    }

    fn kernel_writes(&self) -> Result<bool> {
        self.with(|inner| Ok(inner.kernel_writes))
    }

    fn mark_inline(&self, inline: bool) -> Result<()> {
        self.change(Change::Inline(inline))
    }

    fn is_marked_inline(&self) -> Result<bool> {
        self.with(|inner| Ok(inner.now.inline))
    }

    fn discard(&self, by: InUse) -> Result<()> {
        self.mark_in_use(by, Mark::None)
    }

    fn sync(&self) -> Result<()> {
        self.with(|inner| {
            if !inner.forget_syncs {
                inner.durable = inner.now.clone();
                inner.since_sync.clear();
            }
            Ok(())
        })
    }
}

impl Records for MemoryStub {
    fn pointer(&self) -> Result<Pointer> {
        self.with(|inner| {
            let plain = inner.now.layout.clone().map_or(Pointer::None, |layout| Pointer::Plain(Box::new(layout)));
            Ok(inner.pointer.map_or(plain, |(generation, stamp)| Pointer::To { generation, stamp }))
        })
    }

    fn point(&self, generation: u64, stamp: u64) -> Result<()> {
        self.with(|inner| {
            inner.pointer = Some((generation, stamp));
            Ok(())
        })
    }

    fn record(&self, generation: u64) -> Result<Option<Record>> {
        self.with(|inner| Ok(inner.records.get(&generation).cloned()))
    }

    fn create_record(&self, generation: u64, record: &Record) -> Result<bool> {
        self.with(|inner| {
            let free = !inner.records.contains_key(&generation);
            inner.records.entry(generation).or_insert_with(|| record.clone());
            Ok(free)
        })
    }

    fn remove_records(&self, below: u64) -> Result<()> {
        self.with(|inner| {
            inner.records.retain(|generation, _| *generation >= below);
            Ok(())
        })
    }

    fn listed_generation(&self) -> Result<Option<u64>> {
        self.with(|inner| Ok(inner.records.last_key_value().map(|(generation, _)| *generation)))
    }

    fn cut_to(&self) -> Result<Option<u64>> {
        self.with(|inner| Ok(inner.cut))
    }

    fn set_cut_to(&self, size: Option<u64>) -> Result<()> {
        self.with(|inner| {
            inner.cut = size;
            Ok(())
        })
    }
}

impl Sums for MemoryStub {
    fn has_sums(&self) -> Result<bool> {
        self.with(|inner| Ok(!inner.sums.is_empty()))
    }

    fn sums(&self) -> Result<Option<(String, String)>> {
        self.with(|inner| Ok(inner.sums.iter().find_map(|(id, text)| Some((id.clone(), text.clone()?)))))
    }

    fn begin_sums(&self, id: &str) -> Result<()> {
        self.with(|inner| {
            inner.sums.insert(id.to_owned(), None);
            Ok(())
        })
    }

    fn end_sums(&self, id: &str, text: &str) -> Result<bool> {
        self.with(|inner| Ok(inner.sums.get_mut(id).map(|known| *known = Some(text.to_owned())).is_some()))
    }

    fn void_sums(&self, _: Option<FileId>) -> Result<bool> {
        self.with(|inner| Ok(!std::mem::take(&mut inner.sums).is_empty()))
    }
}
