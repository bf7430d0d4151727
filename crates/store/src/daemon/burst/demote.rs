//! Demotion: a mirror on the capacity tier, at the valve's speed; then, when space is needed, the buffer's mirror goes.
//!
//! A demotion that fails changes nothing for the application: the buffer's mirror is the file's until another is in sync.

use super::Burst;
use super::record::{self, Part};
use super::valve::Valve;
use crate::daemon::Core;
use crate::file::File;
use crate::recovery::Checker;
use crate::{Error, Result};
use policy::FileId;
use policy::burst::buffer;
use policy::burst::tables::{Demotion, Version};
use policy::layout::{Mirror, MirrorState, Placement};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// From a failed demotion to the next attempt, at first and at most.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often a copy is tried to be deleted while the file is in use.
const DROPS_MAX: usize = 20;

/// Whether all of a mirror lies on one tier.
pub fn is_on(core: &Core, mirror: &Mirror, tier: u8) -> bool {
    on_tier(&core.pool.targets, mirror, tier)
}

fn on_tier(targets: &crate::target::Targets, mirror: &Mirror, tier: u8) -> bool {
    let mut objects = mirror.segments.iter().flat_map(|segment| &segment.objects);
    objects.all(|object| targets.get(object.target).is_some_and(|target| target.tier() == tier))
}

/// The file of a part, if it is still there: by its number or, where its bytes were in its stub and are still, by its name.
fn file_of(checker: &Checker, part: &Part) -> Option<Arc<File>> {
    match part.file {
        0 => checker.file_at(&part.path).filter(|file| file.id().is_none()),
        number => checker.files.find(FileId(number)),
    }
}

/// Whether a version has copies on the fast tier, and a complete one on the capacity tier; `None` if none of its files is there.
pub fn version_places(burst: &Burst, checker: &Checker, version: &record::Version) -> Option<(bool, bool)> {
    let (mut any, mut fast, mut capacity) = (false, false, true);
    for part in &version.parts {
        let Some(file) = file_of(checker, part) else {
            capacity = false;
            continue;
        };
        any = true;
        let Some(layout) = file.layout() else { continue };
        let targets = &file.pool().targets;
        let on = |tier| layout.mirrors.iter().any(|m| m.state == MirrorState::InSync && on_tier(targets, m, tier));
        capacity &= on(burst.settings.capacity);
        // What lies on neither tier alone counts as being in the buffer.
        fast |= on(burst.fast) || !on(burst.settings.capacity);
    }
    any.then_some((fast || !capacity, capacity))
}

impl Burst {
    /// The files of a version that are still there.
    fn files_of(&self, core: &Core, version: Version) -> Vec<Arc<File>> {
        let parts = self.book.lock().complete.get(&version).map(|v| v.parts.clone()).unwrap_or_default();
        parts.iter().filter_map(|part| file_of(&core.checker, part)).collect()
    }

