//! A target in memory, with faults on demand: for tests of everything above targets.
//!
//! It keeps the synced and unsynced state of every object, as a page cache would; [`MemoryMedium::crash`] keeps or
//! loses each unsynced part as the seed decides. Deterministic: the same seed and calls give the same results.

mod content;
mod faults;
mod object;

pub use faults::Faults;

use super::medium::{Handle, Medium, Space};
use content::{Content, PAGE_BYTES};
use faults::{FaultPlan, Kind, Verdict};
use object::Object;
use parking_lot::Mutex;
use policy::ObjectId;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Objects in memory. Clones share the objects.
#[derive(Clone)]
pub struct MemoryMedium(Arc<Shared>);

struct Shared {
    plan: Mutex<FaultPlan>,
    names: Mutex<Names>,
    capacity_bytes: AtomicU64,
    used_pages: AtomicU64,
    /// Number of crashes; handles of an earlier life are dead.
    life: AtomicU64,
    /// Number of the medium's shared file system; 0: none.
    file_system: AtomicU64,
}

#[derive(Default)]
struct Names {
    here: BTreeMap<ObjectId, Named>,
    /// Removed objects that a crash may bring back.
    removed: BTreeMap<ObjectId, Common>,
}

/// An object, shared by all its names and handles.
type Common = Arc<Mutex<Object>>;

struct Named {
    object: Common,
    durable: bool,
}

struct MemoryHandle {
    shared: Arc<Shared>,
    object: Common,
    life: u64,
}

impl MemoryMedium {
    /// An empty medium without faults and without limit.
    pub fn new(seed: u64) -> MemoryMedium {
        MemoryMedium(Arc::new(Shared {
            plan: Mutex::new(FaultPlan::new(seed)),
            names: Mutex::default(),
            capacity_bytes: AtomicU64::new(u64::MAX),
            used_pages: AtomicU64::new(0),
            life: AtomicU64::new(0),
            file_system: AtomicU64::new(0),
        }))
    }

    /// Sets the number of the medium's shared file system.
    pub fn set_shared_file_system(&self, number: u64) {
        self.0.file_system.store(number, Ordering::Relaxed);
    }

    /// Replaces the fault plan.
    pub fn set_faults(&self, faults: Faults) {
        self.0.plan.lock().set(faults);
    }

    /// Makes all operations fail with `ENODEV` (`true`), or restores the medium unchanged (`false`).
    pub fn set_gone(&self, gone: bool) {
        self.0.plan.lock().gone = gone;
    }

    /// Limits the bytes that fit.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.0.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
    }

    /// Simulates a loss of power: unsynced changes are kept or lost, as the seed decides. Handles opened before fail
    /// with `EIO`.
    pub fn crash(&self) {
        let mut plan = self.0.plan.lock();
        let mut names = self.0.names.lock();
        self.0.life.fetch_add(1, Ordering::Relaxed);
        let Names { here, removed } = std::mem::take(&mut *names);
        let mut survivors: BTreeMap<ObjectId, Named> = BTreeMap::new();
        for (id, object) in removed {
            if plan.coin() {
                survivors.insert(id, Named { object, durable: true });
            }
        }
        for (id, named) in here {
            if named.durable || plan.coin() {
                survivors.insert(id, Named { object: named.object, durable: true });
            }
        }
        let mut used_pages = 0;
        // An object with several names stays one object.
        let mut copied: Vec<(Common, Common)> = Vec::new();
        for named in survivors.values_mut() {
            let there =
                copied.iter().find(|(before, _)| Arc::ptr_eq(before, &named.object)).map(|(_, after)| after.clone());
            let after = there.unwrap_or_else(|| {
                let after = named.object.lock().after_crash(&mut plan);
                used_pages += after.pages();
                let after = Arc::new(Mutex::new(after));
                copied.push((named.object.clone(), after.clone()));
                after
            });
            named.object = after;
        }
        self.0.used_pages.store(used_pages, Ordering::Relaxed);
        names.here = survivors;
    }

    /// Number of operations so far.
    pub fn operations(&self) -> u64 {
        self.0.plan.lock().operations
    }

    /// Returns the current bytes of an object, without faults.
    pub fn peek(&self, id: ObjectId) -> Option<Vec<u8>> {
        let object = self.0.names.lock().here.get(&id)?.object.clone();
        let object = object.lock();
        let mut bytes = vec![0; object.now().len() as usize];
        object.now().read(0, &mut bytes);
        Some(bytes)
    }
}

