//! The built-in runner: queues, dependencies and processes of the jobs of one machine.

mod core;
mod early;
mod external;
mod gate;
mod queued;
mod record;
mod requests;
mod restart;
mod serve;
mod spool;
mod watch;

pub use serve::PREFIX;
pub use spool::uid_of;
pub(crate) use spool::{account, base, dir_mode};

use self::core::Core;
use crate::arrivals::{Arrivals, Origin};
use crate::directives::Complaint;
use crate::offload;
use crate::request::JobId;
use crate::volume::Volume;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use store::state::State;

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
    /// From a staging command that failed to its next try, in milliseconds; doubled after each further one.
    pub retry_pause_ms: u64,
    /// Program that the word `entrepot` in directives stands for, and that is the supervisor: the running binary.
    pub program: PathBuf,
    /// Words between the program and `--spec FILE` when it is started as the supervisor: `job-exec`.
    pub supervisor_args: Vec<OsString>,
    /// Whether results named in `#STAGEOUT` leave as soon as they are closed.
    pub offload_on_close: bool,
    /// Who says when data begin to come; without it they come as soon as there is a place in the queue `dataxfer`.
    pub arrivals: Option<Arc<Arrivals>>,
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
            n_finished_max: 1000,
            n_unfinished_per_user_max: 1000,
            log_bytes_max: 64 * 1024 * 1024,
            grace_ms: 10_000,
            retry_pause_ms: crate::exec::pause_ms(),
            program: std::env::current_exe()?,
            supervisor_args: vec!["job-exec".into()],
            environment: Vec::new(),
            offload_on_close: false,
            arrivals: None,
        })
    }
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
    #[error("{cause}; {mend}")]
    Refused {
        /// Why not.
        cause: String,
        /// What to do about it.
        mend: String,
    },
    /// The machine failed: disk, state store, processes.
    #[error("{0}")]
    World(String),
}

impl Error {
    pub(crate) fn refused(cause: impl Into<String>, mend: impl Into<String>) -> Error {
        Error::Refused { cause: cause.into(), mend: mend.into() }
    }
}

/// The runner. Shared by the daemon's connections; ends when dropped or [`Runner::shut_down`], the jobs go on running.
pub struct Runner {
    core: Arc<Core>,
}

impl Runner {
    /// Takes up the jobs that the state store knows and starts what can start.
    pub fn open(
        config: Config,
        state: Arc<dyn State>,
        volume: Arc<dyn Volume>,
        recogniser: Recogniser,
    ) -> Result<Runner, Error> {
        spool::prepare(&config)
            .map_err(|e| Error::World(format!("{} cannot be made: {e}; no jobs can run", config.jobs_dir.display())))?;
        let core = Core::new(config, state, volume, recogniser)
            .map_err(|e| Error::World(format!("the job runner cannot start: {e}")))?;
        let core = Arc::new(core);
        if let Some(arrivals) = &core.config.arrivals {
            arrivals.attach(Origin::Local, Arc::new(gate::Side(Arc::downgrade(&core))));
            arrivals.attach(Origin::Elsewhere, Arc::new(external::Side(Arc::downgrade(&core))));
        }
        restart::take_up(&core).map_err(|e| Error::World(format!("the jobs cannot be read: {e}")))?;
        external::take_up(&core);
        external::watch(&core).map_err(|e| Error::World(format!("the job runner cannot start: {e}")))?;
        offload::start(&core);
        Ok(Runner { core })
    }

    /// The paths in the volume that jobs need which have not ended: what they read and what they write.
    pub fn needed_paths(&self) -> Vec<PathBuf> {
        let book = self.core.book.lock();
        let alive = book.jobs.values().filter(|record| !record.state.is_final() || record.is_active());
        alive.flat_map(record::Record::needed_paths).collect()
    }

    /// Ends the runner's own threads. Running parts go on under their supervisors and are adopted again at the next start.
    pub fn shut_down(&self) {
        self.core.book.lock().closed = true;
        self.core.changed.notify_all();
        // The counter cannot overflow: it is written once for each call.
        let _ = rustix::io::write(&self.core.closing, &1u64.to_ne_bytes());
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shut_down();
    }
}
