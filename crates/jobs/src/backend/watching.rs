//! Watching a job, for all backends: each change of its state, and the progress of its data.

use super::{Backend, Core};
use crate::error::{Error, Result};
use crate::request::{JobId, Watched};
use std::time::{Duration, Instant};

/// Interval between two checks of running transfers: often enough for a user at a terminal.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which an unchanged state is repeated, so that a disconnected client is noticed.
const TOLD_EVERY: Duration = Duration::from_secs(5);

impl<B: Backend> Core<B> {
    /// Watches a job until it is over, through `look`. `progress` receives each change, and the same state again every
    /// few seconds; it returns `false` once the client is gone.
    pub fn watch_job(
        &self,
        id: JobId,
        look: impl Fn() -> Result<Watched>,
        progress: &mut dyn FnMut(&Watched) -> bool,
    ) -> Result<Watched> {
        let mut told: Option<(Watched, Instant)> = None;
        loop {
            let seen = self.table.lock().jobs.get(&id).map(|job| (job.state, job.detail.clone()));
            let watched = look()?;
            if watched.summary.state.is_final() {
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
