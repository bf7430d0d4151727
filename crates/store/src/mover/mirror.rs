//! Twins: a copy of a file that is striped as the file is, on other targets, so that any object can stand in for its own.
//!
//! A *swap* lets the twin of a lost object take its place in the file's mirror. It changes the record and copies nothing,
//! so it costs the same for every size; the lost object is then the copy's, to be made anew when there is time.

use super::Mover;
use crate::file::{File, targets_of};
use crate::target::State;
use crate::{Error, Result};
use policy::TargetId;
use policy::layout::{Layout, Mirror, MirrorState, ObjectState, Reason, choose_twins};
use std::sync::Arc;

impl Mover {
    /// Adds a copy striped as the first mirror is, all of it on targets that hold nothing of the file.
    ///
    /// # Errors
    /// `NoTarget` if there is no such target; `Busy` if the file is moved, recovered or used by the kernel alone.
    pub fn add_twin(&self, file: &Arc<File>) -> Result<Arc<Layout>> {
        self.transform(file, "add twin", Reason::MirrorAdded, |old, made| {
            let mut new = old.clone();
            let avoid: Vec<TargetId> = old.mirrors.iter().flat_map(targets_of).collect();
            let mut segments = Vec::new();
            for like in &old.mirrors[0].segments {
                let tier = self.pool.targets.tier_of(like);
                let (views, turn) = (self.pool.targets.views(), self.pool.next_turn());
                let targets = choose_twins(&views, tier, like.objects.len(), &avoid, turn);
                if targets.is_empty() {
                    return Err(Error::NoTarget);
                }
                segments.push(made.segment_on(like, &targets)?);
            }
            new.mirrors.push(Mirror { state: MirrorState::InSync, segments });
            Ok(new)
        })
    }

    /// Puts the twins of all objects that `failed` held into their places. How many; none if there is none to be had.
    pub fn swap_twins(&self, file: &Arc<File>, twin: usize, failed: TargetId) -> Result<usize> {
        let works = |id: TargetId| self.pool.targets.get(id).is_some_and(|t| t.state() != State::Failed);
        let mut swapped = 0;
        let changed = file.change_layout(|layout, now| {
            let mut new = layout.clone();
            let lost = layout.objects().filter(|(at, o)| at.mirror < twin && o.target == failed);
            for (at, _) in lost.collect::<Vec<_>>() {
                let stands_in = layout.object(policy::layout::Position { mirror: twin, ..at });
                let in_sync = layout.mirrors.get(twin).is_some_and(|m| m.state == MirrorState::InSync);
                if in_sync && stands_in.is_some_and(|o| o.state == ObjectState::Complete && works(o.target)) {
                    new = new
                        .swap_twins(at, twin, now, Reason::FailedOver(failed))
                        .map_err(|e| Error::Unrecoverable(e.to_string()))?;
                    swapped += 1;
                }
            }
            // One change of the record, whatever the number of objects.
            if swapped == 0 { Err(Error::Unrecoverable("it has no twin".into())) } else { Ok(new) }
        });
        match changed {
            Ok(_) => Ok(swapped),
            Err(Error::Unrecoverable(_)) if swapped == 0 => Ok(0),
            Err(e) => Err(e),
        }
    }
}
