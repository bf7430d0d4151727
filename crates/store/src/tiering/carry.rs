//! Carrying out one move: the segment's bytes to targets of the other tier, by the mover.

use super::Tiering;
use super::ear::read_from;
use crate::{Error, Result};
use policy::layout::{OPEN_END, Placement};
use policy::tier::{Move, Tier};
use policy::{FileId, TargetId};

impl Tiering {
    /// Moves a location, under running readers and writers. Whether it lies there now.
    pub(super) fn carry(&self, of: &Move) -> Result<bool> {
        let gone = || Error::Busy("the file is gone, or has another name".into());
        let file = self.finder.file(FileId(of.location.file)).ok_or_else(gone)?;
        let layout = file.layout().ok_or_else(gone)?;
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
        let moved = self.mover.move_segment(&file, mirror, number, &place);
        self.ours.end(&ours);
        let moved = moved?;
        let arrived = self.ear.segments(&moved).any(|(location, tier, _)| location == of.location && tier == of.to);
        if arrived {
            self.stats.add(crate::stats::Metric::TieringMovedBytes, length);
        }
        Ok(arrived)
    }
}
