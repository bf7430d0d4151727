//! Changes of the layout record: stale marks by writers, everything else under exclusive access.

use super::write::Missed;
use super::{Event, File, NewObjects, View, target_error};
use crate::{Error, Result};
use object::target::{State, TargetError};
use parking_lot::MutexGuard;
use policy::Time;
use policy::layout::{Layout, MirrorState, Object, ObjectState, Reason};
use std::sync::Arc;

impl File {
    /// Replaces the layout by the result of `f` (repair, mover). Writers are excluded; readers see the old layout or
    /// the new. `f` is given the time for the history. Durable when it returns.
    ///
    /// # Errors
    /// `Busy` while the kernel does the file's I/O by itself or the file has no layout; errors of `f` and of the stub.
    pub fn change_layout(&self, f: impl FnOnce(&Layout, Time) -> Result<Layout>) -> Result<Arc<Layout>> {
        let new = self.change_layout_for_now(f)?;
        self.stub.sync()?;
        Ok(new)
    }

    /// As `change_layout`, but a loss of power may bring the old layout back: durable with the next change or sync.
    pub(crate) fn change_layout_for_now(&self, f: impl FnOnce(&Layout, Time) -> Result<Layout>) -> Result<Arc<Layout>> {
        let _alone = self.exclusive()?;
        self.check_unpinned()?;
        let record = self.record.lock();
        let view = self.view();
        let Some(old) = &view.layout else { return Err(Error::Busy("the file has no layout".into())) };
        let new = f(old, (self.pool.clock)())?;
        self.replace(&record, &view, new)
    }

    /// Publishes a layout in the stub and then to the readers. The caller holds `record` and `io`.
    pub(super) fn replace(&self, _: &MutexGuard<'_, ()>, old: &View, mut new: Layout) -> Result<Arc<Layout>> {
        self.check_not_removed()?;
        if let Some(old) = &old.layout {
            new.generation = new.generation.max(old.generation + 1);
        }
        new.check().map_err(Error::BadLayout)?;
        let set = self.publish(&mut new);
        self.stub_changed();
        set?;
        let view = Arc::new(View::new(Some(new), Some(old)));
        let layout = view.layout.clone().expect("it was just given one");
        *self.view.write() = view;
        self.forget_all();
        self.tell_objects();
        Ok(layout)
    }

    /// Publishes a layout with new objects, and keeps these. The caller holds `io` exclusively.
    pub(super) fn replace_with(
        &self,
        old: &View,
        mut new: Layout,
        reason: Reason,
        made: &mut NewObjects<'_>,
    ) -> Result<Arc<Layout>> {
        new.history.push((self.pool.clock)(), reason);
        let record = self.record.lock();
        let layout = self.replace(&record, old, new)?;
        made.keep(&self.view());
        Ok(layout)
    }

    /// Marks mirrors stale that missed a change. The caller holds `io` and acknowledges only afterwards.
    pub(super) fn mark_stale(&self, missed: &[Missed]) -> Result<()> {
        if self.holds().is_some() && !self.may_publish() {
            self.missed.lock().extend(missed.iter().cloned());
            return Err(Error::Busy("mirrors that missed a change become stale first".into()));
        }
        let record = self.record.lock();
        let view = self.view();
        let failed = || target_error(missed[0].target, missed[0].error.clone());
        // All mirrors of a first layout have all bytes when it is published.
        let Some(old) = &view.layout else { return Err(failed()) };
        // A mirror with lost objects may need one that missed the write: then the write fails.
        let others = view.in_sync().filter(|i| missed.iter().all(|m| m.mirror != *i));
        if !others.into_iter().any(|m| self.is_whole(&view, m)) {
            return Err(failed());
        }
        let mut new = Layout::clone(old);
        for m in missed.iter().filter(|m| old.mirrors[m.mirror].state == MirrorState::InSync) {
            new = new
                .set_mirror_state(m.mirror, MirrorState::Stale, (self.pool.clock)(), Reason::MirrorStale(m.target))
                .map_err(|_| target_error(m.target, m.error.clone()))?;
        }
        if new.generation != old.generation {
            self.replace(&record, &view, new)?;
            missed.iter().for_each(|_| self.note(Event::MirrorStale));
        }
        Ok(())
    }

    /// Whether an operation waits until mirrors are marked stale that it could not change.
    pub(super) fn has_missed(&self) -> bool {
        !self.missed.lock().is_empty()
    }

    /// Marks these mirrors stale. The caller holds no lock, and repeats its operation.
    pub(super) fn mark_missed(&self) -> Result<()> {
        let _alone = self.exclusive()?;
        let mut missed = std::mem::take(&mut *self.missed.lock());
        missed.retain(|m| self.layout().is_some_and(|layout| m.mirror < layout.mirrors.len()));
        if missed.is_empty() { Ok(()) } else { self.mark_stale(&missed) }
    }

    /// Keeps only the first whole mirror in sync, before the first write in mode `Stale`.
    pub(super) fn reduce_to_one(&self) -> Result<()> {
        let _alone = self.exclusive()?;
        if self.keep_one_mirror()? {
            return Ok(());
        }
        let view = self.view();
        let hurt = view.all().find_map(|s| s.run(&self.pool, |h| h.len()).err().map(|e| (s.target_id, e)));
        let (target, error) = hurt.unwrap_or((view.all().next().expect("a mirror").target_id, TargetError::Failed));
        Err(target_error(target, error))
    }

    /// Number of mirrors in sync and whole, by the states of their targets; 1 for a file with its bytes in the stub.
    pub fn whole_mirrors(&self) -> usize {
        let Some(layout) = self.layout() else { return 1 };
        let there = |o: &Object| {
            let works = self.pool.targets.get(o.target).is_some_and(|t| t.state() != State::Failed);
            works && o.state == ObjectState::Complete
        };
        let in_sync = layout.mirrors.iter().filter(|m| m.state == MirrorState::InSync);
        in_sync.filter(|m| m.segments.iter().flat_map(|s| &s.objects).all(there)).count()
    }

    /// Whether every object of a mirror responds.
    pub(crate) fn is_whole(&self, view: &View, mirror: usize) -> bool {
        view.of_mirror(mirror).all(|s| s.run(&self.pool, |h| h.len()).is_ok())
    }

    /// Marks all mirrors stale except the first whole one. If none is whole, changes nothing and returns false, since
    /// each mirror may have bytes that the others lost. The caller holds `io` exclusively.
    pub(super) fn keep_one_mirror(&self) -> Result<bool> {
        let record = self.record.lock();
        let view = self.view();
        let Some(old) = &view.layout else { return Ok(true) };
        let Some(keep) = view.in_sync().find(|&m| self.is_whole(&view, m)) else { return Ok(false) };
        let mut new = Layout::clone(old);
        for mirror in view.in_sync().filter(|&m| m != keep) {
            let target = old.mirrors[mirror].segments[0].objects[0].target;
            new = new
                .set_mirror_state(mirror, MirrorState::Stale, (self.pool.clock)(), Reason::MirrorStale(target))
                .map_err(Error::Invalid)?;
        }
        if new.generation != old.generation {
            self.replace(&record, &view, new)?;
            view.in_sync().filter(|&m| m != keep).for_each(|_| self.note(Event::MirrorStale));
        }
        Ok(true)
    }
}
