//! A job told as it goes on: each change of where it stands, and how far its data are.

use super::Runner;
use super::local::{Core, Record};
use super::queued::picture;
use super::requests::WAIT_BEAT;
use crate::error::Error;
use crate::exec::now_ms;
use crate::job::Progress;
use crate::queue::State;
use crate::request::{Caller, JobId, JobState, PartKind, Watched};
use std::time::{Duration, Instant};

/// Between two looks at what moves, where nothing else changes: often enough for eyes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A start that is nearer than this is now.
const SOON_MS: u64 = 2000;

impl Runner {
    /// Tells of a job until it is over. `progress` hears each change, the same again every few seconds, and says with
    /// `false` that nobody listens any more.
    pub fn watch(
        &self,
        caller: Caller,
        id: JobId,
        progress: &mut dyn FnMut(&Watched) -> bool,
    ) -> Result<Watched, Error> {
        let mut told: Option<(Watched, Instant)> = None;
        loop {
            let record = self.look(caller, id, Record::clone)?;
            let watched = self.watched(&record);
            if record.state.is_final() {
                return Ok(watched);
            }
            if told.as_ref().is_none_or(|(last, at)| *last != watched || at.elapsed() >= WAIT_BEAT) {
                if !progress(&watched) {
                    return Ok(watched);
                }
                told = Some((watched, Instant::now()));
            }
            let (seen, until) = (record.summary(), Instant::now() + LOOK_EVERY);
            let mut table = self.core.table.lock();
            while !table.closed && table.jobs.get(&id).map(Record::summary).as_ref() == Some(&seen) {
                if self.core.changed.wait_until(&mut table, until).timed_out() {
                    break;
                }
            }
            if table.closed {
                return Err(Error::refused("the daemon is stopping; the job goes on", "ask again when it is back"));
            }
        }
    }

    fn watched(&self, record: &Record) -> Watched {
        let mut summary = self.summary(record);
        summary.staging = None;
        let waits = !record.state.is_final() && record.is_at(PartKind::Compute, Progress::Waiting);
        Watched {
            summary,
            start_ms: waits.then(|| start_ms(&self.core, record)).flatten().filter(|at| *at > now_ms() + SOON_MS),
            arrival: (record.state == JobState::Queued).then(|| self.core.told(record)).flatten(),
            transfers: self.core.transfers(record),
        }
    }
}

/// When the queue would start the script of a job that waits.
fn start_ms(core: &Core, record: &Record) -> Option<u64> {
    if record.own.external.is_some() {
        return core.own.starts.lock().get(&record.id).copied();
    }
    let name = record.id.to_string();
    picture(core).jobs.iter().find(|job| job.state == State::Pending && job.id == name)?.start_ms
}
