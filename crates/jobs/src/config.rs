//! How jobs are run here: limits, directories, and the supervisor.

use crate::arrivals::Arrivals;
use crate::known::KnownJobs;
use crate::notice::Notices;
use crate::request::NamedSource;
use policy::schedule::retention::{Bound, Retention};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Enough jobs for a user's history, and few enough bytes for the file system of the state (guesses).
const RETENTION: Retention =
    Retention { per_user: Bound { n_max: 1000, bytes_max: 1 << 30 }, total: Bound { n_max: 4000, bytes_max: 8 << 30 } };

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
    /// Finished jobs that are remembered, with their scripts and logs.
    pub retention: Retention,
    /// Jobs that one user may have unfinished at once.
    pub n_unfinished_per_user_max: usize,
    /// Largest log of a stream of a part; the rest is dropped and noted.
    pub log_bytes_max: u64,
    /// Time between SIGTERM and SIGKILL, in milliseconds.
    pub grace_ms: u64,
    /// From a staging command that failed to its next try, in milliseconds; doubled after each further one.
    pub retry_pause_ms: u64,
    /// Program that the word `entrepot` in directives stands for, and that is the supervisor: the running binary.
    pub program: PathBuf,
    /// Words between the program and `--spec FILE` when it is started as the supervisor: `job-exec`.
    pub supervisor_args: Vec<OsString>,
    /// Whether results named in `#STAGEOUT` leave as soon as they are closed.
    pub offload_on_close: bool,
    /// Schedule of stage-ins; without it they begin as soon as there is a place in the queue `dataxfer`.
    pub arrivals: Option<Arc<Arrivals>>,
    /// Table of jobs that is shared with other nodes; nothing on a volume of one node.
    pub known: Option<Arc<KnownJobs>>,
    /// Sender of notices of the ends of jobs.
    pub notices: Option<Arc<Notices>>,
    /// Variables that every job gets, such as where the control socket is.
    pub environment: Vec<(String, String)>,
}

impl Config {
    /// The usual settings, with all cores of the machine and the running binary.
    pub fn new(jobs_dir: PathBuf) -> std::io::Result<Config> {
        let limits = crate::plan::Limits::of_machine();
        Ok(Config {
            jobs_dir,
            cores: limits.cores,
            n_transfers_max: 4,
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
        })
    }
}

/// Recognises the sources in the words of an ordinary command.
pub type Recogniser = Arc<dyn Fn(&[String]) -> Vec<NamedSource> + Send + Sync>;
