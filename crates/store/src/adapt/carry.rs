//! Carriers: threads that make the machine's changes, each through the mover, and answer what became of them.

use super::{Adapt, stripes};
use crate::file::File;
use crate::stats::Metric;
use crate::{Error, Result};
use policy::layout::Placement;
use policy::stripe::forks::Shape;
use policy::tier::machine::Event as Told;
use policy::tier::{Location, Tier};
use policy::volume::ownership::Mechanism;
use policy::volume::{Change, Event, Outcome, Verb};
use policy::{FileId, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// What waits for a carrier: bounded by what the machine has under way.
#[derive(Default)]
pub struct Queue {
    waiting: VecDeque<Change>,
    /// Files of which something is being changed: the mover works on one part of a file at a time.
    under_way: BTreeSet<FileId>,
    ends: bool,
}

impl Queue {
    pub fn push(&mut self, change: Change) {
        self.waiting.push_back(change);
    }

    /// The next one whose file is free.
    fn next(&mut self) -> Option<Change> {
        let at = self.waiting.iter().position(|change| !self.under_way.contains(&change.file))?;
        let change = self.waiting.remove(at)?;
        self.under_way.insert(change.file);
        Some(change)
    }

    /// Everything ends: what waits is not begun.
    pub fn end(&mut self) {
        self.ends = true;
        self.waiting.clear();
    }
}

impl Adapt {
    /// Makes changes until the end.
    pub(super) fn carry_all(&self) {
        loop {
            let change = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.ends {
                        return;
                    }
                    match queue.next() {
                        Some(change) => break change,
                        None => self.queued.wait(&mut queue),
                    }
                }
            };
            self.carry(&change);
            self.queue.lock().under_way.remove(&change.file);
            self.queued.notify_all();
        }
    }

    /// Makes the changes that wait, on this thread: for tests without threads. How many.
    pub fn carry_now(&self) -> usize {
        self.carry_now_if(|_| true)
    }

    /// The same, of some of them.
    pub fn carry_now_if(&self, which: impl Fn(&Change) -> bool) -> usize {
        let waiting = std::mem::take(&mut self.queue.lock().waiting);
        let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(which);
        self.queue.lock().waiting.extend(later);
        now.iter().for_each(|change| self.carry(change));
        now.len()
    }

    fn carry(&self, change: &Change) {
        let began = Instant::now();
        // By number, wherever the file is: nothing needs to have it open.
        let file = self.files.find(change.file);
        let done = match &file {
            Some(file) => self.make(change, file),
            None => Err(Error::Busy("the file is gone".into())),
        };
        let result = match done {
            Ok(bytes) => Outcome::Made { bytes, took: Time(began.elapsed().as_nanos() as u64) },
            Err(error) => {
                // In use in a way that excludes it, or written meanwhile: it is tried again.
                if !matches!(error, Error::Busy(_)) {
                    tracing::info!(file = %change.file, by = ?change.by, "a layout stays as it is for now: {error}");
                }
                Outcome::Failed
            }
        };
        if change.by == Mechanism::Stripes {
            match result {
                Outcome::Made { bytes, .. } => self.stats.add(Metric::StripesBytes, bytes),
                _ => self.stats.add(Metric::StripesFailed, 1),
            }
        }
        self.history.ended(change, result);
        let lies = file.as_ref().and_then(|file| self.lies(file));
        let done = Event::Done { ticket: change.ticket, result };
        self.tell_all(lies.into_iter().chain([done]).chain(self.without_copy(change, file.as_deref(), result)));
        if file.is_none() {
            self.tell(Event::File(change.file, policy::volume::FileEvent::Removed));
        }
    }

    /// Makes one change; the bytes that were copied.
    fn make(&self, change: &Change, file: &Arc<File>) -> Result<u64> {
        let made = |metric| self.stats.add(metric, 1);
        match change.verb {
            Verb::MoveSegment { segment, to } => self.move_segment(change, file, segment, to),
            Verb::CopySegment { segment } => self.copy_segment(change, file, segment),
            Verb::Restripe { mirror, to } => {
                self.mover.restripe(file, mirror, &self.shaped(file, &to))?;
                made(Metric::StripesRestriped);
                Ok(file.size())
            }
            Verb::AddMirror { shape: Some(to), .. } => {
                self.recorder.forks().add(&self.mover, file, &self.shaped(file, &to))?;
                made(Metric::StripesForks);
                Ok(file.size())
            }
            Verb::DropMirror { mirror } => {
                self.recorder.forks().drop_one(&self.mover, file, mirror)?;
                made(Metric::StripesForksDropped);
                Ok(0)
            }
            // Copies for checkpoints and jobs, and repair: no mechanism here asks for them.
            Verb::AddMirror { shape: None, .. } | Verb::ReplaceTargets { .. } => {
                Err(Error::Busy("nothing here makes such mirrors".into()))
            }
        }
    }

    fn shaped(&self, file: &File, shape: &Shape) -> Placement {
        stripes::placement(&self.settings, &file.pool().placement, shape)
    }

    /// A segment that came to the fast tier without a slow copy: it was written while it moved, or lies in several
    /// mirrors.
    fn without_copy(&self, change: &Change, file: Option<&File>, result: Outcome) -> Option<Event> {
        let Verb::MoveSegment { segment, to: Tier::Fast } = change.verb else { return None };
        if result == Outcome::Failed || self.has_copy(file?, segment) {
            return None;
        }
        let location = Location { file: change.file.0, segment };
        Some(Event::Tiers(Told::CopyGone { location }))
    }
}
