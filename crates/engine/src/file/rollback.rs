//! Restoration of objects that a loss of power took before any sync: they are created again, empty.

use super::{File, Slot, View, target_error};
use crate::{Error, Result};
use object::target::TargetError;
use policy::layout::ObjectState;
use policy::{ObjectId, TargetId};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::Arc;

impl File {
    /// Creates missing `rolled_back` objects of a mirror again, empty; returns their number. With several mirrors, one
    /// that lacks no other objects is chosen. A file with a whole mirror or a source is left to repair from there.
    ///
    /// # Errors
    /// A target that may have the bytes doesn't respond or is failed: try again later.
    pub fn restore_rolled_back(self: &Arc<Self>, rolled_back: impl Fn(TargetId, ObjectId) -> bool) -> Result<usize> {
        let Some(layout) = self.layout() else { return Ok(0) };
        let concerned = layout.objects().any(|(_, o)| o.state == ObjectState::Complete && rolled_back(o.target, o.id));
        if !concerned || self.is_recoverable() {
            return Ok(0);
        }
        let _alone = self.exclusive()?;
        let view = self.view();
        let several = view.in_sync().count() > 1;
        let (mut least, mut unknown): (Option<Vec<Arc<Slot>>>, _) = (None, None);
        for mirror in view.in_sync() {
            let (missing, failed) = self.missing_of(&view, mirror)?;
            if missing.is_empty() && failed.is_none() {
                return Ok(0);
            }
            unknown = unknown.or(failed.filter(|_| several)); // its bytes would be worth more than empty objects
            let all_rolled_back = missing.iter().all(|slot| rolled_back(slot.target_id, slot.id));
            if (all_rolled_back || !several) && least.as_ref().is_none_or(|l| missing.len() < l.len()) {
                least = Some(missing);
            }
        }
        if let Some(target) = unknown {
            return Err(target_error(target, TargetError::Failed));
        }
        let mut missing = least.unwrap_or_default();
        missing.retain(|slot| rolled_back(slot.target_id, slot.id));
        let mut targets = BTreeSet::new();
        for slot in &missing {
            slot.make_empty(&self.pool).map_err(|error| target_error(slot.target_id, error))?;
            targets.insert(slot.target_id);
        }
        targets.into_iter().try_for_each(|id| self.pool.sync_names(id).map_err(|error| target_error(id, error)))?;
        if several && !missing.is_empty() && !self.keep_one_mirror()? {
            return Err(Error::Busy("no mirror is whole".into()));
        }
        Ok(missing.len())
    }

    /// Missing objects of a mirror, and a failed target of it, whose objects are unknown.
    fn missing_of(&self, view: &View, mirror: usize) -> Result<(Vec<Arc<Slot>>, Option<TargetId>)> {
        let (mut missing, mut unknown) = (Vec::new(), None);
        for slot in view.of_mirror(mirror) {
            match slot.run(&self.pool, |h| h.len()) {
                Ok(_) => {}
                Err(TargetError::Io(Errno::NOENT)) => missing.push(slot.clone()),
                Err(TargetError::Failed) => unknown = Some(slot.target_id),
                Err(error) => return Err(target_error(slot.target_id, error)),
            }
        }
        Ok((missing, unknown))
    }
}
