//! Watching a job, for all backends: each change of its state, and the progress of its data.

use super::{Backend, Core};
use crate::error::{Error, Result};
use crate::request::{JobId, JobState};
use std::time::{Duration, Instant};

/// Interval between two checks of running transfers: often enough for a user at a terminal.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which an unchanged state is repeated, so that a disconnected client is noticed.
const TOLD_EVERY: Duration = Duration::from_secs(5);

impl<B: Backend> Core<B> {
    /// Watches a job until it is over, through `look`. `progress` receives each change, and the same state again every
    /// few seconds; it returns `false` once the client is gone.
    pub fn watch_job<T: PartialEq>(
        &self,
        id: JobId,
        look: impl Fn() -> Result<T>,
        state: fn(&T) -> JobState,
        progress: &mut dyn FnMut(&T) -> bool,
    ) -> Result<T> {
        let mut told: Option<(T, Instant)> = None;
        loop {
            let seen = self.table.lock().jobs.get(&id).map(|job| (job.state, job.detail.clone()));
            let watched = look()?;
            if state(&watched).is_final() {
                return Ok(watched);
            }
            if told.as_ref().is_none_or(|(last, at)| *last != watched || at.elapsed() >= TOLD_EVERY) {
                if !progress(&watched) {
                    return Ok(watched);
                }
                told = Some((watched, Instant::now()));
            }
            let until = Instant::now() + LOOK_EVERY;
            let mut table = self.table.lock();
            while !table.closed && table.jobs.get(&id).map(|job| (job.state, job.detail.clone())) == seen {
                if self.changed.wait_until(&mut table, until).timed_out() {
                    break;
                }
            }
            if table.closed {
                return Err(Error::refused("the daemon is stopping; the job goes on", "ask again when it is back"));
            }
        }
    }
}
