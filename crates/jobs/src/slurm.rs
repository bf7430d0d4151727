//! Jobs of a real Slurm: their data are staged in before they start, checked just before, and the results staged out
//! after.
//!
//! ```text
//!   slurmctld -- burst_buffer.lua -- `entrepot slurm hook ...` -- control socket -- this
//!      setup, data_in, pre_run, data_out, teardown                jobs --< transfers (one command each, supervised)
//! ```
//!
//! Slurm decides when each step is due. The script in its plug-in forwards the job's number and script, and polls the
//! progress. The daemon does the work: a transfer goes on when slurmctld restarts or its hook is killed. Every step may
//! be requested again. Jobs of one user that stage the same data share one transfer, which ends only with the last job.
//! A transfer runs as the job's owner, under the same supervisor as the parts of the built-in runner.

mod core;
mod ending;
mod forget;
mod hooked;
mod hooks;
pub mod install;
mod scontrol;
mod serve;
mod spool;
mod stage_in;
mod transfer;
mod users;
mod verify;
mod watch;
mod watched;
pub mod wire;

pub use serve::PREFIX;
pub use wire::{Environment, original};

use self::hooked::{Core, Hooks, Job};
use crate::arrivals::QueueKind;
use crate::backend::Jobs;
use crate::config::{Config, Recogniser};
use crate::error::{Error, Result};
use crate::request::JobId;
use crate::runner::Runner;
use crate::volume::Volume;
use meta::state::State;
use policy::schedule::easy;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// The jobs of Slurm that use this volume. Ends when dropped or [`Slurm::shut_down`]; transfers go on running.
pub type Slurm = Jobs<Hooks>;

impl Slurm {
    /// Loads the jobs of the state store. `config` is the built-in runner's: directories, limits, the supervisor.
    /// `slurm_user` (none if empty) may call the hooks, besides root and the daemon's user.
    pub fn open(
        config: Config,
        slurm_user: &str,
        state: Arc<dyn State>,
        volume: Arc<dyn Volume>,
        recogniser: Recogniser,
    ) -> Result<Slurm> {
        let slurm_users = match nix::unistd::User::from_name(slurm_user) {
            _ if slurm_user.is_empty() => Vec::new(),
            Ok(Some(user)) => vec![user.uid.as_raw()],
            _ => {
                let cause = format!("there is no user {slurm_user:?} here, whom [jobs] slurm_user names");
                return Err(Error::refused(cause, "name the user that slurmctld runs as, or leave the line out"));
            }
        };
        let failed = |e: String| Error::World(format!("the jobs of Slurm cannot be taken up: {e}"));
        spool::prepare(&config).map_err(|e| failed(e.to_string()))?;
        let hooks = Hooks { slurm_users, is_unseen: AtomicBool::new(false), runner: OnceLock::new() };
        let queue = easy::Queue { capacity: config.n_transfers_max, charge: easy::Charge::Slot };
        let core = Core::new(config, state, volume, recogniser, &[queue], hooks).map_err(|e| failed(e.to_string()))?;
        if let Some(arrivals) = &core.config.arrivals {
            arrivals.attach(QueueKind::Slurm, Arc::new(stage_in::Waiting(Arc::downgrade(&core))));
        }
        core.take_up().map_err(|e| failed(e.to_string()))?;
        watch::start(&core).map_err(|e| failed(e.to_string()))?;
        crate::offload::start(&core);
        Ok(Slurm { core })
    }

    /// Sets the runner, which has the list of parts expected from users. Only the first call counts.
    pub fn set_runner(&self, runner: &Arc<Runner>) {
        drop(self.core.own.runner.set(Arc::downgrade(runner)));
    }

    /// Lookup of the files that a job of Slurm has staged, for readers of Slurm's queue. Empty before all are there:
    /// Slurm may show a job as waiting for its turn before its data are requested.
    pub fn inputs_of(&self) -> crate::queue::InputsOf {
        let core = Arc::downgrade(&self.core);
        Arc::new(move |id: &str| -> Vec<PathBuf> {
            let (Some(core), Ok(id)) = (core.upgrade(), id.parse().map(JobId)) else { return Vec::new() };
            let table = core.table.lock();
            let job = table.jobs.get(&id).filter(|job| job.state.has_data());
            job.map(Job::staged_paths).unwrap_or_default()
        })
    }

    /// Queue of the jobs that hooks handed over and whose data are there.
    pub fn queue(&self) -> Arc<dyn crate::queue::Queue> {
        Arc::new(stage_in::Hooked(Arc::downgrade(&self.core), self.inputs_of()))
    }
}
