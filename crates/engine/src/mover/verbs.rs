//! The verbs: functions from a file's layout to its next.

use super::transform::MoveOptions;
use super::{Mover, Pace};
use crate::file::{File, NewObjects, targets_of, targets_of_others};
use crate::{Error, Result};
use policy::TargetId;
use policy::layout::{Layout, Mirror, MirrorState, OPEN_END, Placement, Reason, Segment, SegmentShape, plan_growth};
use std::sync::Arc;

impl Mover {
    /// Adds a mirror, on other targets than the file's where there are enough.
    pub fn add_mirror(&self, file: &Arc<File>, place: &Placement) -> Result<Arc<Layout>> {
        self.add_mirror_at(file, place, None)
    }

    /// `add_mirror` with a rate limiter of its own.
    pub fn add_mirror_at(&self, file: &Arc<File>, place: &Placement, pace: Option<&dyn Pace>) -> Result<Arc<Layout>> {
        let how = MoveOptions { pace, ..MoveOptions::plainly("add mirror", Reason::MirrorAdded) };
        self.transform_as(file, how, |old, made| {
            let mut new = old.clone();
            let avoid: Vec<TargetId> = old.mirrors.iter().flat_map(targets_of).collect();
            new.mirrors.push(self.striped(file, old, place, made, &avoid)?);
            Ok(new)
        })
    }

    /// Adds a fork: a mirror striped by `place` over all requested targets. It may use targets of the file, since it
    /// serves reads and does not protect.
    pub fn add_fork(&self, file: &Arc<File>, place: &Placement) -> Result<Arc<Layout>> {
        self.transform(file, "add fork", Reason::MirrorAdded, |old, made| {
            let mut new = old.clone();
            new.mirrors.push(self.striped(file, old, place, made, &[])?);
            Ok(new)
        })
    }

    /// Replaces a mirror by one that is striped by `place`.
    pub fn restripe(&self, file: &Arc<File>, mirror: usize, place: &Placement) -> Result<Arc<Layout>> {
        self.transform(file, "restripe", Reason::Restriped, |old, made| {
            if old.mirrors.get(mirror).is_none_or(|m| m.state == MirrorState::Stale) {
                return Err(Error::Invalid(format!("the file has no mirror {mirror} in sync")));
            }
            let avoid = targets_of_others(old, mirror);
            // Other mirrors protect the file only if they share no target with it; forks over all targets always
            // share some.
            let targets = self.pool.targets.views().iter().filter(|view| view.usable).count();
            let apart = targets.saturating_sub(avoid.len()) >= place.stripe_count;
            let mut new = old.clone();
            new.mirrors[mirror] = self.striped(file, old, place, made, if apart { &avoid } else { &[] })?;
            Ok(new)
        })
    }

    /// A mirror that covers as many bytes as the others. A file with an open-ended segment is not cut into more: tiers
    /// would have a claim on it then.
    pub(super) fn striped(
        &self,
        file: &File,
        old: &Layout,
        place: &Placement,
        made: &mut NewObjects<'_>,
        avoid: &[TargetId],
    ) -> Result<Mirror> {
        let size = file.size();
        let is_open = old.mirrors.iter().flat_map(|mirror| &mirror.segments).any(|segment| segment.end == OPEN_END);
        let segment_bytes = if is_open { 0 } else { place.segment_bytes };
        let place = &Placement { segment_bytes, ..*place };
        let mut shapes = plan_growth(place, 0, size.max(1), Some(size.max(1)));
        if let Some(last) = shapes.last_mut() {
            last.end = last.end.max(covered(old));
        }
        self.pool.new_mirror(made, &shapes, place, avoid)
    }

    /// Removes a mirror; refuses the last one in sync.
    pub fn drop_mirror(&self, file: &Arc<File>, mirror: usize) -> Result<Arc<Layout>> {
        self.transform(file, "drop mirror", Reason::MirrorDropped, |old, _| {
            let Some(gone) = old.mirrors.get(mirror) else {
                return Err(Error::Invalid(format!("the file has no mirror {mirror}")));
            };
            let view = file.view();
            let stays = view.in_sync().any(|m| m != mirror && file.is_whole(&view, m));
            if gone.state == MirrorState::InSync && !stays {
                return Err(Error::Invalid(format!(
                    "mirror {mirror} is the last one that is in sync and whole, without it bytes would be lost; \
                     resync or add another first"
                )));
            }
            let mut new = old.clone();
            new.mirrors.remove(mirror);
            Ok(new)
        })
    }

