//! Making durable what was acknowledged: objects of all mirrors in sync, then the stub.

use super::write::Missed;
use super::{File, View};
use crate::target::TargetError;
use crate::{Error, Result};
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one open handle has seen of the failures to make the file durable: each is reported to it once, also when
/// somebody else's call met it.
#[derive(Debug, Default)]
pub struct SyncCursor(AtomicU64);

/// The failures so far.
#[derive(Default)]
pub(super) struct SyncErrors {
    count: u64,
    last: Option<Errno>,
}

impl File {
    /// A cursor for a handle that is being opened now: it is told of failures from now on.
    pub fn sync_cursor(&self) -> SyncCursor {
        SyncCursor(AtomicU64::new(self.sync_errors.lock().count))
    }

    /// Makes everything acknowledged durable (`data_only`: without times). Reports failures met by others since this
    /// cursor last asked.
    pub fn sync(self: &Arc<Self>, data_only: bool, cursor: &SyncCursor) -> Result<()> {
        let result = self.sync_now(data_only);
        let mut errors = self.sync_errors.lock();
        if let Err(e) = &result {
            errors.count += 1;
            errors.last = Some(e.errno());
        }
        let seen = cursor.0.swap(errors.count, Ordering::AcqRel);
        match (result, errors.last) {
            (Ok(()), Some(errno)) if seen < errors.count => Err(Error::Namespace(errno)),
            (result, _) => result,
        }
    }

    /// Makes everything acknowledged durable, without regard to what others were told.
    pub fn sync_now(self: &Arc<Self>, data_only: bool) -> Result<()> {
        self.promised.store(true, Ordering::Release);
        {
            let _io = self.io.read(); // no swap of the layout between the objects and the stub
            let view = self.view();
            if view.layout.is_some() {
                self.sync_objects(&view)?;
            }
        }
        self.settle_size()?;
        if !data_only {
            self.settle_times()?;
        }
        if self.stub_dirty.swap(false, Ordering::AcqRel) {
            self.stub.sync().inspect_err(|_| self.stub_changed())?;
        }
        Ok(())
    }

    /// Brings times (and, after the kernel wrote the object by itself, the size) into the stub.
    pub fn settle(&self) -> Result<()> {
        self.settle_size()?;
        self.settle_times()
    }

    /// After `settle_size`, which asked the kernel's time.
    fn settle_times(&self) -> Result<()> {
        let at = self.modified.swap(0, Ordering::Relaxed);
        if at == 0 {
            return Ok(());
        }
        self.stub_changed();
        self.stub.touch(Time(at))
    }

    /// Syncs the written objects of all mirrors in sync at the same time. A mirror that cannot is marked stale if
    /// another one could.
    pub(super) fn sync_objects(&self, view: &View) -> Result<()> {
        let mut pending = Vec::new();
        let mut missed: Vec<Missed> = Vec::new();
        let mut names: BTreeMap<TargetId, usize> = BTreeMap::new();
        for mirror in view.in_sync() {
            for slot in view.of_mirror(mirror) {
                if slot.unnamed.load(Ordering::Acquire) {
                    names.insert(slot.target_id, mirror);
                }
                if !slot.dirty.swap(false, Ordering::AcqRel) {
                    continue;
                }
                match slot.submit(&self.pool, |h| h.sync()) {
                    Ok(p) => pending.push((mirror, slot, p)),
                    Err(error) => {
                        slot.dirty.store(true, Ordering::Release);
                        missed.push(Missed { mirror, target: slot.target_id, error });
                    }
                }
            }
        }
        for (mirror, slot, p) in pending {
            if let Err(error) = p.wait() {
                slot.dirty.store(true, Ordering::Release);
                missed.push(Missed { mirror, target: slot.target_id, error });
            }
        }
        for target in names.into_keys() {
            self.sync_names(view, target, &mut missed);
        }
        missed.sort_by_key(|m| m.mirror);
        missed.dedup_by_key(|m| m.mirror);
        self.settle_missed(view, missed, 0)
    }

    /// Makes the creation of objects on a target durable.
    fn sync_names(&self, view: &View, id: TargetId, missed: &mut Vec<Missed>) {
        let synced = match self.pool.targets.get(id) {
            Some(target) => target.run(|medium| medium.sync_names()),
            None => Err(TargetError::Failed),
        };
        for mirror in view.in_sync() {
            for slot in view.of_mirror(mirror).filter(|s| s.target_id == id && s.unnamed.load(Ordering::Acquire)) {
                match &synced {
                    Ok(()) => slot.unnamed.store(false, Ordering::Release),
                    Err(error) => missed.push(Missed { mirror, target: id, error: error.clone() }),
                }
            }
        }
    }
}
