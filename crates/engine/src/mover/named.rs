//! The verbs with explicitly named targets.

use super::Mover;
use super::verbs::segment_in_sync;
use crate::file::{File, NewObjects};
use crate::{Error, Result};
use object::target::State;
use policy::TargetId;
use policy::layout::{Layout, MirrorState, Object, Reason};
use std::sync::Arc;

impl Mover {
    /// Moves every object of the file on `from` to `to`.
    pub fn replace_target_by(&self, file: &Arc<File>, from: TargetId, to: TargetId) -> Result<Arc<Layout>> {
        self.takes_objects(to)?;
        self.transform(file, "replace target", Reason::Moved, |old, made| {
            let mut new = old.clone();
            let mirrors = new.mirrors.iter_mut().filter(|m| m.state == MirrorState::InSync);
            for object in mirrors.flat_map(|m| &mut m.segments).flat_map(|s| &mut s.objects) {
                if object.target == from {
                    *object = self.object_on(to, made)?;
                }
            }
            Ok(new)
        })
    }

    /// Moves a segment to these targets, in stripe order; its stripe size stays.
    pub fn move_segment_to(
        &self,
        file: &Arc<File>,
        mirror: usize,
        segment: usize,
        to: &[TargetId],
    ) -> Result<Arc<Layout>> {
        if to.is_empty() {
            return Err(Error::Invalid("a segment needs at least one target".into()));
        }
        to.iter().try_for_each(|target| self.takes_objects(*target))?;
        self.transform(file, "move segment", Reason::Moved, |old, made| {
            let mut new = old.clone();
            new.mirrors[mirror].segments[segment] = made.segment_on(segment_in_sync(old, mirror, segment)?, to)?;
            Ok(new)
        })
    }

    fn takes_objects(&self, target: TargetId) -> Result<()> {
        match self.pool.targets.get(target) {
            Some(t) if t.state() == State::Ok => Ok(()),
            Some(t) => Err(Error::Invalid(format!("target {} is {} and takes no new objects", t.name(), t.state()))),
            None => Err(Error::Invalid(format!("there is no target {target}"))),
        }
    }

    fn object_on(&self, target: TargetId, made: &mut NewObjects<'_>) -> Result<Object> {
        let object = Object::whole(self.pool.next_object(), target);
        made.make_all(&[object]).map(|()| object)
    }
}
