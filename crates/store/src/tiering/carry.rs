//! Carrying out one move: the segment's bytes to targets of the other tier, by the mover. And slow copies: made, used,
//! given up.

use super::Tiering;
use super::ear::read_from;
use super::gives_way::GivesWay;
use super::thread::Begun;
use crate::file::File;
use crate::mover::Pace;
use crate::volume::TieringPolicy;
use crate::{Error, Result};
use policy::layout::{Layout, OPEN_END, Placement, Segment, TargetView};
use policy::machine::Machine;
use policy::tier::machine::{Action, Event};
use policy::tier::{Location, Move, Tier};
use policy::{FileId, TargetId};
use std::sync::Arc;

impl Tiering {
    /// Carries out what the machine asked for, under running readers and writers. Whether it was done.
    pub(super) fn carry(&self, begun: Begun) -> Result<bool> {
        let Begun { of, courtesy } = &begun;
        let gone = || Error::Busy("the file is gone".into());
        let location = super::thread::location(of);
        let file = self.files.find(FileId(location.file)).ok_or_else(gone)?;
        let layout = file.layout().ok_or_else(gone)?;
        let (mirror, segments) = read_from(&layout).ok_or_else(gone)?;
        let segment = segments.get(location.block as usize).filter(|segment| segment.end != OPEN_END);
        let segment = segment.ok_or_else(gone)?;
        let pace = courtesy.map(|(manners, step_bytes)| GivesWay {
            ear: &self.ear,
            mover: &self.mover,
            manners: manners.into(),
            step_bytes,
        });
        let pace = pace.as_ref().map(|pace| pace as &dyn Pace);
        match of {
            Action::Move(of) => self.carry_move(of, &file, &layout, (mirror, segment), pace),
            Action::Copy(location) => self.carry_copy(*location, &file, &layout, segment, pace),
        }
    }

    /// Moves a location. Whether it lies there now.
    fn carry_move(
        &self,
        of: &Move,
        file: &Arc<File>,
        layout: &Layout,
        (mirror, segment): (usize, &Segment),
        pace: Option<&dyn Pace>,
    ) -> Result<bool> {
        if of.to == Tier::Slow && self.returned(of, file, layout) {
            return Ok(true);
        }
        let number = of.location.block as usize;
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
        let keeps = of.to == Tier::Fast && self.keeps_copies() && layout.mirrors.len() == 1;
        let moved = self.between(segment, &there, |place| {
            let place = Placement { tier: Some(tier), ..place(file) };
            if keeps {
                self.mover.move_segment_keeping(file, number, &place, pace)
            } else {
                self.mover.move_segment_at(file, (mirror, number), &place, pace)
            }
        })?;
        let arrived = self.ear.segments(&moved).any(|(location, tier, _)| location == of.location && tier == of.to);
        if arrived {
            self.stats.add(crate::stats::Metric::TieringMovedBytes, length);
        }
        Ok(arrived)
    }

    /// Makes a slow copy of a location that stays where it is. Whether it has one now.
    fn carry_copy(
        &self,
        at: Location,
        file: &Arc<File>,
        layout: &Layout,
        segment: &Segment,
        pace: Option<&dyn Pace>,
    ) -> Result<bool> {
        if layout.mirrors.len() > 1 {
            return Err(Error::Busy("it has several mirrors, and none needs another copy".into()));
        }
        if self.mover.has_copy(layout.file, segment) {
            return Ok(true);
        }
        let length = segment.end.min(file.size()).saturating_sub(segment.start);
        let views = self.ear.targets().views();
        let there: Vec<TargetId> = views
            .iter()
            .filter(|view| view.usable && view.tier == self.wish.tiering.slow && self.room_for_copies(view) > length)
            .map(|view| view.id)
            .collect();
        self.between(segment, &there, |place| {
            let place = Placement { tier: Some(self.wish.tiering.slow), ..place(file) };
            self.mover.copy_segment_below(file, at.block as usize, &place, pace)
        })?;
        self.stats.add(crate::stats::Metric::TieringCopiedBytes, length);
        Ok(true)
    }

