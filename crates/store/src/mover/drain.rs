//! Draining: everything off a target, file by file, until nothing is left.

use super::Mover;
use crate::file::File;
use crate::{Error, Result};
use policy::TargetId;
use policy::layout::Reason;
use std::sync::Arc;
use std::time::Duration;

/// How far a drain is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DrainProgress {
    /// Files moved off the target.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files seen that still lie on it, in this round.
    pub left: u64,
    /// Of these, files in use in a way that excludes a move; they are tried again.
    pub busy: u64,
}

/// One walk over all files of the namespace.
pub type Walk<'a> = Box<dyn Iterator<Item = Result<Arc<File>>> + 'a>;

/// Between two rounds over files that were busy. A guess: somebody closes a file, not a thousand times a second.
const ROUND_WAIT: Duration = Duration::from_secs(1);

impl Mover {
    /// Moves everything off a target and collects its garbage. Files that are busy are tried again, round by round, until none
    /// is left or the mover is stopped. The target should be draining, so that nothing new comes.
    ///
    /// # Errors
    /// The first failure other than `Busy` that is left after a whole round in which nothing could be moved.
    pub fn drain<'a>(
        &self,
        target: TargetId,
        mut walk: impl FnMut() -> Result<Walk<'a>>,
        mut report: impl FnMut(&DrainProgress),
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

    /// One walk; gives the first failure that is not `Busy`.
    fn drain_round(
        &self,
        target: TargetId,
        walk: Walk<'_>,
        progress: &mut DrainProgress,
        report: &mut impl FnMut(&DrainProgress),
    ) -> Result<Option<Error>> {
        (progress.left, progress.busy) = (0, 0);
        let mut failure = None;
        for file in walk {
            let file = match file {
                Ok(file) => file,
                Err(e) => {
                    progress.left += 1; // nobody knows where it lies
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
            report(progress);
            if *self.stopped.lock() {
                return Err(Error::Busy("the mover is stopped".into()));
            }
        }
        Ok(failure)
    }
}
