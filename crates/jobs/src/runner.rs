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

use self::local::{Core, Local, Record};
use crate::account::make_dir;
use crate::arrivals::QueueKind;
use crate::backend::Backend as _;
use crate::config::{Config, Recogniser};
use crate::error::{Error, Result};
use crate::everywhere::Everywhere;
use crate::offload;
use crate::request::{JobId, JobState};
use crate::volume::Volume;
use meta::state::State;
use node::calls::Calls;
use node::control::Handler;
pub use serve::PREFIX;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The runner, shared by the daemon's connections. Its jobs outlive [`Runner::shut_down`] and drop.
pub struct Runner {
    core: Arc<Core>,
}

impl Runner {
    /// Kind of the records in which its jobs are kept.
    pub const RECORDS: &str = Local::RECORDS;

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

    /// Handler of requests about its jobs; on a volume of several nodes it also forwards to other nodes.
    pub fn handler(self: &Arc<Self>, calls: Option<&Arc<Calls>>) -> Arc<dyn Handler> {
        Everywhere::over(self.clone(), PREFIX, Local::RECORDS, self.core.config.known.as_ref(), calls)
    }

    /// The paths in the volume that unfinished jobs read or write.
    pub fn needed_paths(&self) -> Vec<PathBuf> {
        let table = self.core.table.lock();
        table.jobs.values().filter(|record| Local::needs_files(record)).flat_map(Record::needed_paths).collect()
    }

    /// User id of the owner of a job.
    pub fn owner_of(&self, id: JobId) -> Option<u32> {
        self.core.owner_of(id)
    }

    /// Number of unfinished jobs in each state.
    pub fn states(&self) -> BTreeMap<JobState, u64> {
        self.core.states()
    }

    /// Ends the runner's own threads. Running parts go on under their supervisors and are adopted again at the next
    /// start.
    pub fn shut_down(&self) {
        self.core.shut_down();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shut_down();
    }
}