impl Shared {
    fn resized(&self, before: u64, after: u64) {
        self.used_pages.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    fn begin(&self, kind: Kind) -> Result<Verdict, Errno> {
        self.plan.lock().begin(kind)
    }

    fn handle(self: &Arc<Shared>, object: Common) -> Arc<dyn Handle> {
        Arc::new(MemoryHandle { shared: self.clone(), object, life: self.life.load(Ordering::Relaxed) })
    }
}

impl Medium for MemoryMedium {
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let verdict = self.0.begin(Kind::Create)?;
        verdict.apply(|| {
            let mut names = self.0.names.lock();
            if names.here.contains_key(&id) {
                return Err(Errno::EXIST);
            }
            let object = Common::default();
            names.here.insert(id, Named { object: object.clone(), durable: false });
            Ok(self.0.handle(object))
        })
    }

    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let verdict = self.0.begin(Kind::Open)?;
        verdict.apply(|| {
            let names = self.0.names.lock();
            let named = names.here.get(&id).ok_or(Errno::NOENT)?;
            Ok(self.0.handle(named.object.clone()))
        })
    }

    fn link(&self, id: ObjectId, name: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let verdict = self.0.begin(Kind::Create)?;
        verdict.apply(|| {
            let mut names = self.0.names.lock();
            let object = names.here.get(&id).ok_or(Errno::NOENT)?.object.clone();
            if names.here.contains_key(&name) {
                return Err(Errno::EXIST);
            }
            names.here.insert(name, Named { object: object.clone(), durable: false });
            Ok(self.0.handle(object))
        })
    }

    fn remove(&self, id: ObjectId) -> Result<(), Errno> {
        let verdict = self.0.begin(Kind::Change)?;
        verdict.apply(|| {
            let mut names = self.0.names.lock();
            if let Some(named) = names.here.remove(&id) {
                if !names.here.values().any(|other| Arc::ptr_eq(&other.object, &named.object)) {
                    let mut object = named.object.lock();
                    self.0.resized(object.pages(), 0);
                    object.unlinked = true;
                }
                if named.durable {
                    names.removed.insert(id, named.object);
                }
            }
            Ok(())
        })
    }

    fn sync_names(&self) -> Result<(), Errno> {
        let verdict = self.0.begin(Kind::Other)?;
        verdict.apply(|| {
            let mut names = self.0.names.lock();
            names.removed.clear();
            names.here.values_mut().for_each(|named| named.durable = true);
            Ok(())
        })
    }

    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        let verdict = self.0.begin(Kind::Other)?;
        verdict.apply(|| Ok(self.0.names.lock().here.keys().copied().collect()))
    }

    fn probe(&self) -> Result<(), Errno> {
        let verdict = self.0.begin(Kind::Probe)?;
        verdict.apply(|| Ok(()))
    }

    fn probe_durable(&self) -> Result<(), Errno> {
        self.probe()?;
        if self.0.plan.lock().syncs_lose() { Err(Errno::ROFS) } else { Ok(()) }
    }

    fn shared_file_system(&self) -> Option<u64> {
        Some(self.0.file_system.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    fn space(&self) -> Result<Space, Errno> {
        if self.0.plan.lock().gone {
            return Err(Errno::NODEV);
        }
        let total_bytes = self.0.capacity_bytes.load(Ordering::Relaxed);
        let used_bytes = self.0.used_pages.load(Ordering::Relaxed) * PAGE_BYTES;
        Ok(Space { total_bytes, free_bytes: total_bytes.saturating_sub(used_bytes), device: None })
    }
}

impl MemoryHandle {
    fn begin(&self, kind: Kind) -> Result<Verdict, Errno> {
        if self.shared.life.load(Ordering::Relaxed) != self.life {
            return Err(Errno::IO);
        }
        self.shared.begin(kind)
    }

    /// Changes the object if `pages_new_max` more pages fit.
    fn change(&self, pages_new_max: u64, change: impl FnOnce(&mut Object)) -> Result<(), Errno> {
        let mut object = self.object.lock();
        let before = object.pages();
        let used = self.shared.used_pages.load(Ordering::Relaxed) + pages_new_max;
        if used.saturating_mul(PAGE_BYTES) > self.shared.capacity_bytes.load(Ordering::Relaxed) {
            return Err(Errno::NOSPC);
        }
        change(&mut object);
        if !object.unlinked {
            self.shared.resized(before, object.pages());
        }
        Ok(())
    }

    /// Seeks data or a hole in the part of the object that the medium reports.
    fn sought(&self, seek: impl FnOnce(&Content) -> Option<u64>) -> Result<u64, Errno> {
        let lags = self.shared.plan.lock().seeks_lag();
        let object = self.object.lock();
        seek(if lags { object.durable() } else { object.now() }).ok_or(Errno::NXIO)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let pages_new = self.object.lock().now().pages_missing(offset, data.len() as u64);
        self.change(pages_new, |object| object.write(offset, data))
    }
}

impl Handle for MemoryHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.begin(Kind::Read)?.apply(|| Ok(self.object.lock().now().read(offset, buf)))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let verdict = self.begin(Kind::Write)?;
        if let Verdict::Torn(fraction) = verdict {
            let landed = (data.len() as u64 * u64::from(fraction) / 65_536) as usize;
            self.write(offset, &data[..landed])?;
            return Err(Errno::IO);
        }
        verdict.apply(|| self.write(offset, data))
    }

    fn set_len(&self, len: u64) -> Result<(), Errno> {
        self.begin(Kind::Change)?.apply(|| self.change(0, |object| object.set_len(len)))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.begin(Kind::Change)?.apply(|| self.change(0, |object| object.punch(offset, len)))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let verdict = self.begin(Kind::Write)?;
        let pages_new = self.object.lock().now().pages_missing(offset, len);
        verdict.apply(|| self.change(pages_new, |object| object.allocate(offset, len)))
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let verdict = self.begin(Kind::Write)?;
        // Bytes beyond the length are not kept here.
        let end = offset.saturating_add(len).min(self.object.lock().now().len());
        let len = end.saturating_sub(offset);
        let pages_new = self.object.lock().now().pages_missing(offset, len);
        verdict.apply(|| if len == 0 { Ok(()) } else { self.change(pages_new, |object| object.allocate(offset, len)) })
    }

    fn knows_holes(&self) -> bool {
        !self.shared.plan.lock().seeks_lag()
    }

    fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
        self.begin(Kind::Read)?.apply(|| self.sought(|content| content.seek_data(offset)))
    }

    fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
        self.begin(Kind::Read)?.apply(|| self.sought(|content| content.seek_hole(offset)))
    }

    fn len(&self) -> Result<u64, Errno> {
        self.begin(Kind::Read)?.apply(|| Ok(self.object.lock().now().len()))
    }

    fn allocated(&self) -> Result<u64, Errno> {
        self.begin(Kind::Read)?.apply(|| Ok(self.object.lock().pages() * PAGE_BYTES))
    }

    fn names(&self) -> Result<u64, Errno> {
        let names = self.shared.names.lock();
        Ok(names.here.values().filter(|named| Arc::ptr_eq(&named.object, &self.object)).count() as u64)
    }

    fn sync(&self) -> Result<(), Errno> {
        let verdict = self.begin(Kind::Sync)?;
        if self.shared.plan.lock().syncs_lose() {
            let mut object = self.object.lock();
            let before = object.pages();
            object.lose();
            self.shared.resized(before, object.pages());
            return Err(Errno::IO);
        }
        verdict.apply(|| {
            self.object.lock().sync();
            Ok(())
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests;
