//! The built-in runner: queues, dependencies and processes of the jobs of one machine.

mod core;
mod external;
mod gate;
mod local;
mod queued;
mod requests;
mod restart;
mod retry;
mod serve;
mod spool;
mod watch;
mod watched;

use self::local::{Core, Local};
use crate::account::make_dir;
use crate::arrivals::QueueKind;
use crate::backend::Jobs;
use crate::config::{Config, Recogniser};
use crate::error::{Error, Result};
use crate::offload;
use crate::volume::Volume;
use meta::state::State;
pub use serve::PREFIX;
use std::sync::Arc;

/// The runner, shared by the daemon's connections. Its jobs outlive [`Runner::shut_down`] and drop.
pub type Runner = Jobs<Local>;

impl Runner {
    /// Loads the jobs of the state store and starts those that can start.
    pub fn open(
        config: Config,
        state: Arc<dyn State>,
        volume: Arc<dyn Volume>,
        recogniser: Recogniser,
    ) -> Result<Runner> {
        make_dir(&config.jobs_dir)
            .map_err(|e| Error::World(format!("{} cannot be made: {e}; no jobs can run", config.jobs_dir.display())))?;
        let queues = self::core::queues(config.cores, config.n_transfers_max);
        let core = Core::new(config, state, volume, recogniser, &queues, Local::default())
            .map_err(|e| Error::World(format!("the job runner cannot start: {e}")))?;
        if let Some(arrivals) = &core.config.arrivals {
            arrivals.attach(QueueKind::Local, Arc::new(gate::Waiting(Arc::downgrade(&core))));
            arrivals.attach(QueueKind::Elsewhere, Arc::new(external::Waiting(Arc::downgrade(&core))));
        }
        restart::take_up(&core).map_err(|e| Error::World(format!("the jobs cannot be read: {e}")))?;
        external::take_up(&core);
        external::watch(&core).map_err(|e| Error::World(format!("the job runner cannot start: {e}")))?;
        offload::start(&core);
        Ok(Runner { core })
    }
}