    /// Runs `work`, a move or copy between the targets of a segment and some others, which count as busy with our own
    /// work while it runs. `work` gets the placement of the segment on the others.
    fn between<T>(
        &self,
        segment: &Segment,
        others: &[TargetId],
        work: impl FnOnce(&dyn Fn(&File) -> Placement) -> Result<T>,
    ) -> Result<T> {
        if others.is_empty() {
            return Err(Error::NoTarget);
        }
        let place = |file: &File| Placement {
            stripe_size: segment.stripe_size,
            stripe_count: segment.objects.len().clamp(1, others.len()),
            ..file.pool().placement.clone()
        };
        let from = segment.objects.iter().map(|object| object.target);
        let ours: Vec<TargetId> = from.chain(others.iter().copied()).collect();
        self.ours.begin(&ours);
        let worked = work(&place);
        self.ours.end(&ours);
        worked
    }

    /// Bytes that copies may still take of a slow target.
    fn room_for_copies(&self, view: &TargetView) -> u64 {
        let total = self.ear.targets().get(view.id).map_or(0, |target| target.space().total_bytes);
        view.free_bytes.saturating_sub(super::percent(total, self.wish.tiering.copies_free_percent))
    }

    /// Tells the machine how much room there is for further copies.
    pub(super) fn tell_room_for_copies(&self, inner: &mut super::Inner, now: policy::Time) {
        let views = self.ear.targets().views();
        let slow = views.iter().filter(|view| view.usable && view.tier == self.wish.tiering.slow);
        // A copy takes its part of as many targets as the segment: the fullest decides, all but those that have no room
        // at all.
        let rooms: Vec<u64> = slow.map(|view| self.room_for_copies(view)).collect();
        // Space is looked at now and then; in between the machine counts what it has copied since.
        if rooms == inner.rooms {
            return;
        }
        let least = rooms.iter().filter(|room| **room > self.wish.segment_bytes).min().copied().unwrap_or(0);
        inner.rooms = rooms;
        if let Some(machine) = &mut inner.machine {
            let under_way = machine.copies().1 as u64 * self.wish.segment_bytes;
            machine.handle(now, Event::CopyBytes(least.saturating_sub(under_way)));
        }
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

    /// Whether what lies on the fast tier may have a slow copy.
    pub(super) fn keeps_copies(&self) -> bool {
        self.wish.tiering.keep_copies && self.wish.tiering.policy == TieringPolicy::Tuned
    }

    /// Removes copies of no use, and as many on slow targets that are short of space as they are short of. Tells the
    /// machine of what is gone.
    pub(super) fn tidy_copies(&self, inner: &mut super::Inner, now: policy::Time) {
        if self.mover.copies() > 0 {
            for target in self.ear.targets().all() {
                let space = target.space();
                let free_bytes = super::percent(space.total_bytes, self.wish.tiering.copies_free_percent);
                let short_bytes = free_bytes.saturating_sub(space.free_bytes);
                if short_bytes > 0 && target.tier() == self.wish.tiering.slow {
                    // What has gone since space was looked at last is not seen there yet.
                    let given_up = inner.given_up.entry(target.id()).or_default();
                    let so_far = if given_up.0 == space.free_bytes { given_up.1 } else { 0 };
                    let more = self.mover.forget_copies_on(target.id(), short_bytes.saturating_sub(so_far));
                    *given_up = (space.free_bytes, so_far + more);
                }
            }
        }
        if let Err(error) = self.mover.remove_stale_copies() {
            tracing::warn!("slow copies that are of no use any more stay until the next start: {error}");
        }
        let gone = self.mover.take_copies_gone();
        let Some(machine) = &mut inner.machine else { return };
        for of_file in gone.chunk_by(|(one, _), (other, _)| one == other) {
            let file = of_file[0].0;
            let layout = self.files.noted(file).and_then(|file| file.layout());
            let segments = layout.as_ref().and_then(|layout| Some(read_from(layout)?.1)).unwrap_or_default();
            for (_, start) in of_file {
                // It may have another one already.
                let bare = |s: &Segment| s.start == *start && !self.mover.has_copy(file, s);
                if let Some(block) = segments.iter().position(bare) {
                    machine.handle(now, Event::CopyGone { location: Location { file: file.0, block: block as u64 } });
                }
            }
        }
    }
}
