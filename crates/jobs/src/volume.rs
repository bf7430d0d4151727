//! The runner's interface to the volume that its jobs use. The command line connects it to the live store; tests to
//! memory.

use crate::request::{Caller, CheckReport, Incoming, JobId, JobState, Protected, RecoveryEvent, StageInput, Transfer};
use node::adapt::burst::Mark;
use node::daemon::JobFacts;
use policy::schedule::just_in_time;
use std::path::{Path, PathBuf};

/// Calls of the runner to the volume. All may block; none is made while the runner holds a lock.
///
/// Paths are absolute, below the mount point, and free of `.` and `..`; symbolic links are not resolved: the
/// implementation must resolve them inside the volume, with the owner's rights.
#[allow(unused_variables, reason = "a volume without a function ignores its arguments")]
pub trait Volume: Send + Sync {
    /// Mount point, or `None` while the volume is not mounted.
    fn mount_point(&self) -> Option<PathBuf>;

    /// Checks before dispatch whether the data of a job are all there, and repairs them if possible. A path may be a
    /// directory: all files below it are checked. The error is a reason for the user.
    fn check_before_job(&self, owner: Caller, paths: &[PathBuf]) -> Result<CheckReport, String>;

    /// Compares the size and checksums of the files staged in at `paths` with those recorded on arrival. Returns the
    /// bytes compared. The error names the file and the difference.
    fn verify_staged(&self, owner: Caller, paths: &[PathBuf]) -> Result<u64, String>;

    /// Removes the partial data of an abandoned staging to `path`. Missing data are no error.
    fn forget_staging(&self, owner: Caller, path: &Path) -> Result<(), String>;

    /// Records `uri` as the source of the file at `path`, which an ordinary command just fetched from there. If `path`
    /// is a directory, the file in it with the last name of the URI is meant. Returns the file.
    fn record_source(&self, owner: Caller, path: &Path, uri: &str) -> Result<PathBuf, String>;

    /// Size of a job's stage-in, requested from the sources as the owner. `None` if a source reports no size.
    fn incoming(&self, owner: Caller, wanted: &[StageInput]) -> Option<Incoming> {
        None
    }

    /// Bytes still to come of one command of `bytes`, as an estimate. Must be quick.
    fn left(&self, owner: Caller, wanted: &StageInput, bytes: u64) -> Option<u64> {
        None
    }

    /// Free bytes for new files; `None` if unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Reports a job to the accounts of the volume: its name in its commands, the paths that it names, and its state.
    /// Must be quick: locks may be held.
    fn account(&self, job: String, owner: Caller, paths: Vec<PathBuf>, facts: JobFacts) {}

    /// Counts arrivals of data since the last call, for the metrics of the volume.
    fn count_arrivals(&self, before: &just_in_time::Stats, after: &just_in_time::Stats) {}

    /// Reports a new state of a job; `of` names the numbering that `id` belongs to. Must be quick: locks may be held.
    fn job_changed(&self, of: &str, id: JobId, owner: Caller, state: JobState, detail: &str) {}

    /// Reports that the notice of a job's end could not be sent: the part that failed, and the cause.
    fn job_not_told(&self, of: &str, id: JobId, owner: Caller, what: &str, why: &str) {}

    /// Marks these files as checkpoints of the job, in place of its earlier marks. Returns false if no policy treats
    /// checkpoints.
    fn mark_checkpoints(&self, owner: Caller, job: &str, marks: Vec<Mark>) -> Result<bool, String> {
        Ok(false)
    }

    /// Removes the checkpoint marks of a job that is over. Quick: locks may be held.
    fn unmark_checkpoints(&self, job: &str) {}

    /// Identifies the version of a result; `None` while it is missing, open, or not a file of the owner.
    fn closed_version(&self, owner: Caller, path: &Path) -> Option<String> {
        None
    }

    /// Protection of each file at or below `paths`, the input of that job, as far as the owner may reach them.
    fn protection(&self, owner: Caller, job: &str, paths: &[PathBuf]) -> Vec<Protected> {
        Vec::new()
    }

    /// Running transfers of the owner's commands to or from these paths, with their progress.
    fn transfers(&self, owner: Caller, paths: &[PathBuf]) -> Vec<Transfer> {
        Vec::new()
    }

    /// Recoveries of files at or below `paths` that began between two times (milliseconds since 1970). Limited to
    /// those still remembered, and to files that the owner may reach.
    fn recoveries(&self, owner: Caller, paths: &[PathBuf], from_ms: u64, to_ms: u64) -> Vec<RecoveryEvent>;

    /// Counts a job that entered `state`, for the metrics of the volume. Quick: locks may be held.
    fn count_job(&self, state: JobState) {}
}

/// A volume without a mount point: checks find nothing, and no source is kept.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVolume;

#[cfg(test)]
impl Volume for NoVolume {
    fn mount_point(&self) -> Option<PathBuf> {
        None
    }
    fn check_before_job(&self, _: Caller, _: &[PathBuf]) -> Result<CheckReport, String> {
        Ok(CheckReport::default())
    }
    fn verify_staged(&self, _: Caller, _: &[PathBuf]) -> Result<u64, String> {
        Ok(0)
    }
    fn forget_staging(&self, _: Caller, _: &Path) -> Result<(), String> {
        Ok(())
    }
    fn record_source(&self, _: Caller, _: &Path, _: &str) -> Result<PathBuf, String> {
        Err("no volume is mounted".into())
    }
    fn recoveries(&self, _: Caller, _: &[PathBuf], _: u64, _: u64) -> Vec<RecoveryEvent> {
        Vec::new()
    }
}
