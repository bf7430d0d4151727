//! Carrying out one move: the segment's bytes to targets of the other tier, by the mover. And slow copies: made, used,
//! given up.

use super::Tiering;
use super::ear::read_from;
use super::thread::Begun;
use super::yields::Yields;
use crate::file::File;
use crate::mover::Pace;
use crate::target::Space;
use crate::{Error, Result};
use policy::layout::{Layout, OPEN_END, Placement, Segment, TargetView};
use policy::machine::Machine;
use policy::tier::machine::{Action, Event, Reorganizer};
use policy::tier::room::{self, SlowTarget};
use policy::tier::{Location, Move, Tier};
use policy::{FileId, TargetId};
use std::sync::Arc;

impl Tiering {
    /// Carries out what the machine asked for, under running readers and writers. Whether it was done.
    pub(super) fn carry(&self, begun: Begun) -> Result<bool> {
        let Begun { of, yielding } = &begun;
        let gone = || Error::Busy("the file is gone".into());
        let location = super::thread::location(of);
        let file = self.files.find(FileId(location.file)).ok_or_else(gone)?;
        let layout = file.layout().ok_or_else(gone)?;
        let (mirror, segments) = read_from(&layout).ok_or_else(gone)?;
        let segment = segments.get(location.segment as usize).filter(|segment| segment.end != OPEN_END);
        let segment = segment.ok_or_else(gone)?;
        let pace = yielding.map(|(yielding, step_bytes)| Yields {
            ear: &self.ear,
            mover: &self.mover,
            yielding: yielding.into(),
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
        let number = of.location.segment as usize;
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
        let keeps = of.to == Tier::Fast && self.wish.tiering.keeps_copies() && layout.mirrors.len() == 1;
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
            .filter(|view| view.usable && view.tier == self.wish.tiering.slow)
            .filter(|view| self.slow_target(view).room_bytes(self.wish.tiering.copies_free_percent) >= length)
            .map(|view| view.id)
            .collect();
        self.between(segment, &there, |place| {
            let place = Placement { tier: Some(self.wish.tiering.slow), ..place(file) };
            self.mover.copy_segment_below(file, at.segment as usize, &place, pace)
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

    fn slow_target(&self, view: &TargetView) -> SlowTarget {
        let total_bytes = self.ear.targets().get(view.id).map_or(0, |target| target.space().total_bytes);
        SlowTarget { total_bytes, free_bytes: view.free_bytes }
    }

    /// Tells the machine how much room there is for copies.
    pub(super) fn tell_room_for_copies(&self, inner: &mut super::Inner, now: policy::Time) {
        let views = self.ear.targets().views();
        let slow = views.iter().filter(|view| view.usable && view.tier == self.wish.tiering.slow);
        let slow: Vec<SlowTarget> = slow.map(|view| self.slow_target(view)).collect();
        // Space is looked at now and then; in between the machine counts what it has copied since.
        if slow == inner.slow {
            return;
        }
        let free_percent = self.wish.tiering.copies_free_percent;
        let room = room::room_bytes(slow.iter().copied(), free_percent, self.wish.segment_bytes);
        inner.slow = slow;
        if let Some(machine) = &mut inner.machine {
            machine.handle(now, Event::CopyBytes(room));
        }
    }

    /// Back to the slow copy that was kept, if it is still equal.
    fn returned(&self, of: &Move, file: &Arc<File>, layout: &Layout) -> bool {
        let number = of.location.segment as usize;
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

    /// Gives up copies with a part on a target until these parts have so many bytes. How many they have.
    fn give_up_copies(&self, machine: Option<&Reorganizer>, target: TargetId, short_bytes: u64) -> u64 {
        let segment = |at: Location| self.segment(at).map(|(_, segment)| segment);
        let bytes = |at: Location| segment(at).map_or(0, |of| self.mover.copy_bytes_on(FileId(at.file), &of, target));
        let (go, freed) = machine.map_or_else(Default::default, |machine| machine.give_up_copies(short_bytes, bytes));
        for at in go {
            if let Some(of) = segment(at) {
                self.mover.forget_copy(FileId(at.file), of.start);
            }
        }
        // What is left there is of files that the machine has lost sight of: nothing goes back to it.
        if freed < short_bytes { freed + self.mover.forget_copies_on(target) } else { freed }
    }

    /// Removes copies of no use, and as many on slow targets that are short of space as they are short of. Tells the
    /// machine of what is gone.
    pub(super) fn tidy_copies(&self, inner: &mut super::Inner, now: policy::Time) {
        if self.mover.copies() > 0 {
            for target in self.ear.targets().all() {
                let Space { total_bytes, free_bytes, .. } = target.space();
                let short_bytes =
                    SlowTarget { total_bytes, free_bytes }.short_bytes(self.wish.tiering.copies_free_percent);
                if short_bytes > 0 && target.tier() == self.wish.tiering.slow {
                    // What has gone since space was looked at last is not seen there yet.
                    let given_up = inner.given_up.entry(target.id()).or_default();
                    let so_far = if given_up.0 == free_bytes { given_up.1 } else { 0 };
                    let more =
                        self.give_up_copies(inner.machine.as_ref(), target.id(), short_bytes.saturating_sub(so_far));
                    *given_up = (free_bytes, so_far + more);
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
                    machine.handle(now, Event::CopyGone { location: Location { file: file.0, segment: block as u64 } });
                }
            }
        }
    }
}
