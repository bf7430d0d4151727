//! Carrying out one move: the segment's bytes to targets of the other tier, by the mover.

use super::Tiering;
use super::ear::read_from;
use crate::file::File;
use crate::volume::TieringPolicy;
use crate::{Error, Result};
use policy::layout::{Layout, OPEN_END, Placement};
use policy::tier::{Move, Tier};
use policy::{FileId, TargetId};
use std::sync::Arc;

impl Tiering {
    /// Moves a location, under running readers and writers. Whether it lies there now.
    pub(super) fn carry(&self, of: &Move) -> Result<bool> {
        let gone = || Error::Busy("the file is gone, or has another name".into());
        let file = self.finder.file(FileId(of.location.file)).ok_or_else(gone)?;
        let layout = file.layout().ok_or_else(gone)?;
        if of.to == Tier::Slow && self.returned(of, &file, &layout) {
            return Ok(true);
        }
        let (mirror, segments) = read_from(&layout).ok_or_else(gone)?;
        let number = of.location.block as usize;
        let segment = segments.get(number).filter(|segment| segment.end != OPEN_END).ok_or_else(gone)?;
        let tier = match of.to {
            Tier::Fast => self.wish.tiering.fast,
            Tier::Slow => self.wish.tiering.slow,
        };
        let others: Vec<TargetId> = layout
            .mirrors
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != mirror)
            .flat_map(|(_, m)| m.segments.iter().flat_map(|s| &s.objects).map(|o| o.target))
            .collect();
        let length = segment.end.min(file.size()).saturating_sub(segment.start);
        let views = self.ear.targets().views();
        let fits = |view: &&policy::layout::TargetView| {
            view.usable && view.tier == tier && !others.contains(&view.id) && view.free_bytes > length
        };
        let there: Vec<TargetId> = views.iter().filter(fits).map(|view| view.id).collect();
        if there.is_empty() {
            return Err(Error::NoTarget);
        }
        let from: Vec<TargetId> = segment.objects.iter().map(|object| object.target).collect();
        let place = Placement {
            stripe_size: segment.stripe_size,
            stripe_count: segment.objects.len().clamp(1, there.len()),
            tier: Some(tier),
            ..file.pool().placement.clone()
        };
        let ours: Vec<TargetId> = from.into_iter().chain(there).collect();
        self.ours.begin(&ours);
        let keeps = of.to == Tier::Fast && self.keeps_copies() && layout.mirrors.len() == 1;
        let moved = if keeps {
            self.mover.move_segment_keeping(&file, number, &place)
        } else {
            self.mover.move_segment(&file, mirror, number, &place)
        };
        self.ours.end(&ours);
        let moved = moved?;
        let arrived = self.ear.segments(&moved).any(|(location, tier, _)| location == of.location && tier == of.to);
        if arrived {
            self.stats.add(crate::stats::Metric::TieringMovedBytes, length);
        }
        Ok(arrived)
    }

    /// Back to the slow copy that was kept, if it is still equal.
    fn returned(&self, of: &Move, file: &Arc<File>, layout: &Layout) -> bool {
        let number = of.location.block as usize;
        let segment = layout.mirrors.first().and_then(|mirror| mirror.segments.get(number));
        if !segment.is_some_and(|segment| self.mover.has_copy(layout.file, segment)) {
            return false;
        }
        match self.mover.return_segment(file, number) {
            Ok(_) => {
                self.stats.add(crate::stats::Metric::TieringReturned, 1);
                true
            }
            // It was written just now, or its device failed: then it is moved as any other.
            Err(error) => {
                tracing::debug!(file = of.location.file, segment = number, "no way back to the copy: {error}");
                false
            }
        }
    }

    /// Whether what is promoted leaves a copy behind.
    pub(super) fn keeps_copies(&self) -> bool {
        self.wish.tiering.keep_copies && self.wish.tiering.policy == TieringPolicy::Tuned
    }

    /// Removes copies of no use, and all those on slow targets that are short of space.
    pub(super) fn tidy_copies(&self) {
        if self.mover.copies() > 0 {
            for target in self.ear.targets().all() {
                let space = target.space();
                let short = space.free_bytes < super::percent(space.total_bytes, self.wish.tiering.copies_free_percent);
                if short && target.tier() == self.wish.tiering.slow {
                    self.mover.forget_copies_on(target.id());
                }
            }
        }
        if let Err(error) = self.mover.remove_stale_copies() {
            tracing::warn!("slow copies that are of no use any more stay until the next start: {error}");
        }
    }
}
