//! Mirrors of checkpoints' files: one on the capacity tier and one in the replica group, each copied at its own rate.
//! Afterwards the buffer's mirror is dropped.
//!
//! A failed change has no effect on the application: the buffer's mirror stays until another one is in sync.

use super::open::OpenCheckpoint;
use super::rate_limiter::RateLimiter;
use super::{Adapt, Burst};
use crate::{Error, Result};
use engine::file::File;
use object::target::Targets;
use policy::layout::{Layout, Mirror, MirrorState, Placement};
use policy::volume::{Change, Purpose, Verb};
use std::sync::Arc;

/// Whether all of a mirror lies on one tier.
fn is_on(targets: &Targets, mirror: &Mirror, tier: u8) -> bool {
    tiers(targets, mirror).all(|of| of == Some(tier))
}

fn tiers<'a>(targets: &'a Targets, mirror: &'a Mirror) -> impl Iterator<Item = Option<u8>> + 'a {
    let objects = mirror.segments.iter().flat_map(|segment| &segment.objects);
    objects.map(|object| targets.get(object.target).map(|target| target.tier()))
}

impl Burst {
    /// Purposes of the mirrors of a checkpoint's file.
    pub(in crate::adapt) fn purposes(&self, layout: &Layout) -> Vec<Purpose> {
        let targets = self.volume.targets();
        let mut is_demoted = false;
        let purpose = |mirror: &Mirror| {
            let purpose = match () {
                () if is_on(targets, mirror, self.settings.capacity) && !is_demoted => Purpose::Demoted,
                () if self.settings.replicas.is_some_and(|tier| is_on(targets, mirror, tier)) => Purpose::Group,
                () if tiers(targets, mirror).any(|tier| tier == Some(self.fast)) => Purpose::Data,
                () => Purpose::Fork,
            };
            is_demoted |= mirror.state == MirrorState::InSync && purpose == Purpose::Demoted;
            purpose
        };
        layout.mirrors.iter().map(purpose).collect()
    }

    /// Message about a failed change, with its consequence.
    pub(in crate::adapt) fn failed(&self, verb: &Verb, error: &Error) -> String {
        match verb {
            Verb::DropMirror { .. } => {
                format!("a copy in the burst buffer could not be deleted and takes room: {error}")
            }
            Verb::AddMirror { purpose: Purpose::Group, .. } => {
                format!("a checkpoint has no replica, which is tried again: {error}")
            }
            _ => format!("a checkpoint stays in the burst buffer, its demotion is tried again: {error}"),
        }
    }

    /// Makes a change; returns the size of the file.
    pub(in crate::adapt) fn make(&self, adapt: &Adapt, change: &Change, file: &Arc<File>) -> Result<u64> {
        match change.verb {
            Verb::AddMirror { purpose: Purpose::Group, .. } => {
                self.add_mirror(adapt, file, self.settings.replicas, &self.replica_limiter)
            }
            Verb::AddMirror { .. } => self.add_mirror(adapt, file, Some(self.settings.capacity), &self.limiter),
            Verb::DropMirror(mirror) => {
                // Another change may have replaced the layout since the machine received it.
                let is_buffers = |of: &Mirror| tiers(&file.pool().targets, of).any(|tier| tier == Some(self.fast));
                match file.layout().and_then(|layout| layout.mirrors.get(mirror).map(is_buffers)) {
                    Some(true) => adapt.mover.drop_mirror(file, mirror).map(drop),
                    _ => Err(Error::Busy("its mirrors changed".into())),
                }
            }
            _ => Err(Error::Busy("not a change of the burst buffer".into())),
        }?;
        Ok(file.size())
    }

    /// Adds a mirror to a file, entirely on one tier.
    fn add_mirror(&self, adapt: &Adapt, file: &Arc<File>, tier: Option<u8>, limiter: &RateLimiter) -> Result<()> {
        let tier = tier.filter(|tier| file.pool().targets.views().iter().any(|view| view.usable && view.tier == *tier));
        let Some(tier) = tier else { return Err(Error::NoTarget) };
        let place = Placement { tier: Some(tier), mirrors: 1, ..file.pool().placement.clone() };
        let layout = adapt.mover.add_mirror_at(file, &place, Some(limiter))?;
        let newest = layout.mirrors.len() - 1;
        if layout.mirrors.get(newest).is_some_and(|mirror| !is_on(&file.pool().targets, mirror, tier)) {
            // Targets of the tier became unavailable and others were used: the copy is useless.
            adapt.mover.drop_mirror(file, newest)?;
            return Err(Error::NoTarget);
        }
        Ok(())
    }

    /// Moves an empty file that lies elsewhere to the fast tier.
    pub(super) fn bring(&self, adapt: &Adapt, checkpoint: &OpenCheckpoint, request: u64) -> Result<()> {
        let direct = self.admission(|admission| admission.request(request).is_some_and(|of| of.direct));
        let Some(layout) = checkpoint.file.layout() else { return Ok(()) };
        let targets = &checkpoint.file.pool().targets;
        let on = |tier| layout.mirrors.iter().any(|mirror| is_on(targets, mirror, tier));
        if direct || !on(self.settings.capacity) {
            return Ok(());
        }
        if !on(self.fast) {
            if checkpoint.file.size() > 0 {
                return Ok(());
            }
            let place = Placement { tier: Some(self.fast), mirrors: 1, ..checkpoint.file.pool().placement.clone() };
            adapt.mover.add_mirror(&checkpoint.file, &place)?;
        }
        let away = || {
            let layout = checkpoint.file.layout()?;
            layout.mirrors.iter().position(|mirror| !is_on(targets, mirror, self.fast))
        };
        while let Some(at) = away() {
            adapt.mover.drop_mirror(&checkpoint.file, at)?;
        }
        Ok(())
    }
}