    /// Moves every object of the file from a target to others. Stale mirrors with a part there are rebuilt.
    pub fn replace_target(&self, file: &Arc<File>, target: TargetId, reason: Reason) -> Result<Arc<Layout>> {
        self.transform(file, "replace target", reason, |old, made| {
            made.never_on(&[target]);
            let mut new = old.clone();
            let tier = self.pool.targets.get(target).map(|t| t.tier());
            for m in 0..old.mirrors.len() {
                if targets_of(&old.mirrors[m]).all(|t| t != target) {
                    continue;
                }
                if old.mirrors[m].state == MirrorState::Stale {
                    new.mirrors[m] = self.renewed(&new, m, made)?;
                    continue;
                }
                for (at, _) in old.objects().filter(|(at, object)| at.mirror == m && object.target == target) {
                    let object = self.elsewhere(&new, (m, at.segment), tier, made)?;
                    new.mirrors[m].segments[at.segment].objects[at.index] = object;
                }
            }
            Ok(new)
        })
    }

    /// Moves a segment to other objects, optionally with another stripe size and count, and a rate limiter.
    pub fn move_segment_at(
        &self,
        file: &Arc<File>,
        which: (usize, usize),
        place: &Placement,
        pace: Option<&dyn Pace>,
    ) -> Result<Arc<Layout>> {
        let plan = |old: &Layout, made: &mut NewObjects<'_>| moved_segment(old, made, which, place);
        self.transform_as(file, MoveOptions { pace, ..MoveOptions::plainly("move segment", Reason::Moved) }, plan)
    }

    /// Rebuilds all stale mirrors from one in sync.
    pub fn resync(&self, file: &Arc<File>) -> Result<Arc<Layout>> {
        self.transform(file, "resync", Reason::Resynced, |old, made| {
            let mut new = old.clone();
            for m in 0..old.mirrors.len() {
                if old.mirrors[m].state == MirrorState::Stale {
                    new.mirrors[m] = self.renewed(&new, m, made)?;
                }
            }
            Ok(new)
        })
    }

    /// A mirror of the shape of a stale one, made of new objects.
    fn renewed(&self, layout: &Layout, mirror: usize, made: &mut NewObjects<'_>) -> Result<Mirror> {
        let avoid = targets_of_others(layout, mirror);
        let mut segments: Vec<Segment> = Vec::new();
        // The mirror must reach as far as the others: a missing range would later count as never written.
        let reach = covered(layout);
        let count = layout.mirrors[mirror].segments.len();
        for (s, old) in layout.mirrors[mirror].segments.iter().enumerate() {
            let end = if s + 1 == count { old.end.max(reach) } else { old.end };
            let shape = SegmentShape { start: old.start, end, stripe_count: old.objects.len() };
            let tier = self.pool.targets.tier_of(old);
            let place = Placement { stripe_size: old.stripe_size, tier, ..self.pool.placement.clone() };
            segments.push(made.segment(&shape, &place, &avoid)?);
        }
        Ok(Mirror { state: MirrorState::InSync, segments })
    }

    /// An object that replaces another: on a target without other objects of the segment and of the other mirrors, if
    /// there is one.
    pub(super) fn elsewhere(
        &self,
        layout: &Layout,
        (mirror, segment): (usize, usize),
        tier: Option<u8>,
        made: &mut NewObjects<'_>,
    ) -> Result<policy::layout::Object> {
        let elsewhere = targets_of_others(layout, mirror);
        let here = layout.mirrors[mirror].segments[segment].objects.iter().map(|o| o.target);
        let spread: Vec<TargetId> = elsewhere.iter().copied().chain(here).collect();
        let shape = SegmentShape { start: 0, end: 1, stripe_count: 1 };
        let place = Placement { tier, ..self.pool.placement.clone() };
        let usable = |avoid: &[TargetId]| {
            let views = self.pool.targets.views();
            views.iter().any(|v| v.usable && made.may_lie_on(v.id) && !avoid.contains(&v.id))
        };
        // Two stripes of one mirror on a target are better than two mirrors.
        let avoid = if usable(&spread) { &spread } else { &elsewhere };
        Ok(made.segment(&shape, &place, avoid)?.objects[0])
    }
}

/// The layout with a segment on other objects.
pub(super) fn moved_segment(
    old: &Layout,
    made: &mut NewObjects<'_>,
    (mirror, segment): (usize, usize),
    place: &Placement,
) -> Result<Layout> {
    let there = segment_in_sync(old, mirror, segment)?;
    let shape = SegmentShape { start: there.start, end: there.end, stripe_count: place.stripe_count };
    let mut new = old.clone();
    new.mirrors[mirror].segments[segment] = made.segment(&shape, place, &targets_of_others(old, mirror))?;
    Ok(new)
}

/// A segment of a mirror in sync.
pub(super) fn segment_in_sync(layout: &Layout, mirror: usize, segment: usize) -> Result<&Segment> {
    let there = layout.mirrors.get(mirror).filter(|m| m.state == MirrorState::InSync);
    there
        .and_then(|m| m.segments.get(segment))
        .ok_or_else(|| Error::Invalid(format!("the file has no segment {segment} in a mirror {mirror} in sync")))
}

/// Longest reach of the mirrors in sync.
fn covered(layout: &Layout) -> u64 {
    layout.mirrors.iter().filter(|m| m.state == MirrorState::InSync).map(Mirror::covered).max().unwrap_or(0)
}
