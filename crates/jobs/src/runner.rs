//! The built-in runner: queues, dependencies and processes of the jobs of one machine.

use crate::directives::Complaint;
use crate::request::*;
use crate::volume::Volume;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// How the runner runs.
pub struct Config {
    /// Directory for spools and logs: `STATE/jobs`.
    pub jobs_dir: PathBuf,
    /// Cores that compute parts may use together.
    pub cores: u32,
    /// Staging parts that may run at once.
    pub n_transfers_max: u32,
    /// Longest run of a compute part that names none, in seconds.
    pub walltime_default_s: u64,
    /// Finished jobs that are remembered; the oldest go first.
    pub n_finished_max: usize,
    /// Jobs that one user may have unfinished at once.
    pub n_unfinished_per_user_max: usize,
    /// Largest log of a stream of a part; the rest is dropped and noted.
    pub log_bytes_max: u64,
    /// Time between SIGTERM and SIGKILL, in milliseconds.
    pub grace_ms: u64,
    /// Program that the word `entrepot` in directives stands for, and that is the supervisor: the running binary.
    pub program: PathBuf,
    /// Words between the program and `--spec FILE` when it is started as the supervisor: `job-exec`.
    pub supervisor_args: Vec<OsString>,
    /// Variables that every job gets, such as where the control socket is.
    pub environment: Vec<(String, String)>,
}

/// Recognises the sources in the words of an ordinary command.
pub type Recogniser = Arc<dyn Fn(&[String]) -> Vec<crate::plan::Found> + Send + Sync>;

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The script cannot be planned.
    #[error("the script was not submitted: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Script(Vec<Complaint>),
    /// No such job, or not one that the caller may see: the two look the same on purpose.
    #[error("there is no job {0} of yours; `entrepot job list --all` shows those there are")]
    NoJob(JobId),
    /// The request cannot be granted.
    #[error("{0}")]
    Refused(String),
    /// The machine failed: disk, state store, processes.
    #[error("{0}")]
    World(String),
}

/// The runner. Shared by the daemon's connections; ends when dropped or [`Runner::shut_down`], the jobs go on running.
pub struct Runner {
    volume: Arc<dyn Volume>,
}

impl Runner {
    /// Plans, spools and queues a job.
    pub fn submit(&self, caller: Caller, request: Submit) -> Result<Submitted, Error> {
        let _ = (caller, request, &self.volume);
        todo!()
    }

    /// The caller's jobs, or all for root.
    pub fn list(&self, caller: Caller, request: List) -> Vec<JobSummary> {
        let _ = (caller, request);
        todo!()
    }

    /// All about one job.
    pub fn show(&self, caller: Caller, id: JobId) -> Result<JobDetail, Error> {
        let _ = (caller, id);
        todo!()
    }

    /// Cancels a job: what runs of it is told to end, then made to. Returns at once.
    pub fn cancel(&self, caller: Caller, id: JobId) -> Result<JobSummary, Error> {
        let _ = (caller, id);
        todo!()
    }

    /// A piece of a log.
    pub fn log(&self, caller: Caller, request: &Log) -> Result<LogPiece, Error> {
        let _ = (caller, request);
        todo!()
    }

    /// Waits for the end of a job. `progress` hears each change and says with `false` that nobody listens any more.
    pub fn wait(
        &self,
        caller: Caller,
        id: JobId,
        progress: &mut dyn FnMut(&JobSummary) -> bool,
    ) -> Result<JobSummary, Error> {
        let _ = (caller, id, progress);
        todo!()
    }

    /// Serves the request `job.NAME` with its JSON body: the one entry that the control socket needs.
    pub fn handle(
        &self,
        caller: Caller,
        name: &str,
        body: serde_json::Value,
        progress: &mut dyn FnMut(serde_json::Value) -> bool,
    ) -> Result<serde_json::Value, Error> {
        let _ = (caller, name, body, progress);
        todo!()
    }

    /// Ends the runner's own threads. Running parts go on under their supervisors and are adopted again at the next start.
    pub fn shut_down(&self) {
        todo!()
    }
}
