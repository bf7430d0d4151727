//! Draining: moves everything off a target, file by file, until nothing is left.

use super::Mover;
use crate::file::File;
use crate::{Error, Result};
use policy::TargetId;
use policy::layout::Reason;
use std::sync::Arc;
use std::time::Duration;

/// Progress of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DrainProgress {
    /// Files moved off the target.
    pub files: u64,
    /// Bytes of the moved files.
    pub bytes: u64,
    /// Files found in this round that still lie on the target.
    pub left: u64,
    /// Files of `left` that are in use in a way that excludes a move; they are retried.
    pub busy: u64,
}

/// One walk over all files of the namespace.
pub type Walk<'a> = Box<dyn Iterator<Item = Result<Arc<File>>> + 'a>;

/// Pause between two rounds over busy files. A guess: a file is not closed a thousand times a second.
const ROUND_WAIT: Duration = Duration::from_secs(1);

impl Mover {
    /// Moves everything off a target and collects its garbage. Busy files are retried, round by round, until none is
    /// left or the mover is stopped. The target should be draining, so that it gets no new objects. `report` gets the
    /// progress after each file, and returns whether the target is still to be emptied.
    ///
    /// # Errors
    /// The first failure other than `Busy` that remains after a whole round without a move.
    pub fn drain<'a>(
        &self,
        target: TargetId,
        mut walk: impl FnMut() -> Result<Walk<'a>>,
        mut report: impl FnMut(&DrainProgress) -> bool,
    ) -> Result<DrainProgress> {
        let mut progress = DrainProgress::default();
        loop {
            let before = progress.files;
            let failure = self.drain_round(target, walk()?, &mut progress, &mut report)?;
            if progress.left == 0 {
                self.forget_copies_on(target);
                self.remove_stale_copies()?;
                self.collect_garbage(target)?;
                report(&progress);
                return Ok(progress);
            }
            if let Some(failure) = failure.filter(|_| progress.files == before) {
                return Err(failure);
            }
            if !self.wait(ROUND_WAIT) {
                return Err(Error::Busy("the mover is stopped".into()));
            }
        }
    }

    /// One walk; returns the first failure that is not `Busy`.
    fn drain_round(
        &self,
        target: TargetId,
        walk: Walk<'_>,
        progress: &mut DrainProgress,
        report: &mut impl FnMut(&DrainProgress) -> bool,
    ) -> Result<Option<Error>> {
        (progress.left, progress.busy) = (0, 0);
        let mut failure = None;
        for file in walk {
            let file = match file {
                Ok(file) => file,
                Err(e) => {
                    progress.left += 1; // its place is unknown
                    failure.get_or_insert(e);
                    continue;
                }
            };
            let Some(layout) = file.layout() else { continue };
            if layout.objects().all(|(_, o)| o.target != target) {
                continue;
            }
            match self.replace_target(&file, target, Reason::Drained(target)) {
                Ok(_) => {
                    progress.files += 1;
                    progress.bytes += file.size();
                }
                Err(Error::Busy(_)) => {
                    (progress.left, progress.busy) = (progress.left + 1, progress.busy + 1);
                }
                Err(e) => {
                    progress.left += 1;
                    failure.get_or_insert(e);
                }
            }
            if !report(progress) {
                return Err(Error::Busy("the target was restored".into()));
            }
            if *self.stopped.lock() {
                return Err(Error::Busy("the mover is stopped".into()));
            }
        }
        Ok(failure)
    }
}
