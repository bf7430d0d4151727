//! Overflow of full or read-only targets: bytes beyond the current end of the file go to other targets.
//!
//! ```text
//! before   [ a0 | b0 | c0 | a1 | b1 .. open ]            b is full, and the file ends here: ^ in b1
//! after    [ a0 | b0 | c0 | a1 | b1 ][ d0 | a0 | .. open ]
//! ```
//! Nothing is moved, so existing bytes stay on such a target. A full one still takes overwrites, a read-only one
//! doesn't.

use super::{File, Happened, NewObjects, Slot, targets_of_others};
use crate::{Error, Result};
use object::errno::is_space;
use object::target::TargetError;
use policy::TargetId;
use policy::layout::{Layout, Placement, Reason, Segment, plan_growth};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Smallest allocation of common file systems: below it a full target still takes the rest of its last block.
const BLOCK_BYTES: u64 = 4096;

/// The target that refused, and whether it is read-only; `None` for errors of another kind.
fn refusal(error: &Error) -> Option<(TargetId, bool)> {
    let Error::Target { target, error: TargetError::Io(errno) } = error else { return None };
    let read_only = *errno == Errno::ROFS;
    (read_only || is_space(*errno)).then_some((*target, read_only))
}

/// Whether the operation may be retried on other targets.
pub(super) fn is_refusal(error: &Error) -> bool {
    refusal(error).is_some()
}

/// Targets that refused during one operation, in order.
#[derive(Default)]
pub(super) struct Refused {
    pub targets: Vec<TargetId>,
    /// Whether a target refuses even the rest of its last block.
    to_the_byte: bool,
    /// Whether a target is read-only.
    read_only: bool,
}

impl Refused {
    /// Adds the target of an error. Returns false if the error is no refusal, or if all retries are used: one more than
    /// there are targets.
    pub fn add(&mut self, error: &Error) -> bool {
        let Some((target, read_only)) = refusal(error) else { return false };
        self.read_only |= read_only;
        if self.targets.contains(&target) {
            return !std::mem::replace(&mut self.to_the_byte, true);
        }
        self.to_the_byte |= read_only;
        self.targets.push(target);
        true
    }
}

impl File {
    /// Whether other targets may be used instead. A full tier doesn't open the other tiers: the component that keeps
    /// room on tiers handles that.
    pub(super) fn others_left(&self, place: &Placement, refused: &Refused) -> bool {
        let views = self.pool.targets.views();
        let in_tier = |tier: Option<u8>| views.iter().any(|v| v.usable && tier.is_none_or(|t| t == v.tier));
        let tier = place.tier.filter(|tier| in_tier(Some(*tier)));
        let left = |v: &&policy::layout::TargetView| {
            v.usable && tier.is_none_or(|t| t == v.tier) && !refused.targets.contains(&v.id)
        };
        views.iter().any(|v| left(&v))
    }

    /// Lays out the file from its end on other targets, after the refusal of a write up to `end`. Returns false if that
    /// doesn't help the write.
    pub(super) fn overflow(self: &Arc<Self>, end: u64, refused: &Refused) -> Result<bool> {
        let _alone = self.exclusive()?;
        let size = self.size();
        let view = self.view();
        let Some(old) = &view.layout else { return Ok(false) };
        if end <= size || self.check_unpinned().is_err() || old.is_merged() || view.has_partial() {
            return Ok(false);
        }
        let cut = if refused.to_the_byte { size } else { size.next_multiple_of(BLOCK_BYTES) };
        let takes_none = |s: &Segment| s.objects.iter().any(|o| refused.targets.contains(&o.target));
        let mut made = NewObjects::new(&self.pool);
        made.never_on(&refused.targets);
        let mut new = Layout::clone(old);
        for m in view.in_sync() {
            if !old.mirrors[m].segments.iter().any(|s| s.end > cut && takes_none(s)) {
                continue;
            }
            let avoid = targets_of_others(old, m);
            let segments = &mut new.mirrors[m].segments;
            segments.retain(|s| s.start < cut);
            segments.iter_mut().for_each(|s| s.end = s.end.min(cut));
            let mut at = cut;
            while at < end {
                let place = self.advised(at, self.placement());
                if !self.others_left(&place, refused) {
                    return Ok(false);
                }
                let shapes = plan_growth(&place, at, at.saturating_add(1), None);
                let added = self.pool.new_mirror(&mut made, &shapes, &place, &avoid)?;
                at = added.covered();
                new.mirrors[m].segments.extend(added.segments);
            }
        }
        if new == **old {
            return Ok(false);
        }
        let layout = self.replace_with(&view, new, Reason::Grown, &mut made)?;
        // Bytes of the old objects beyond the cut are not part of the file any more.
        self.tail_clean.store(cut == size, Ordering::Release);
        if !refused.read_only {
            let _ = self.cut_tail();
        }
        let gone = |slot: &&Arc<Slot>| layout.objects().all(|(_, o)| o.id != slot.id);
        if view.all().any(|slot| gone(&slot)) {
            self.stub.sync()?;
            view.all().filter(gone).for_each(|slot| slot.remove(&self.pool));
        }
        self.tell(Happened::LaidOut);
        Ok(true)
    }
}
