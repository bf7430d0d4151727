//! New objects for an emptied file that lost some: none of the old bytes are needed any more.

use super::{File, NewObjects, targets_of};
use crate::{Error, Result};
use object::target::State;
use policy::TargetId;
use policy::layout::{Layout, Mirror, MirrorState, OPEN_END, ObjectState, Placement, Reason, SegmentShape};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Whether an object cannot be written now: its target has failed, it is being recovered, or its mirror is stale.
    pub(super) fn is_hurt(&self) -> bool {
        let Some(layout) = self.layout() else { return false };
        let works = |id: TargetId| self.pool.targets.get(id).is_some_and(|t| t.state() != State::Failed);
        layout.mirrors.iter().any(|m| m.state == MirrorState::Stale)
            || layout.objects().any(|(_, o)| o.state == ObjectState::Partial || !works(o.target))
    }

    /// Gives an emptied file new objects before its first write, if one is under recovery: the recovery would overwrite
    /// the new bytes. The caller holds no lock.
    pub(super) fn rebuild_emptied(self: &Arc<Self>) -> Result<()> {
        let _alone = self.exclusive()?;
        self.rebuild_partial()
    }

    /// As [`File::rebuild_emptied`]; the caller holds `io` exclusively.
    pub(super) fn rebuild_partial(self: &Arc<Self>) -> Result<()> {
        let needed = self.size() == 0 && self.view().has_partial();
        if needed { self.rebuild_empty(None).map(drop) } else { Ok(()) }
    }

    /// Gives an empty file new objects of the shape that it had at its start, on targets that work. The caller holds
    /// `io` exclusively and the size is 0. The old objects are removed once the new record is durable.
    pub(super) fn rebuild_empty(self: &Arc<Self>, hurt: Option<TargetId>) -> Result<Arc<Layout>> {
        self.check_unpinned()?;
        let view = self.view();
        let Some(old) = &view.layout else { return Err(Error::Busy("the file has no layout".into())) };
        let mut made = NewObjects::new(&self.pool);
        let mut mirrors: Vec<Mirror> = Vec::new();
        for mirror in &old.mirrors {
            let first = &mirror.segments[0];
            let end = if mirror.segments.len() == 1 { OPEN_END } else { first.end };
            let shape = SegmentShape { start: 0, end, stripe_count: first.objects.len() };
            let place = Placement { stripe_size: first.stripe_size, ..self.placement() };
            let avoid: Vec<TargetId> = mirrors.iter().flat_map(targets_of).collect();
            mirrors.push(self.pool.new_mirror(&mut made, &[shape], &place, &avoid)?);
        }
        let new = Layout { mirrors, ..Layout::clone(old) };
        let gone = hurt.unwrap_or(old.mirrors[0].segments[0].objects[0].target);
        let layout = self.replace_with(&view, new, Reason::FailedOver(gone), &mut made)?;
        self.stub.sync()?;
        self.tail_clean.store(true, Ordering::Release);
        for slot in view.all() {
            slot.remove(&self.pool);
        }
        Ok(layout)
    }
}
