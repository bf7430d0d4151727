//! What the runner asks of the volume that its jobs use. The command line wires it to the live store; tests to memory.

use crate::request::{Caller, CheckReport, Incoming, JobId, JobState, Protected, RecoveryEvent, Transfer, Wanted};
use policy::schedule::just_in_time;
use std::path::{Path, PathBuf};
use store::daemon::JobFacts;

/// The volume as jobs see it. All calls may block; none is made while the runner holds a lock.
///
/// Paths are absolute, below the mount point, and free of `.` and `..`; symbolic links are not resolved: the
/// implementation must resolve them inside the volume, with the owner's rights.
pub trait Volume: Send + Sync {
    /// Where it is mounted, or nothing while it is not.
    fn mount_point(&self) -> Option<PathBuf>;

    /// Looks whether the data of a job are all there and mends what can be mended, before the job is dispatched.
    /// A path may be a directory: all below it is meant. The error is a reason that the user can understand.
    fn check_before_job(&self, owner: Caller, paths: &[PathBuf]) -> Result<CheckReport, String>;

    /// Reads what was staged in at `paths` and compares size and checksums with what was kept when it came. Gives the
    /// bytes compared. The error names the file and says what is wrong with it.
    fn verify_staged(&self, owner: Caller, paths: &[PathBuf]) -> Result<u64, String>;

    /// Gives up what an abandoned staging to `path` has brought so far. Nothing to give up is no error.
    fn forget_staging(&self, owner: Caller, path: &Path) -> Result<(), String>;

    /// Records `uri` as the source of the file at `path`, which an ordinary command just fetched from there. Where
    /// `path` is a directory, the file in it that is called like the last part of the URI is meant. Gives back the file.
    fn record_source(&self, owner: Caller, path: &Path, uri: &str) -> Result<PathBuf, String>;

    /// What the stage-in of a job would bring, asked of the sources as the owner. Nothing where one does not tell.
    fn incoming(&self, owner: Caller, wanted: &[Wanted]) -> Option<Incoming> {
        let _ = (owner, wanted);
        None
    }

    /// Bytes still to come of one command that brings so many, as far as is known. Quick.
    fn left(&self, owner: Caller, wanted: &Wanted, bytes: u64) -> Option<u64> {
        let _ = (owner, wanted, bytes);
        None
    }

    /// Bytes of new files that fit; nothing if nobody knows.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// The same for the accounts of the volume: a job by the name that its commands know, what it names, and where it stands. Quick:
    /// locks may be held.
    fn account(&self, job: String, owner: Caller, paths: Vec<PathBuf>, facts: JobFacts) {
        let _ = (job, owner, paths, facts);
    }

    /// Counts how data arrived between two looks, for the metrics of the volume.
    fn count_arrivals(&self, before: &just_in_time::Stats, after: &just_in_time::Stats) {
        let _ = (before, after);
    }

    /// A job has another state: `of` says whose numbers they are. Quick: locks may be held.
    fn job_changed(&self, of: &str, id: JobId, owner: Caller, state: JobState, detail: &str) {
        let _ = (of, id, owner, state, detail);
    }

    /// The end of a job was not told to whom it should be: what failed, and why.
    fn job_not_told(&self, of: &str, id: JobId, owner: Caller, what: &str, why: &str) {
        let _ = (of, id, owner, what, why);
    }

    /// The files that a job marks are checkpoints from now on, in place of what it marked before. False where nobody treats checkpoints
    /// in any way of their own.
    fn mark_checkpoints(&self, owner: Caller, job: &str, marks: &[Marked]) -> Result<bool, String> {
        let _ = (owner, job, marks);
        Ok(false)
    }

    /// The job is over and marks nothing any more. Quick: locks may be held.
    fn unmark_checkpoints(&self, _job: &str) {}

    /// What tells the versions of a result apart; nothing while it is not there, is open, or is no file of the owner's.
    fn closed_version(&self, owner: Caller, path: &Path) -> Option<String> {
        let _ = (owner, path);
        None
    }

    /// What protects each file at or below `paths`, the input of that job, as far as the owner may reach them.
    fn protection(&self, owner: Caller, job: &str, paths: &[PathBuf]) -> Vec<Protected> {
        let _ = (owner, job, paths);
        Vec::new()
    }

    /// What the owner's commands bring to or take from these paths just now, and how far they are.
    fn transfers(&self, owner: Caller, paths: &[PathBuf]) -> Vec<Transfer> {
        let _ = (owner, paths);
        Vec::new()
    }

    /// Recoveries of files at or below `paths` that began in that span of time (milliseconds since 1970), as far as
    /// remembered, and as far as the owner may reach the files.
    fn recoveries(&self, owner: Caller, paths: &[PathBuf], from_ms: u64, to_ms: u64) -> Vec<RecoveryEvent>;

    /// Counts a job that came to be in `state`, for the metrics of the volume. Quick: locks may be held.
    fn count_job(&self, _state: JobState) {}
}

/// Files of a job that are checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Whose.
    pub app: String,
    /// Which: a pattern below the mount point that may hold `{version}`, `*` and `**`.
    pub path: PathBuf,
    /// Nodes that the application runs on.
    pub nodes: Option<u64>,
    /// Seconds between two of its failures.
    pub mtbf_s: Option<u64>,
    /// Seconds from one checkpoint to the next.
    pub interval_s: Option<u64>,
}

/// A volume that nothing is known of: no mount point, nothing to check, no source to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVolume;

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
