//! Carrying out changes of checkpoints' files: a mirror on the capacity tier or in the replica group, each at its own
//! speed; the buffer's mirror goes.
//!
//! A change that fails changes nothing for the application: the buffer's mirror is the file's until another is in sync.

use super::Burst;
use super::rate_limiter::RateLimiter;
use super::record::Part;
use crate::daemon::Core;
use crate::file::File;
use crate::recovery::Checker;
use crate::target::Targets;
use crate::{Error, Result};
use policy::layout::{Mirror, MirrorState, Placement};
use policy::stripe::forks::Shape;
use policy::volume::{self, Change, Event, FileEvent, Lies, Outcome, Purpose, Verb};
use policy::{FileId, Time};
use std::sync::Arc;
use std::time::Instant;

/// Whether all of a mirror lies on one tier.
pub fn is_on(targets: &Targets, mirror: &Mirror, tier: u8) -> bool {
    tiers(targets, mirror).all(|of| of == Some(tier))
}

fn tiers<'a>(targets: &'a Targets, mirror: &'a Mirror) -> impl Iterator<Item = Option<u8>> + 'a {
    let objects = mirror.segments.iter().flat_map(|segment| &segment.objects);
    objects.map(|object| targets.get(object.target).map(|target| target.tier()))
}

/// The file of a part, if it is still there: by its number or, where its bytes were in its stub and are still, by its name.
pub fn file_of(checker: &Checker, part: &Part) -> Option<Arc<File>> {
    match part.file {
        0 => checker.file_at(&part.path).filter(|file| file.id().is_none()),
        number => checker.files.find(FileId(number)),
    }
}

impl Burst {
    /// How a file of a checkpoint lies; `None` while its bytes are in its stub.
    pub(super) fn lies(&self, file: &File) -> Option<Event> {
        let layout = file.layout()?;
        let (targets, bytes) = (&file.pool().targets, file.size());
        let mut is_demoted = false;
        let mirrors = layout.mirrors.iter().map(|mirror| {
            let intact = mirror.state == MirrorState::InSync;
            let purpose = match () {
                () if is_on(targets, mirror, self.settings.capacity) && !is_demoted => Purpose::Demoted,
                () if self.settings.replicas.is_some_and(|tier| is_on(targets, mirror, tier)) => Purpose::Group,
                () if tiers(targets, mirror).any(|tier| tier == Some(self.fast)) => Purpose::Data,
                () => Purpose::Fork,
            };
            is_demoted |= intact && purpose == Purpose::Demoted;
            volume::Mirror { purpose, shape: Shape::of(mirror, bytes), intact }
        });
        let lies = Lies { bytes, mirrors: mirrors.collect(), ..Lies::default() };
        Some(Event::File(layout.file, FileEvent::LaidOut(lies)))
    }

    /// Makes a change, and tells how the file lies now and what became of the change.
    pub(super) fn carry(&self, change: &Change) {
        let Some(core) = self.core() else { return };
        let (began, file) = (Instant::now(), core.files.find(change.file));
        let result = match file.as_ref().map(|file| self.make(&core, change, file)) {
            Some(Ok(())) => {
                let bytes = file.as_ref().map_or(0, |file| file.size());
                Outcome::Made { bytes, took: Time(began.elapsed().as_nanos() as u64) }
            }
            Some(Err(Error::Busy(_))) => Outcome::Busy,
            Some(Err(error)) => {
                self.news(match change.verb {
                    Verb::DropMirror { .. } => {
                        format!("a copy in the burst buffer could not be deleted and takes room: {error}")
                    }
                    Verb::AddMirror { purpose: Purpose::Group, .. } => {
                        format!("a checkpoint has no replica, which is tried again: {error}")
                    }
                    _ => format!("a checkpoint stays in the burst buffer, its demotion is tried again: {error}"),
                });
                Outcome::Failed
            }
            None => Outcome::Failed,
        };
        let lies = match &file {
            Some(file) => self.lies(file),
            None => Some(Event::File(change.file, FileEvent::Removed)),
        };
        self.tell_all(lies.into_iter().chain([Event::Done { ticket: change.ticket, result }]));
    }

    fn make(&self, core: &Core, change: &Change, file: &Arc<File>) -> Result<()> {
        match change.verb {
            Verb::AddMirror { purpose: Purpose::Group, .. } => {
                self.add_mirror(core, file, self.settings.replicas, &self.replica_limiter)
            }
            Verb::AddMirror { .. } => self.add_mirror(core, file, Some(self.settings.capacity), &self.limiter),
            Verb::DropMirror { mirror } => {
                // Others may have changed the layout since the machine heard of it.
                let is_buffers = |of: &Mirror| tiers(&core.pool.targets, of).any(|tier| tier == Some(self.fast));
                match file.layout().and_then(|layout| layout.mirrors.get(mirror).map(is_buffers)) {
                    Some(true) => core.mover.drop_mirror(file, mirror).map(drop),
                    _ => Err(Error::Busy("its mirrors changed".into())),
                }
            }
            _ => Err(Error::Busy("nothing that the burst buffer does".into())),
        }
    }

    /// Gives a file one more mirror, which lies on a tier.
    fn add_mirror(&self, core: &Core, file: &Arc<File>, tier: Option<u8>, limiter: &RateLimiter) -> Result<()> {
        let tier = tier.filter(|tier| core.pool.targets.views().iter().any(|view| view.usable && view.tier == *tier));
        let Some(tier) = tier else { return Err(Error::NoTarget) };
        let place = Placement { tier: Some(tier), mirrors: 1, ..core.volume.placement() };
        let layout = core.mover.add_mirror_at(file, &place, Some(limiter))?;
        let newest = layout.mirrors.len() - 1;
        if layout.mirrors.get(newest).is_some_and(|mirror| !is_on(&core.pool.targets, mirror, tier)) {
            // Its targets went away meanwhile, and others were taken: of no use.
            core.mover.drop_mirror(file, newest)?;
            return Err(Error::NoTarget);
        }
        Ok(())
    }
}
