//! Carriers: threads that make the machine's changes through the mover, and report the outcomes to the machine.

use super::jobs::Job;
use super::{Adapt, stripes};
use crate::{Error, Result};
use engine::events::{Kind, because};
use engine::file::File;
use engine::stats::Metric;
use policy::Time;
use policy::layout::Placement;
use policy::stripe::forks::Shape;
use policy::tier::machine::Event as TierEvent;
use policy::tier::{Location, Tier};
use policy::volume::ownership::Mechanism;
use policy::volume::{Action, Change, Event, FileEvent, Outcome, Verb};
use std::sync::Arc;
use std::time::Instant;

impl Adapt {
    /// Executes one job.
    pub(super) fn work(&self, job: Job) {
        match job {
            Job::Do(work) => work(self),
            Job::Act(Action::Change(change)) => self.carry(&change),
            Job::Act(Action::Place { shape, why }) => self.history.placed(&shape, &why),
            Job::Act(Action::Prefer { file, by }) => {
                if let Some(file) = self.files.noted(file) {
                    file.load().set_chooser(Some(*by));
                }
            }
            Job::Act(action) => {
                if let Some(burst) = &self.burst {
                    if let Action::Prepare { request, direct } = action {
                        burst.turn(request, direct).into_iter().for_each(|turn| self.files.pool().events.record(turn));
                    }
                    burst.act(action);
                }
            }
        }
    }

    fn carry(&self, change: &Change) {
        self.history.decided(change, self.files.pool());
        let began = Instant::now();
        // The file is found by its number, since no process needs to have it open.
        let file = self.files.find(change.file);
        let done = match &file {
            Some(_) if self.follows() => Err(Error::Busy("only the leading node makes this change".into())),
            Some(file) => because(change.by.name(), change.reason.to_string(), || self.make(change, file)),
            None => Err(Error::Busy("the file is gone".into())),
        };
        let result = match done {
            Ok(bytes) => Outcome::Made { bytes, took: Time(began.elapsed().as_nanos() as u64) },
            // The file is in use in a way that excludes the move, or was written during it: the move is retried.
            Err(Error::Busy(why)) => {
                tracing::debug!(file = %change.file, by = ?change.by, "a layout is not changed now: {why}");
                Outcome::Busy
            }
            Err(error) => {
                match &self.burst {
                    Some(burst) if change.by == Mechanism::Burst => {
                        self.news(Kind::Burst, burst.failed(&change.verb, &error))
                    }
                    _ => {
                        tracing::info!(file = %change.file, by = ?change.by, "a layout stays as it is for now: {error}")
                    }
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
        let lies = match &file {
            Some(file) => self.lies(file),
            None => Some(Event::File(change.file, FileEvent::Removed)),
        };
        let done = Event::Done { ticket: change.ticket, result };
        self.driver.tell_all(lies.into_iter().chain([done]).chain(self.without_copy(change, file.as_deref(), result)));
    }

    /// Makes one change; returns the number of copied bytes.
    fn make(&self, change: &Change, file: &Arc<File>) -> Result<u64> {
        if let Some(burst) = self.burst.as_ref().filter(|_| change.by == Mechanism::Burst) {
            return burst.make(self, change, file);
        }
        if matches!(change.by, Mechanism::Replicas | Mechanism::Repair) {
            return self.replicas.make(self, change, file);
        }
        let made = |metric| self.stats.add(metric, 1);
        match change.verb {
            Verb::MoveSegment { segment, to } => self.move_segment(change, file, segment, to),
            Verb::CopySegment(segment) => self.copy_segment(change, file, segment),
            Verb::Restripe { mirror, to } => {
                self.mover.restripe(file, mirror, &self.shaped(file, &to))?;
                made(Metric::StripesRestriped);
                Ok(file.size())
            }
            Verb::AddMirror { shape: Some(to), .. } => {
                self.recorder.forks.add(&self.mover, file, &self.shaped(file, &to))?;
                made(Metric::StripesForks);
                Ok(file.size())
            }
            Verb::DropMirror(mirror) => {
                self.recorder.forks.drop_one(&self.mover, file, mirror)?;
                made(Metric::StripesForksDropped);
                Ok(0)
            }
            // These verbs belong to other mechanisms.
            Verb::AddMirror { shape: None, .. } | Verb::Swap { .. } => Err(Error::Busy("its mirrors changed".into())),
            Verb::ReplaceTargets { .. } | Verb::ReplaceTarget { .. } => Err(Error::Busy("its mirrors changed".into())),
        }
    }

    fn shaped(&self, file: &File, shape: &Shape) -> Placement {
        stripes::placement(&self.settings, &file.pool().placement, shape)
    }

    /// Records a segment that moved to the fast tier without a slow copy, since it was written or lies in several
    /// mirrors.
    fn without_copy(&self, change: &Change, file: Option<&File>, result: Outcome) -> Option<Event> {
        let Verb::MoveSegment { segment, to: Tier::Fast } = change.verb else { return None };
        if !matches!(result, Outcome::Made { .. }) || self.has_copy(file?, segment) {
            return None;
        }
        let location = Location { file: change.file.0, segment };
        Some(Event::Tiers(TierEvent::CopyGone(location)))
    }
}

#[cfg(test)]
mod tests;
