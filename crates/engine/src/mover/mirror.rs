//! Replicas: a mirror that is striped as the file is, on other targets, so that any object of it can replace its own.
//!
//! A *swap* puts the replica's object in the place of a lost one in the first mirror. It changes the record and
//! copies nothing, so it costs the same for every size. The lost object then belongs to the replica, and is rebuilt
//! when there is time.

use super::Mover;
use crate::file::{File, targets_of};
use crate::{Error, Result};
use object::target::State;
use policy::TargetId;
use policy::layout::{Layout, Mirror, MirrorState, ObjectState, Reason, choose_replica_targets};
use std::sync::Arc;

impl Mover {
    /// Adds a mirror striped like the first one, entirely on targets without objects of the file.
    ///
    /// # Errors
    /// `NoTarget` if there is no such target; `Busy` if the file is moved, recovered or used by the kernel alone.
    pub fn add_replica(&self, file: &Arc<File>) -> Result<Arc<Layout>> {
        self.transform(file, "add replica", Reason::MirrorAdded, |old, made| {
            let mut new = old.clone();
            let avoid: Vec<TargetId> = old.mirrors.iter().flat_map(targets_of).collect();
            let mut segments = Vec::new();
            for like in &old.mirrors[0].segments {
                let tier = self.pool.targets.tier_of(like);
                let (views, turn) = (self.pool.targets.views(), self.pool.next_turn(tier));
                let targets = choose_replica_targets(&views, tier, like.objects.len(), &avoid, turn);
                if targets.is_empty() {
                    return Err(Error::NoTarget);
                }
                segments.push(made.segment_on(like, &targets)?);
            }
            new.mirrors.push(Mirror { state: MirrorState::InSync, segments });
            Ok(new)
        })
    }

    /// Swaps all objects on `failed` for those of the mirror `replica`. Returns their number; 0 if the mirror has
    /// none, or if only stale mirrors have objects there.
    pub fn swap_replica(&self, file: &Arc<File>, replica: usize, failed: TargetId) -> Result<usize> {
        let works = |id: TargetId| self.pool.targets.get(id).is_some_and(|t| t.state() != State::Failed);
        let mut swapped = 0;
        let changed = file.change_layout(|layout, now| {
            let mut new = layout.clone();
            // An object of a stale mirror lacks writes: the replica, which is in sync, must not get it.
            let is_in_sync = |mirror: usize| layout.mirrors[mirror].state == MirrorState::InSync;
            let lost =
                layout.objects().filter(|(at, o)| at.mirror < replica && o.target == failed && is_in_sync(at.mirror));
            for (at, _) in lost.collect::<Vec<_>>() {
                let stands_in = layout.object(policy::layout::Position { mirror: replica, ..at });
                let in_sync = layout.mirrors.get(replica).is_some_and(|m| m.state == MirrorState::InSync);
                if in_sync && stands_in.is_some_and(|o| o.state == ObjectState::Complete && works(o.target)) {
                    new =
                        new.swap_objects(at, replica, now, Reason::FailedOver(failed)).map_err(Error::Unrecoverable)?;
                    swapped += 1;
                }
            }
            // One change of the record for any number of objects.
            if swapped == 0 { Err(Error::Unrecoverable("it has no replica".into())) } else { Ok(new) }
        });
        match changed {
            Ok(_) => Ok(swapped),
            Err(Error::Unrecoverable(_)) if swapped == 0 => Ok(0),
            Err(e) => Err(e),
        }
    }
}
