//! The copies that replication orders, made by the running daemon.

use jobs::queue::{InputsOf, Queue, pbs::Pbs, slurm};
use jobs::replication::{Copies, Replication, Settings};
use jobs::runner::Runner;
use jobs::slurm::Slurm;
use jobs::uid_of;
use policy::FileId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::daemon::{Core, JOB_VARIABLES};
use store::stats::Metric;
use store::volume::{self, QueueName};

/// The copies of a daemon's files, for the jobs of one queue.
struct CopiesOnVolume {
    core: Arc<Core>,
    /// The variable in which processes find the number of their job.
    variable: &'static str,
}

impl CopiesOnVolume {
    fn below(&self, path: &Path) -> Option<String> {
        Some(path.strip_prefix(&self.core.mount_point).ok()?.to_str()?.to_string())
    }
}

impl Copies for CopiesOnVolume {
    fn files_of(&self, inputs: &[PathBuf]) -> Vec<(FileId, PathBuf)> {
        let below = inputs.iter().filter_map(|path| self.below(path));
        let files = below.flat_map(|path| self.core.checker.files_below(&path));
        files.map(|(id, path)| (id, self.core.mount_point.join(path))).collect()
    }

    fn create(&self, file: FileId, path: &Path) -> Result<(), String> {
        let below = self.below(path).ok_or("it is not in the volume")?;
        self.core.replicas.create(&self.core, file, &below).map_err(|e| e.to_string())
    }

    fn remove(&self, file: FileId) -> Result<(), String> {
        self.core.replicas.remove(&self.core, file).map_err(|e| e.to_string())
    }

    fn there(&self) -> Vec<FileId> {
        self.core.replicas.adopt(&self.core)
    }

    fn has_closed(&self, job: &str, user: &str, file: FileId) -> bool {
        uid_of(user).is_some_and(|uid| self.core.replicas.has_closed(file, self.variable, job, uid))
    }

    fn count(&self, dispatched: u64, at_risk: u64) {
        let stats = self.core.volume.stats();
        stats.add(Metric::ReplicationDispatched, dispatched);
        stats.add(Metric::ReplicationAtRisk, at_risk);
    }
}

/// Starts the replication that `[replication]` asks for. With the policy `none` it removes what an earlier one left.
pub fn start(
    core: &Arc<Core>,
    runner: &Arc<Runner>,
    of_slurm: &Slurm,
    settings: &volume::Replication,
) -> std::io::Result<Replication> {
    let queue: Arc<dyn Queue> = match settings.queue {
        QueueName::Local => runner.clone(),
        QueueName::Slurm => Arc::new(slurm::Slurm::new(either(of_slurm.inputs_of(), runner.inputs_of()))),
        QueueName::Pbs => Arc::new(Pbs::new(runner.inputs_of())),
    };
    let [of_ours, of_slurms, of_pbs] = JOB_VARIABLES;
    let variable = match settings.queue {
        QueueName::Local => of_ours,
        QueueName::Slurm => of_slurms,
        QueueName::Pbs => of_pbs,
    };
    Replication::start(
        Settings { machine: settings.machine(1).replication, poll: settings.poll },
        queue,
        Arc::new(CopiesOnVolume { core: core.clone(), variable }),
    )
}

/// What one knows of a job, or the other: it was handed to us by Slurm, or to Slurm by us.
fn either(one: InputsOf, other: InputsOf) -> InputsOf {
    Arc::new(move |id: &str| {
        let inputs = one(id);
        if inputs.is_empty() { other(id) } else { inputs }
    })
}
