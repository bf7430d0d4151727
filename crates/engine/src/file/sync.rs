//! Making durable what was acknowledged: objects of all mirrors in sync, then the stub.
//!
//! A caller that finds a sync in progress waits for it, see [`meta::unsynced::Unsynced`]. Data that a failed sync may
//! have lost stays lost, see [`super::Lost`].

use super::write::Missed;
use super::{File, Pool, Slot, View};
use crate::{Error, Result};
use meta::unsynced::Turn;
use object::target::{Pending, TargetError};
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sync failures that one open handle has reported. Each failure is reported once per handle, even if another caller's
/// sync failed.
#[derive(Debug, Default)]
pub struct SyncCursor(AtomicU64);

/// Failures so far.
#[derive(Default)]
pub(super) struct SyncErrors {
    count: u64,
    last: Option<Errno>,
}

impl File {
    /// A cursor for a handle that is being opened: it reports failures from now on.
    pub fn sync_cursor(&self) -> SyncCursor {
        SyncCursor(AtomicU64::new(self.sync_errors.lock().count))
    }

    /// Makes everything acknowledged durable (`data_only`: without times). Reports failures of other callers since the
    /// last call with this cursor.
    pub fn sync(self: &Arc<Self>, data_only: bool, cursor: &SyncCursor) -> Result<()> {
        let result = self.sync_now(data_only);
        // Programs that sync and then notify each other expect to read the synced data.
        if let Err(error) = self.refresh() {
            tracing::debug!("a file that was synced may lie elsewhere by now: {error}");
        }
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

    /// Makes everything acknowledged durable; reports only failures of this call.
    pub fn sync_now(self: &Arc<Self>, data_only: bool) -> Result<()> {
        self.promised.store(true, Ordering::Release);
        while let Err(error) = self.sync_view() {
            match error {
                Error::Busy(_) if self.has_missed() => self.mark_missed()?,
                error => return Err(error),
            }
        }
        self.settle_size()?;
        self.settle_deferred()?;
        if !data_only {
            self.settle_times()?;
        }
        self.sync_stub()
    }

    /// Syncs the objects of the present layout.
    fn sync_view(&self) -> Result<()> {
        let _io = self.io.read(); // no swap of the layout between the objects and the stub
        let view = self.view();
        if self.kernel_writes.load(Ordering::Acquire) || self.is_held() {
            // Writes of the kernel and of mappings are not tracked.
            view.all().for_each(|slot| slot.unsynced.changed());
        }
        if view.layout.is_some() { self.sync_objects(&view) } else { Ok(()) }
    }

    /// Syncs changes of the stub. Bytes in it that could not be made durable are lost, see [`super::Lost`]. With a
    /// layout, the file system alone is responsible for the stub.
    fn sync_stub(&self) -> Result<()> {
        let lost = || self.stub_lost.of(0).map_or(Ok(()), Err);
        let sync = || match self.stub.sync() {
            Ok(()) => lost(),
            Err(error) => {
                if self.layout().is_none() {
                    self.stub_lost.note(0, self.size.load(Ordering::Acquire), error.errno());
                }
                Err(error.errno())
            }
        };
        Ok(self.stub_unsynced.sync(sync).and_then(|()| lost())?)
    }

    /// Stores size and times in the stub, where they are missing there.
    pub fn settle(&self) -> Result<()> {
        self.settle_size()?;
        self.settle_deferred()?;
        self.settle_times()
    }

    /// Called after `settle_size`, which read the kernel's time.
    pub(super) fn settle_times(&self) -> Result<()> {
        let at = self.modified.load(Ordering::Relaxed);
        if at == 0 {
            return Ok(());
        }
        self.stub.touch(Time(at))?;
        self.stub_changed();
        // Cleared last: a concurrent sync must not take the time for settled.
        let _ = self.modified.compare_exchange(at, 0, Ordering::Relaxed, Ordering::Relaxed);
        Ok(())
    }

    /// Syncs the written objects of all mirrors in sync at the same time. A mirror that cannot is marked stale if
    /// another one could.
    pub(super) fn sync_objects(&self, view: &View) -> Result<()> {
        let mut pending = Vec::new();
        let mut others = Vec::new();
        let mut missed: Vec<Missed> = Vec::new();
        let mut names: BTreeMap<TargetId, usize> = BTreeMap::new();
        for mirror in view.in_sync() {
            for slot in view.of_mirror(mirror) {
                if slot.unnamed.load(Ordering::Acquire) {
                    names.insert(slot.target_id, mirror);
                }
                let needed = slot.unsynced.changes();
                match slot.unsynced.turn(needed) {
                    Turn::Durable => others.push((mirror, slot, needed, Ok(()))),
                    Turn::Other(number) => others.push((mirror, slot, needed, Err(number))),
                    Turn::Mine(mine) => pending.push((mirror, slot, mine, slot.submit_sync(&self.pool))),
                }
            }
        }
        let mut miss = |mirror, slot: &Slot, error| missed.push(Missed { mirror, target: slot.target_id, error });
        // This caller's syncs come first: two callers that each wait for the other would wait for ever.
        for (mirror, slot, mine, submitted) in pending {
            let synced = submitted.and_then(|pending| slot.synced(pending.wait()));
            mine.end(synced).unwrap_or_else(|error| miss(mirror, slot, error));
        }
        for (mirror, slot, needed, other) in others {
            let synced = match other {
                Ok(()) => self.pool.lost.of(slot.id.0).map_or(Ok(()), |errno| Err(TargetError::Io(errno))),
                Err(number) => slot.sync_after(&self.pool, number, needed),
            };
            synced.unwrap_or_else(|error| miss(mirror, slot, error));
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
        let synced = self.pool.sync_names(id);
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

impl Slot {
    /// Syncs the object on a worker; returns the error of an earlier failed sync that may have lost data.
    fn submit_sync(self: &Arc<Self>, pool: &Pool) -> Result<Pending<Option<Errno>>, TargetError> {
        let (lost, thing) = (pool.lost.clone(), self.id.0);
        self.submit(pool, move |h| match h.sync() {
            Ok(()) => Ok(lost.of(thing)),
            // The loss is recorded here, since the worker may return long after the caller gave up.
            Err(errno) => {
                lost.note(thing, h.len().unwrap_or(u64::MAX), errno);
                Err(errno)
            }
        })
    }

    fn synced(&self, result: Result<Option<Errno>, TargetError>) -> Result<(), TargetError> {
        result.and_then(|lost| lost.map_or(Ok(()), |errno| Err(TargetError::Io(errno))))
    }

    /// Waits for a sync of another caller, and syncs once more if that did not cover the needed changes.
    fn sync_after(self: &Arc<Self>, pool: &Pool, number: u64, needed: u64) -> Result<(), TargetError> {
        let mut other = number;
        loop {
            self.unsynced.wait(other)?;
            match self.unsynced.turn(needed) {
                Turn::Durable => return Ok(()),
                Turn::Other(number) => other = number,
                Turn::Mine(mine) => {
                    return mine.end(self.submit_sync(pool).and_then(|pending| self.synced(pending.wait())));
                }
            }
        }
    }
}
