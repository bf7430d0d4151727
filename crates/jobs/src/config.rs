//! Configuration of the runner: limits, directories, and the supervisor.

use crate::arrivals::Arrivals;
use crate::known::KnownJobs;
use crate::notice::Notices;
use crate::request::NamedSource;
use object::workers::Pool;
use policy::schedule::retention::{Bound, Retention};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Kept records: enough for a user's history, and small enough for the file system of the state (guesses).
const RETENTION: Retention =
    Retention { per_user: Bound { n_max: 1000, bytes_max: 1 << 30 }, total: Bound { n_max: 4000, bytes_max: 8 << 30 } };

/// Staging parts at once, unless configured.
const N_TRANSFERS_MAX: u32 = 4;

/// Maximum of threads of all background work of jobs, beside early results. A guess: more than its parts use together.
const THREADS_MAX: usize = 64;

/// Returns the pool for the background work of jobs. Two backends send `n_transfers_max` early results each.
pub fn threads(n_transfers_max: u32) -> Pool {
    Pool::new("jobs", THREADS_MAX + 2 * n_transfers_max as usize)
}

/// Configuration of the runner.
#[derive(Clone)]
pub struct Config {
    /// Directory for spools and logs: `STATE/jobs`.
    pub jobs_dir: PathBuf,
    /// Cores that compute parts may use together.
    pub cores: u32,
    /// Staging parts that may run at once.
    pub n_transfers_max: u32,
    /// Longest run in seconds of a compute part that requests no time.
    pub walltime_default_s: u64,
    /// Finished jobs that are remembered, with their scripts and logs.
    pub retention: Retention,
    /// Jobs that one user may have unfinished at once.
    pub n_unfinished_per_user_max: usize,
    /// Largest log of a stream of a part; further output is dropped, with a note.
    pub log_bytes_max: u64,
    /// Time between SIGTERM and SIGKILL, in milliseconds.
    pub grace_ms: u64,
    /// Pause in milliseconds before the first retry of a failed staging command; doubled for each further one.
    pub retry_pause_ms: u64,
    /// Program that replaces the word `entrepot` in directives, and that runs as the supervisor: the running binary.
    pub program: PathBuf,
    /// Arguments before `--spec FILE` when the program is started as the supervisor: `job-exec`.
    pub supervisor_args: Vec<OsString>,
    /// Whether results named in `#STAGEOUT` are sent as soon as they are closed.
    pub offload_on_close: bool,
    /// Schedule of stage-ins; without it they begin as soon as the queue `dataxfer` has a slot.
    pub arrivals: Option<Arc<Arrivals>>,
    /// Table of jobs that is shared with other nodes; nothing on a volume of one node.
    pub known: Option<Arc<KnownJobs>>,
    /// Sender of notices of the ends of jobs.
    pub notices: Option<Arc<Notices>>,
    /// Threads of the background work.
    pub threads: Pool,
    /// Environment variables that every job gets, such as the path of the control socket.
    pub environment: Vec<(String, String)>,
}

impl Config {
    /// The usual settings, with all cores of the machine and the running binary.
    pub fn new(jobs_dir: PathBuf) -> std::io::Result<Config> {
        let limits = crate::plan::Limits::of_machine();
        Ok(Config {
            jobs_dir,
            cores: limits.cores,
            n_transfers_max: N_TRANSFERS_MAX,
            walltime_default_s: limits.walltime_default_s,
            retention: RETENTION,
            n_unfinished_per_user_max: 1000,
            log_bytes_max: 64 * 1024 * 1024,
            grace_ms: 10_000,
            retry_pause_ms: crate::exec::pause_ms(),
            program: std::env::current_exe()?,
            supervisor_args: vec!["job-exec".into()],
            environment: Vec::new(),
            offload_on_close: false,
            arrivals: None,
            known: None,
            notices: None,
            threads: threads(N_TRANSFERS_MAX),
        })
    }

    /// This node's host, on a volume of several nodes.
    pub(crate) fn host(&self) -> Option<String> {
        self.known.as_ref().map(|known| known.host.clone())
    }
}

/// Recognises the sources in the words of an ordinary command.
pub type Recogniser = Arc<dyn Fn(&[String]) -> Vec<NamedSource> + Send + Sync>;
