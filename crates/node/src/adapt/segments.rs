//! Moves of segments between the tiers while the file is in use, slow copies of them, and returns to these copies.

use super::Adapt;
use super::yields::Yields;
use crate::{Error, Result};
use engine::file::File;
use engine::mover::Pace;
use engine::stats::Metric;
use policy::TargetId;
use policy::layout::{Layout, OPEN_END, Placement, Segment};
use policy::tier::Tier;
use policy::volume::Change;
use std::sync::Arc;

/// A segment of the mirror that is read, and the subject of a change.
struct FoundSegment<'a> {
    file: &'a Arc<File>,
    layout: Arc<Layout>,
    mirror: usize,
    index: usize,
    segment: Segment,
}

impl FoundSegment<'_> {
    /// Number of the file's bytes in the segment.
    fn length(&self) -> u64 {
        self.segment.end.min(self.file.size()).saturating_sub(self.segment.start)
    }
}

impl Adapt {
    fn found<'a>(&self, file: &'a Arc<File>, index: u64) -> Result<FoundSegment<'a>> {
        let gone = || Error::Busy("the segment is gone".into());
        let layout = file.layout().ok_or_else(gone)?;
        let (mirror, segment) = self.segment(file, index).ok_or_else(gone)?;
        match segment.end == OPEN_END {
            true => Err(gone()),
            false => Ok(FoundSegment { file, layout, mirror, index: index as usize, segment }),
        }
    }

    fn pace<T>(&self, change: &Change, work: impl FnOnce(Option<&dyn Pace>) -> T) -> T {
        let pace = change.pace.map(|(yielding, step_bytes)| Yields {
            recorder: &self.recorder,
            mover: &self.mover,
            yielding: yielding.into(),
            step_bytes,
        });
        work(pace.as_ref().map(|pace| pace as &dyn Pace))
    }

    /// Moves a segment; returns the number of moved bytes.
    pub(super) fn move_segment(&self, change: &Change, file: &Arc<File>, index: u64, to: Tier) -> Result<u64> {
        let of = self.found(file, index)?;
        if to == Tier::Slow && self.returned(&of) {
            return Ok(0);
        }
        let tiering = &self.settings.tiering;
        let tier = if to == Tier::Fast { tiering.fast } else { tiering.slow };
        let mirrors = of.layout.mirrors.iter().enumerate().filter(|(at, _)| *at != of.mirror);
        let others: Vec<TargetId> =
            mirrors.flat_map(|(_, m)| m.segments.iter().flat_map(|s| &s.objects).map(|o| o.target)).collect();
        let length = of.length();
        let views = self.recorder.targets.views();
        let fits = |view: &&policy::layout::TargetView| {
            view.usable && view.tier == tier && !others.contains(&view.id) && view.free_bytes > length
        };
        let there: Vec<TargetId> = views.iter().filter(fits).map(|view| view.id).collect();
        let keeps = to == Tier::Fast && tiering.keeps_copies() && of.layout.mirrors.len() == 1;
        let moved = self.between(&of, tier, &there, |place| {
            self.pace(change, |pace| match keeps {
                true => self.mover.move_segment_keeping(file, of.index, place, pace),
                false => self.mover.move_segment_at(file, (of.mirror, of.index), place, pace),
            })
        })?;
        let arrived = super::record::read_from(&moved)
            .and_then(|(_, segments)| self.recorder.tier_of(segments.get(of.index)?))
            .is_some_and(|tier| tier == to);
        if !arrived {
            return Err(Error::NoTarget);
        }
        self.stats.add(Metric::TieringMovedBytes, length);
        Ok(length)
    }

    /// Makes a slow copy of a segment that stays in its place, if it has none.
    pub(super) fn copy_segment(&self, change: &Change, file: &Arc<File>, index: u64) -> Result<u64> {
        let of = self.found(file, index)?;
        if of.layout.mirrors.len() > 1 {
            return Err(Error::Busy("it has several mirrors, and none needs another copy".into()));
        }
        if self.mover.has_copy(of.layout.file, &of.segment) {
            return Ok(0);
        }
        let (slow, free_percent) = (self.settings.tiering.slow, self.settings.tiering.copies_free_percent);
        let length = of.length();
        let views = self.recorder.targets.views();
        let there: Vec<TargetId> = views
            .iter()
            .filter(|view| view.usable && view.tier == slow)
            .filter(|view| self.slow_target(view).room_bytes(free_percent) >= length)
            .map(|view| view.id)
            .collect();
        self.between(&of, slow, &there, |place| {
            self.pace(change, |pace| self.mover.copy_segment_below(file, of.index, place, pace))
        })?;
        match self.has_copy(file, index) {
            true => self.stats.add(Metric::TieringCopiedBytes, length),
            false => return Err(Error::Busy("it was written in between".into())),
        }
        Ok(length)
    }

    /// Whether a segment has an equal slow copy.
    pub(super) fn has_copy(&self, file: &File, index: u64) -> bool {
        let id = file.id();
        self.segment(file, index).zip(id).is_some_and(|((_, segment), id)| self.mover.has_copy(id, &segment))
    }

    /// Runs `work`, a move or copy between the targets of a segment and those of another tier, with a placement there.
    /// All these targets count as busy with our own work during the call.
    fn between<T>(
        &self,
        of: &FoundSegment<'_>,
        tier: u8,
        others: &[TargetId],
        work: impl FnOnce(&Placement) -> Result<T>,
    ) -> Result<T> {
        if others.is_empty() {
            return Err(Error::NoTarget);
        }
        let place = Placement {
            tier: Some(tier),
            stripe_size: of.segment.stripe_size,
            stripe_count: of.segment.objects.len().clamp(1, others.len()),
            ..of.file.pool().placement.clone()
        };
        let from = of.segment.objects.iter().map(|object| object.target);
        let ours: Vec<TargetId> = from.chain(others.iter().copied()).collect();
        self.tiers.ours.begin(&ours);
        let worked = work(&place);
        self.tiers.ours.end(&ours);
        worked
    }

    /// Returns the segment to its slow copy, if the copy is still equal; returns whether it did.
    fn returned(&self, of: &FoundSegment<'_>) -> bool {
        let file = of.layout.file;
        if of.mirror != 0 || !self.mover.has_copy(file, &of.segment) {
            return false;
        }
        match self.mover.return_segment(of.file, of.index) {
            Ok(_) => {
                self.stats.add(Metric::TieringReturned, 1);
                true
            }
            // The segment was just written, or its device failed: it is moved like any other.
            Err(error) => {
                tracing::debug!(%file, segment = of.index, "no way back to the copy: {error}");
                false
            }
        }
    }
}