    /// Copies a version to the capacity tier, and tells admission how it went.
    pub(super) fn demote(&self, demotion: Demotion) {
        let Some(core) = self.core() else { return };
        match self.copy_down(&core, &demotion) {
            Ok(()) => {
                self.counts.demoted.fetch_add(1, Ordering::Relaxed);
                self.counts.demoted_bytes.fetch_add(demotion.bytes, Ordering::Relaxed);
                self.tell_buffer(buffer::Event::Demoted);
            }
            Err(error) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                if !matches!(error, Error::Busy(_)) {
                    self.news(format!("a checkpoint stays in the burst buffer, its demotion is tried again: {error}"));
                }
                self.workers.rest(AGAIN_AFTER);
                self.tell_buffer(buffer::Event::DemotionFailed);
            }
        }
    }

    fn copy_down(&self, core: &Core, demotion: &Demotion) -> Result<()> {
        for file in self.files_of(core, demotion.version) {
            self.mirror_on(core, &file, self.settings.capacity)?;
            if demotion.delete {
                self.drop_fast(core, &file)?;
            }
        }
        Ok(())
    }

    /// Gives a file a mirror on a tier, if it has none there.
    fn mirror_on(&self, core: &Core, file: &Arc<File>, tier: u8) -> Result<()> {
        let has = |file: &File| {
            file.layout().is_none_or(|layout| {
                layout.mirrors.iter().any(|m| m.state == MirrorState::InSync && is_on(core, m, tier))
            })
        };
        if has(file) {
            return Ok(());
        }
        self.new_mirror_on(core, file, tier, &self.valve)?;
        if has(file) { Ok(()) } else { Err(Error::NoTarget) }
    }

    /// Gives a file one more mirror, which lies on a tier.
    fn new_mirror_on(&self, core: &Core, file: &Arc<File>, tier: u8, valve: &Valve) -> Result<()> {
        if !core.pool.targets.views().iter().any(|view| view.usable && view.tier == tier) {
            return Err(Error::NoTarget);
        }
        let place = Placement { tier: Some(tier), mirrors: 1, ..core.volume.placement() };
        let layout = core.mover.add_mirror_at(file, &place, Some(valve))?;
        let newest = layout.mirrors.len() - 1;
        if layout.mirrors.get(newest).is_some_and(|mirror| !is_on(core, mirror, tier)) {
            // Its targets went away meanwhile, and others were taken: of no use.
            core.mover.drop_mirror(file, newest)?;
            return Err(Error::NoTarget);
        }
        Ok(())
    }

    /// Deletes the buffer's mirrors of a file that has a mirror elsewhere.
    fn drop_fast(&self, core: &Core, file: &Arc<File>) -> Result<()> {
        loop {
            let Some(layout) = file.layout() else { return Ok(()) };
            let elsewhere =
                layout.mirrors.iter().any(|m| m.state == MirrorState::InSync && is_on(core, m, self.settings.capacity));
            let Some(at) =
                layout.mirrors.iter().position(|m| !is_on(core, m, self.settings.capacity) && self.is_ours(core, m))
            else {
                return Ok(());
            };
            if !elsewhere {
                return Err(Error::NoTarget);
            }
            core.mover.drop_mirror(file, at)?;
        }
    }

    /// Whether a mirror takes room in the buffer.
    fn is_ours(&self, core: &Core, mirror: &Mirror) -> bool {
        let mut objects = mirror.segments.iter().flat_map(|segment| &segment.objects);
        objects.any(|o| core.pool.targets.get(o.target).is_some_and(|target| target.tier() == self.fast))
    }

    /// Deletes the buffer's copy of a version that is on the capacity tier too. Whether it is gone.
    pub(super) fn drop_copy(&self, version: Version) -> bool {
        let Some(core) = self.core() else { return true };
        let mut all = true;
        for file in self.files_of(&core, version) {
            let mut dropped = self.drop_fast(&core, &file);
            for _ in 0..DROPS_MAX {
                if !matches!(dropped, Err(Error::Busy(_))) || self.stopped.load(Ordering::Acquire) {
                    break;
                }
                self.workers.rest(LOOK_EVERY);
                dropped = self.drop_fast(&core, &file);
            }
            if let Err(error) = dropped {
                self.news(format!("a copy in the burst buffer could not be deleted and takes room: {error}"));
                all = false;
            }
        }
        all
    }

    /// Copies a version to the replica group, and tells admission how it went.
    pub(super) fn replicate(&self, version: Version) {
        let (Some(core), Some(tier)) = (self.core(), self.settings.replicas) else { return };
        let copied = self.files_of(&core, version).iter().try_for_each(|file| {
            if has_replica(file, tier, self.settings.capacity) {
                return Ok(());
            }
            // On the capacity tier itself: on others of its targets.
            self.new_mirror_on(&core, file, tier, &self.replica_valve)?;
            if !has_replica(file, tier, self.settings.capacity) {
                return Err(Error::NoTarget);
            }
            self.counts.replicated.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        if let Err(error) = &copied
            && !matches!(error, Error::Busy(_))
        {
            self.news(format!("a checkpoint has no replica, which is tried again: {error}"));
        }
        self.tell_buffer(if copied.is_ok() { buffer::Event::Replicated } else { buffer::Event::ReplicaFailed });
    }
}

/// Whether a file has a copy in the replica group.
fn has_replica(file: &File, replicas: u8, capacity: u8) -> bool {
    let Some(layout) = file.layout() else { return true };
    let targets = &file.pool().targets;
    let there = layout.mirrors.iter().filter(|m| m.state == MirrorState::InSync && on_tier(targets, m, replicas));
    there.count() > usize::from(replicas == capacity)
}

/// Whether all files of a version that are still there have one.
pub fn has_replicas(burst: &Burst, checker: &Checker, version: &record::Version) -> bool {
    let Some(tier) = burst.settings.replicas else { return true };
    let mut files = version.parts.iter().filter_map(|part| file_of(checker, part));
    files.all(|file| has_replica(&file, tier, burst.settings.capacity))
}
